"""Spark Connect: the server has the source, its clients do not.

Runs once: the way of a query to the server is the same for both transports.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa

from processes.children import find_free_ports
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect
from tests.harness.broker_processes import StartBroker
from tests.harness.spark_processes import SPARK_BIN, WAIT_S, SparkProcesses, python_without_rmqpull, run_spark_processes

PROGRAM = Path(__file__).parent / "programs" / "over_connect.py"
ROOT = Path(__file__).parents[2]


def start_server(processes: SparkProcesses) -> str:
    """Starts a Spark Connect server that can import the package. Returns the address for clients."""
    (port,) = find_free_ports()
    binding = {"spark.connect.grpc.binding.port": str(port), "spark.connect.grpc.binding.address": "127.0.0.1"}
    settings = [word for name, value in binding.items() for word in ("--conf", f"{name}={value}")]
    server = processes.start(
        "server",
        *(str(SPARK_BIN / "spark-submit"), "--master", "local[2]", "--driver-memory", "512m", *settings),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"),
        PYSPARK_PYTHON=sys.executable,
        PYSPARK_DRIVER_PYTHON=sys.executable,
        PYTHONPATH=f"{ROOT / 'connector'}:{ROOT / 'proto'}",
    )
    server.wait_for_port(port, WAIT_S)
    return f"sc://127.0.0.1:{port}"


def test_batch_stream_and_view_are_read_by_a_client_that_has_no_source(
    start_broker: StartBroker, tmp_path: Path
) -> None:
    broker = start_broker({"orders": 2})
    connection = Connection(broker.endpoints, 60_000)
    connect(connection).publish("orders", pa.record_batch({"body": [b"one", b"three", b"two"]}))
    with run_spark_processes(tmp_path) as processes:
        remote = start_server(processes)
        python = python_without_rmqpull(tmp_path / "python")
        arguments = (remote, broker.endpoints, "orders", str(tmp_path))
        client = processes.start("client", python, str(PROGRAM), *arguments)
        assert client.wait(WAIT_S) == 0, client.log_end()
    seen = json.loads((tmp_path / "seen.json").read_text())
    refusal = seen.pop("refusal")
    bodies = ["one", "three", "two"]
    assert seen == {"batch": bodies, "view": bodies, "stream": bodies, "client's own modules": []}
    assert "Unknown option topics" in refusal
    queues = connect(connection).query_bounds(["orders"])["orders"].queues
    ends = {queue: bounds.max_offset for queue, bounds in queues.items()}
    assert connect(connection).get_consumer_offsets("over-connect", list(queues)) == ends
