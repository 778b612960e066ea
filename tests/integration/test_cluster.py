"""A standalone cluster of a master and two workers. One worker dies with its executor within a batch.

Runs once: a cluster takes long, and the way of package and tasks is the same for both transports.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from processes.children import Child, find_free_ports
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect
from tests.harness.broker_processes import StartBroker
from tests.harness.spark_processes import (
    SPARK_BIN,
    WAIT_S,
    SparkProcesses,
    python_without_rmqpull,
    run_spark_processes,
    zip_of_connector,
)

PROGRAM = Path(__file__).parent / "programs" / "on_cluster.py"
DEPLOY = "org.apache.spark.deploy"
# Master and workers do no work themselves.
DAEMONS = {"SPARK_DAEMON_MEMORY": "256m"}
QUEUES = 4
MESSAGES = 400
# Small. No task starts before both workers have an executor.
SETTINGS = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.driver.memory": "512m",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
}


@dataclass
class Cluster:
    """A master, and its workers by name, with one core each."""

    processes: SparkProcesses
    master: str
    workers: dict[str, Child]

    def submit(self, python: str, *arguments: str) -> Child:
        """Submits an application as docs/deploying.md shows: the zip is in the folder of the call, and Spark
        distributes it.
        """
        settings = [word for name, value in SETTINGS.items() for word in ("--conf", f"{name}={value}")]
        command = [str(SPARK_BIN / "spark-submit"), "--master", self.master, "--py-files", "rmqpull.zip", *settings]
        environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": "rmqpull.zip"}
        return self.processes.start("application", *command, *arguments, **environment)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with run_spark_processes(tmp_path) as processes:
        spark_class, (port,) = str(SPARK_BIN / "spark-class"), find_free_ports()
        on_loopback = ("--host", "127.0.0.1", "--webui-port", "0")
        master = processes.start(
            "master", spark_class, f"{DEPLOY}.master.Master", *on_loopback, "--port", str(port), **DAEMONS
        )
        master.wait_for_port(port, WAIT_S)
        url = f"spark://127.0.0.1:{port}"
        worker = (spark_class, f"{DEPLOY}.worker.Worker", *on_loopback, "--cores", "1", "--memory", "512m")
        workers = {
            name: processes.start(name, *worker, "--work-dir", str(tmp_path / name), url, **DAEMONS)
            for name in ("worker-1", "worker-2")
        }
        yield Cluster(processes, url, workers)


def filled_topic(start_broker: StartBroker) -> str:
    broker = start_broker({"orders": QUEUES})
    bodies = pa.record_batch({"body": [b"%03d" % number for number in range(MESSAGES)]})
    connect(Connection(broker.endpoints, 60_000)).publish("orders", bodies)
    return broker.endpoints


def read_by(file: Path) -> tuple[list[dict[str, Any]], set[str]]:
    """Returns the rows of the application in order, and the workers that have read them."""
    rows = json.loads(file.read_text())
    workers = {row.pop("worker") for row in rows}
    return sorted(rows, key=lambda row: (row["queueId"], row["queueOffset"])), workers


def test_both_workers_read_and_the_result_is_exact_when_one_is_killed_in_mid_batch(
    cluster: Cluster, start_broker: StartBroker, tmp_path: Path
) -> None:
    endpoints = filled_topic(start_broker)
    zip_of_connector(tmp_path / "rmqpull.zip")
    python = python_without_rmqpull(tmp_path / "python")
    application = cluster.submit(python, str(PROGRAM), endpoints, "orders", str(tmp_path))

    def both_read(meeting: str) -> None:
        there = [tmp_path / meeting / worker for worker in cluster.workers]
        application.wait_until(
            lambda: all(file.exists() for file in there), f"read in both workers in the {meeting}", WAIT_S
        )

    both_read("batch")
    (tmp_path / "batch" / "go").touch()
    both_read("stream")
    cluster.workers["worker-1"].kill()
    (tmp_path / "stream" / "go").touch()
    assert application.wait(WAIT_S) == 0, application.log_end()

    batch, readers = read_by(tmp_path / "batch.json")
    assert readers == {"worker-1", "worker-2"}
    assert sorted(row["body"] for row in batch) == [f"{number:03d}" for number in range(MESSAGES)]
    assert {row["queueId"] for row in batch} == set(range(QUEUES))
    stream, survivors = read_by(tmp_path / "stream.json")
    assert survivors == {"worker-2"}
    assert stream == batch
