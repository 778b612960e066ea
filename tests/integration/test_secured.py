"""Reads through TLS and signatures, with files that tasks read themselves, and with keys that appear nowhere."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException

from rmqpull_broker.testing import running_broker
from tests.harness.secured_proxy import CertificateAuthority, StartProxy
from tests.harness.spark_queries import Queries, Topic

SECRET, ACCESS_KEY = "s3cr3tOfTheTests", "acc3ssOfTheTests"
KEYS = {ACCESS_KEY: SECRET}
WAIT_S = 300


@pytest.fixture
def secured(topic: Topic, authority: CertificateAuthority, start_proxy: StartProxy) -> tuple[Topic, dict[str, str]]:
    """A topic behind a proxy with TLS, client certificates and signatures, and the options to read it."""
    proxy = start_proxy(topic.endpoints, KEYS, authority.issue("server", "127.0.0.1"), asks_certificate=True)
    cert_file, key_file = map(str, authority.issue("client"))
    options = {"accessKey": ACCESS_KEY, "secretKey": SECRET, "tlsEnabled": "true"}
    files = {"tlsCaFile": str(authority.ca_file), "tlsCertFile": cert_file, "tlsKeyFile": key_file}
    return replace(topic, endpoints=proxy.endpoints), options | files


def test_a_stream_and_a_batch_read_are_signed_and_encrypted(
    queries: Queries, topic: Topic, secured: tuple[Topic, dict[str, str]]
) -> None:
    behind, options = secured
    bodies = [b"%02d" % number for number in range(30)]
    topic.send(*bodies)
    stream = queries.stream(behind, consumerGroup="g", maxOffsetsPerTrigger="12", **options)
    run = queries.run(stream)
    assert run.bodies == bodies
    assert len(run.batches) == 3
    assert topic.committed("g") == topic.ends()
    assert sorted(bytes(row["body"]) for row in queries.batch(behind, **options).collect()) == bodies


def test_a_wrong_secret_ends_a_query_before_any_work(
    queries: Queries, topic: Topic, secured: tuple[Topic, dict[str, str]]
) -> None:
    topic.send(b"one")
    behind, options = secured
    wrong = options | {"secretKey": "wr0ngOfTheTests"}
    with pytest.raises(StreamingQueryException, match=r"UNAUTHORIZED: check signature failed\.") as refused:
        queries.run(queries.stream(behind, **wrong))
    assert "wr0ngOfTheTests" not in str(refused.value)
    with pytest.raises(PySparkException, match=r"UNAUTHORIZED: check signature failed\.") as refused_batch:
        queries.batch(behind, **wrong).collect()
    assert "wr0ngOfTheTests" not in str(refused_batch.value)


def test_a_file_that_is_missing_on_a_machine_ends_the_query_with_its_name(
    queries: Queries, secured: tuple[Topic, dict[str, str]]
) -> None:
    behind, options = secured
    with pytest.raises(
        StreamingQueryException, match=r"Option tlsCaFile is '/nowhere/ca\.pem', which cannot be read on"
    ):
        queries.run(queries.stream(behind, **options | {"tlsCaFile": "/nowhere/ca.pem"}))


PROGRAM = Path(__file__).parent / "programs" / "shown_everywhere.py"


@pytest.mark.processes
def test_the_secret_appears_nowhere(authority: CertificateAuthority, start_proxy: StartProxy, tmp_path: Path) -> None:
    """Plans, descriptions, progress, checkpoint, event log, and all logs, also of a failing query.

    Runs once: both transports sign in one place, and its session takes long.
    """
    with running_broker({"orders": 1}) as broker:
        broker.send("orders", b"one", b"two")
        proxy = start_proxy(broker.endpoints, KEYS, authority.issue("server", "127.0.0.1"))
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
