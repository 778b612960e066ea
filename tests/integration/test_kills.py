"""Processes that are killed at a chosen moment: during a read, and between the plan of a batch and its end."""

from __future__ import annotations

import os
import signal

import pytest
from pyspark.errors import StreamingQueryException

from processes.process_table import list_descendants
from processes.spark import pick_workers
from tests.harness.servers import HeldPulls, ManagedServer, StartServer
from tests.harness.spark_queries import Queries, Topic

WAIT_SECONDS_MAX = 240


@pytest.fixture
def server(start_server: StartServer) -> ManagedServer:
    return start_server({"orders": 2})


@pytest.fixture
def served(server: ManagedServer) -> Topic:
    """The topic "orders" of two queues and thirty messages."""
    topic = Topic("orders", server)
    send(topic, 0, 30)
    return topic


def send(topic: Topic, first: int, until: int) -> None:
    topic.send(*(b"%03d" % number for number in range(first, until)))


def bodies(first: int, until: int) -> list[bytes]:
    return [b"%03d" % number for number in range(first, until)]


def test_a_python_worker_that_is_killed_in_mid_read_costs_no_row(
    queries: Queries, server: ManagedServer, served: Topic
) -> None:
    stream = queries.stream(served, consumerGroup="g")
    held: list[HeldPulls] = []
    run = queries.start(stream, lambda _: held.append(server.hold_pulls()), available_now=True)
    try:
        run.wait_until(lambda: bool(held) and held[0].are_waiting(), "pulled")
        for pid in pick_workers(list_descendants(os.getpid())):
            os.kill(pid, signal.SIGKILL)
        with pytest.raises(StreamingQueryException):  # local[2] gives a task one attempt
            run.query.awaitTermination(WAIT_SECONDS_MAX)
        assert run.batches == {}
    finally:  # other tests need the server
        for one in held:
            one.release()

    again = queries.run(stream)
    assert [len(batch) for batch in again.batches.values()] == [30]
    assert again.bodies == bodies(0, 30)
    assert served.committed("g") == {0: 15, 1: 15}


def test_a_planned_batch_is_read_as_planned(queries: Queries, served: Topic) -> None:
    """Messages that arrived since, and changed options, do not matter (docs/kafka-options.md, known complaints)."""

    def fail(_: int) -> None:
        raise RuntimeError("the sink broke")

    with pytest.raises(StreamingQueryException, match="the sink broke"):
        queries.run(queries.stream(served, maxOffsetsPerTrigger="10"), fail)
    send(served, 30, 40)
    options = {"maxOffsetsPerTrigger": "7", "numPartitions": "1", "maxRecordsPerPartition": "2"}
    run = queries.run(queries.stream(served, **options))
    first, *others = run.batches.values()
    assert sorted(bytes(row["body"]) for row in first) == bodies(0, 10)
    assert all(len(batch) <= 8 for batch in others)
    assert run.bodies == bodies(0, 40)
