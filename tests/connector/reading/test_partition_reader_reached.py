"""What the driver has reached travels with the partitions: a task waits for it, also on a machine that knew nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading import partition_reader
from pyspark_rmqpull.reading.batch_reader import RmqpullBatchReader
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.connection import Connection
from rmqpull_client.model import Bounds
from rmqpull_client.transports import reached
from rmqpull_client.transports.away import AnsweredServers
from rmqpull_client.transports.reached import Reached
from tests.harness.fake_broker_client import FakeBrokerClient
from tests.harness.stream_query import EVERYTHING, make_reader

BROKER = "127.0.0.1:8081"


def plan_stream() -> Any:
    reader = make_reader()
    start = reader.initialOffset()
    return reader.partitions(start, reader.latestOffset(start, EVERYTHING))


def plan_batch() -> Any:
    options = SourceOptions.from_options({"endpoints": BROKER, "topic": "orders"}, Mode.BATCH)
    return RmqpullBatchReader(options, ROW_SCHEMA).partitions()


@pytest.fixture
def begin_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AnsweredServers]:
    """Begins a process that has reached nothing."""

    def begin() -> AnsweredServers:
        fresh = AnsweredServers()
        monkeypatch.setattr(reached, "ANSWERED", fresh)
        return fresh

    return begin


@pytest.mark.parametrize("plan", [plan_stream, plan_batch])
def test_each_task_knows_what_the_driver_has_reached_before_it_connects(
    broker: FakeBrokerClient,
    monkeypatch: pytest.MonkeyPatch,
    begin_process: Callable[[], AnsweredServers],
    plan: Callable[[], list[QueueRangesPartition]],
) -> None:
    begin_process().add(BROKER)
    broker.queues[1] = Bounds(0, 5)
    planned = plan()
    assert len(planned) == 2
    for partition in pickle.loads(pickle.dumps(planned)):
        known = begin_process()
        assert take_up(monkeypatch, partition, known) == (BROKER,)


def test_what_has_not_answered_does_not_travel(
    broker: FakeBrokerClient, begin_process: Callable[[], AnsweredServers]
) -> None:
    begin_process().add("127.0.0.1:8082")
    assert [partition.reached for partition in plan_stream()] == [Reached()]


def take_up(
    monkeypatch: pytest.MonkeyPatch, partition: QueueRangesPartition, known: AnsweredServers
) -> tuple[str, ...]:
    """Begins a task. Returns which servers its process knows when it connects."""
    seen: list[tuple[str, ...]] = []

    class Client:
        def read(self, *_: object) -> Iterator[Any]:
            return iter(())

    def connect(connection: Connection, flow: object) -> Client:
        seen.append(known.list())
        return Client()

    monkeypatch.setattr(partition_reader, "connect", connect)
    monkeypatch.setattr(partition_reader, "prepare_worker", lambda: None)
    options = SourceOptions.from_options({"endpoints": BROKER, "topic": "orders"}, Mode.STREAM)
    assert list(partition_reader.read_partition(partition, options, ROW_SCHEMA)) == []
    return seen[0]
