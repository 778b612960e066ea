"""The examples do what they say, and continue after a restart."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from processes.apache.access import Account, Tls
from processes.apache.releases import Release
from rmqpull_broker.core.model import Message
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer
from tests.harness.secured_proxy import CertificateAuthority
from tests.harness.secured_servers import start_proxy_with
from tests.harness.server_kinds import WITHOUT_PROXY, needs
from tests.harness.spark_sink import ServeSink, SinkHarness

EXAMPLES = Path(__file__).parents[3] / "examples"


def load_example(name: str) -> Callable[..., None]:
    """Loads an example, to run it in this process, which has a session already."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Callable[..., None] = module.main
    return main


@needs("endpoints")
def test_the_round_trip(serve: ServeSink, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sink = serve({"orders": 2, "paid": 2, "refused": 1})
    sink.server.send("orders", b'{"id": 1, "amount": 250}', b'{"id": 2, "amount": 5}')
    load_example("round_trip")(sink.server.options["endpoints"], tmp_path)
    sink.server.send("orders", b'{"id": 3, "amount": 101}')
    load_example("round_trip")(sink.server.options["endpoints"], tmp_path)
    assert {row.message.tags for row in sink.messages("paid")} == {"order-1", "order-3"}
    assert [row.message.tags for row in sink.messages("refused")] == ["order-2"]
    assert len(sink.bodies("paid")) == 2
    assert capsys.readouterr().out == "written: 2\nwritten: 1\n"


@needs("stages")
def test_for_each_batch(serve: ServeSink, tmp_path: Path) -> None:
    sink = serve({"orders": 2, "copies": 2, "counts": 1})
    sink.server.send("orders", Message(b"a", "", tags="paid"), Message(b"b", "", tags="paid"), Message(b"c", ""))
    load_example("for_each_batch")(sink.server.options["endpoints"], tmp_path)
    assert sorted(sink.bodies("copies")) == [b"a", b"b", b"c"]
    assert {(row.message.tags, row.message.body) for row in sink.messages("counts")} == {
        ("paid", b"2"),
        (None, b"1"),
    }


def test_a_topic_is_copied_through_a_proxy_with_the_rights_that_the_example_names(
    spark: SparkSession,
    authority: CertificateAuthority,
    start_apache: StartApache,
    apache_release: Release,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Runs once: the example is for a proxy."""
    if apache_release.name in WITHOUT_PROXY:
        pytest.skip(WITHOUT_PROXY[apache_release.name])
    user = Account(
        "copier", "secret-of-copier", topics={"orders": "SUB|GET", "copies": "PUB"}, groups={"copier": "SUB|GET"}
    )
    cluster = start_proxy_with(user, Tls(*authority.issue("apache", "127.0.0.1")), start_apache)
    server = ApacheServer(cluster)
    server.create_topics({"orders": 2, "copies": 2})
    monkeypatch.setenv("ROCKETMQ_ACCESS_KEY", user.access_key)
    monkeypatch.setenv("ROCKETMQ_SECRET_KEY", user.secret_key)
    copy = load_example("through_proxy")
    for bodies in ((b"one", b"two"), (b"three",)):
        server.send("orders", *bodies)
        copy(cluster.proxy.remoting_address, authority.ca_file, tmp_path)
    copies = SinkHarness(spark, server, tmp_path / "unused").bodies("copies")
    assert sorted(copies) == [b"one", b"three", b"two"]
    assert capsys.readouterr().out == "copied: 2\ncopied: 1\n"
