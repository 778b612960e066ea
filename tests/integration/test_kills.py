"""Processes that are killed at a chosen moment: during a read, and between the plan of a batch and its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame

from processes.process_table import list_descendants
from processes.spark import pick_workers
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.spark_queries import Queries

WAIT_SECONDS_MAX = 240
PULLS = {"columns": "PullColumns", "none": "PullMessage"}


@pytest.fixture
def served(extensions: str) -> Iterator[RunningBroker]:
    """A broker with the topic "orders" of two queues and thirty messages."""
    with running_broker({"orders": 2}, extensions="columns,admin" if extensions == "columns" else "admin") as broker:
        send(broker, 0, 30)
        yield broker


def send(broker: RunningBroker, first: int, until: int) -> None:
    broker.send("orders", *(b"%03d" % number for number in range(first, until)))


def bodies(first: int, until: int) -> list[bytes]:
    return [b"%03d" % number for number in range(first, until)]


def options(broker: RunningBroker, **more: str) -> dict[str, str]:
    return {"endpoints": broker.endpoints, "topic": "orders", "startingOffsets": "earliest", **more}


def hold_pulls(broker: RunningBroker, extensions: str) -> int:
    """Holds every pull from now on."""
    return broker.faults.hold(PULLS[extensions], times=None)


def test_a_python_worker_that_is_killed_in_mid_read_costs_no_row(
    queries: Queries, served: RunningBroker, extensions: str
) -> None:
    stream = queries.session.readStream.format("rmqpull").options(**options(served, consumerGroup="g")).load()
    rule_id = hold_pulls(served, extensions)
    run = queries.start(stream, available_now=True)
    run.wait_until(lambda: bool(served.faults.kept(rule_id)), "pulled")
    for pid in pick_workers(list_descendants(os.getpid())):
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(StreamingQueryException):  # local[2] gives a task one attempt
        run.query.awaitTermination(WAIT_SECONDS_MAX)
    assert run.batches == {}
    served.faults.clear()

    again = queries.run(stream)
    assert [len(batch) for batch in again.batches.values()] == [30]
    assert again.bodies == bodies(0, 30)
    assert set(served.consumer_offsets("g", "orders").values()) == {15}


def test_a_planned_batch_is_read_as_planned(queries: Queries, served: RunningBroker, extensions: str) -> None:
    """Messages that arrived since, and changed options, do not matter (docs/from-kafka.md, known complaints)."""

    def fail(_: int) -> None:
        raise RuntimeError("the sink broke")

    def stream(**more: str) -> DataFrame:
        return queries.session.readStream.format("rmqpull").options(**options(served, **more)).load()

    with pytest.raises(StreamingQueryException, match="the sink broke"):
        queries.run(stream(maxOffsetsPerTrigger="10"), fail)
    send(served, 30, 40)
    run = queries.run(stream(maxOffsetsPerTrigger="7", numPartitions="1", maxRecordsPerPartition="2"))
    first, *others = run.batches.values()
    assert sorted(bytes(row["body"]) for row in first) == bodies(0, 10)
    assert all(len(batch) <= 8 for batch in others)
    assert run.bodies == bodies(0, 40)
