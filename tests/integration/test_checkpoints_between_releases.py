"""A query without state moves between releases of Spark and back, with its checkpoint.

Runs once: offsets in a checkpoint are the same for every kind of server. ``make test-spark VERSION=4.1`` runs this with
two releases: its own, and that of this checkout's environment.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client import Connection, connect
from tests.harness.broker_processes import StartBroker
from tests.harness.spark_processes import WAIT_S

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).parent / "programs" / "read_on.py"
THIS, OTHER = sys.executable, str(ROOT / ".venv" / "bin" / "python")
TOPIC = "moving"

pytestmark = pytest.mark.skipif(
    not os.path.exists(OTHER) or Path(sys.prefix) == ROOT / ".venv",
    reason="this environment is the checkout's own: make test-spark VERSION=4.1 has another release beside it",
)


def run(python: str, *arguments: str) -> dict[str, Any]:
    """Runs the program with a Python, and returns what it prints."""
    packages = os.pathsep.join(str(ROOT / root) for root in ("connector", "proto"))
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": packages}
    environment.pop("SPARK_HOME", None)  # that of the tests is of this release
    command = [python, str(PROGRAM), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


@pytest.mark.parametrize(("first", "second"), [(THIS, OTHER), (OTHER, THIS)], ids=["to the other", "from the other"])
def test_each_message_is_read_once_on_two_releases(
    start_broker: StartBroker, tmp_path: Path, first: str, second: str
) -> None:
    broker = start_broker({TOPIC: 2})
    client = connect(Connection(broker.endpoints))
    releases, batches = list[str](), list[dict[str, list[str]]]()
    for number, (python, fails) in enumerate(
        [(first, False), (first, True), (second, False), (second, True), (first, False)]
    ):
        client.publish(TOPIC, pa.record_batch({"body": [f"{number}a".encode(), f"{number}b".encode()]}))
        told = run(python, broker.endpoints, TOPIC, str(tmp_path / "checkpoint"), *["fails"] * fails)
        assert told["failed"] == fails
        releases.append(told["pyspark"])
        batches.append(told["batches"])
    assert len(set(releases)) == 2
    # Each release runs the other's unfinished micro-batch again; PySpark 4.0 and 4.1 then end a run.
    read = [body for of_run in batches for rows in of_run.values() for body in rows]
    assert len(read) == len(set(read))
    assert {"0a", "0b", "1a", "1b", "3a", "3b"} <= set(read)
    assert batches[2]["1"] == ["1a", "1b"]
