"""Reads through TLS and signatures, with files that tasks read themselves, and with keys that appear nowhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from rmqpull_broker.testing import running_broker
from tests.harness.secured_proxy import CertificateAuthority, StartProxy
from tests.harness.secured_servers import ACCESS_KEY, GROUP, SECRET, SecuredServer, StartSecured
from tests.harness.server_kinds import needs
from tests.harness.spark_queries import Queries, Topic

WAIT_S = 300
WRONG_KEY = r"[Cc]heck signature failed"


@pytest.fixture
def secured(start_secured: StartSecured) -> SecuredServer:
    """A server with TLS, client certificates and signatures, with the topic "orders"."""
    return start_secured({"orders": 3})


def seen_with_keys(secured: SecuredServer, **options: str) -> tuple[Topic, dict[str, str]]:
    """The topic, and the options to read it."""
    return Topic("orders", secured.server), secured.options | options


@needs("TLS and keys")
def test_a_stream_and_a_batch_read_are_signed_and_encrypted(queries: Queries, secured: SecuredServer) -> None:
    topic, options = seen_with_keys(secured)
    bodies = [b"%02d" % number for number in range(30)]
    topic.send(*bodies)
    stream = queries.stream(topic, consumerGroup=GROUP, maxOffsetsPerTrigger="12", **options)
    run = queries.run(stream)
    assert run.bodies == bodies
    assert len(run.batches) == 3
    assert topic.committed(GROUP) == topic.ends()
    assert sorted(bytes(row["body"]) for row in queries.batch(topic, **options).collect()) == bodies


@needs("TLS and keys")
def test_a_wrong_secret_ends_a_query_before_any_work(queries: Queries, secured: SecuredServer) -> None:
    topic, wrong = seen_with_keys(secured, secretKey="wr0ngOfTheTests")
    topic.send(b"one")
    with pytest.raises(StreamingQueryException, match=WRONG_KEY) as refused:
        queries.run(queries.stream(topic, **wrong))
    assert "wr0ngOfTheTests" not in str(refused.value)
    with pytest.raises(PySparkException, match=WRONG_KEY) as refused_batch:
        queries.batch(topic, **wrong).collect()
    assert "wr0ngOfTheTests" not in str(refused_batch.value)


@needs("TLS and keys")
def test_a_file_that_is_missing_on_a_machine_ends_the_query_with_its_name(
    queries: Queries, secured: SecuredServer
) -> None:
    topic, options = seen_with_keys(secured, tlsCaFile="/nowhere/ca.pem")
    with pytest.raises(
        StreamingQueryException, match=r"Option tlsCaFile is '/nowhere/ca\.pem', which cannot be read on"
    ):
        queries.run(queries.stream(topic, **options))


PROGRAM = Path(__file__).parent / "programs" / "shown_everywhere.py"


@pytest.mark.processes
def test_the_secret_appears_nowhere(authority: CertificateAuthority, start_proxy: StartProxy, tmp_path: Path) -> None:
    """Plans, descriptions, progress, checkpoint, event log, and all logs, also of a failing query.

    Runs once: both transports sign in one place, and its session takes long.
    """
    with running_broker({"orders": 1}) as broker:
        broker.send("orders", b"one", b"two")
        proxy = start_proxy(broker.endpoints, {ACCESS_KEY: SECRET}, authority.issue("server", "127.0.0.1"))
        given = {
            "endpoints": proxy.endpoints,
            "topic": "orders",
            "startingOffsets": "earliest",
            "accessKey": ACCESS_KEY,
            "secretKey": SECRET,
            "tlsEnabled": "true",
            "tlsCaFile": str(authority.ca_file),
        }
        arguments = [f"{name}={value}" for name, value in given.items()]
        command = [sys.executable, str(PROGRAM), str(tmp_path), *arguments]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    texts = {"stdout": ran.stdout, "stderr": ran.stderr}
    texts |= {path.name: path.read_text(errors="replace") for path in tmp_path.rglob("*") if path.is_file()}
    # The search works: it finds the option beside the secret.
    assert "UNAUTHORIZED" in ran.stderr
    assert "/nowhere/ca.pem" in ran.stdout
    assert "secretKey -> *********(redacted)" in ran.stdout
    assert texts.keys() >= {"metadata", "0"}
    assert any(proxy.endpoints in text for name, text in texts.items() if name.startswith("events"))
    assert [name for name, text in texts.items() if SECRET in text] == []
