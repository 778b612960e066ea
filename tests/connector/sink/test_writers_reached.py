"""What the driver has reached travels with the writer to the tasks, and what they have reached to the commit."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink import writers
from pyspark_rmqpull.sink.task import TaskCommit
from pyspark_rmqpull.sink.writers import RmqpullBatchWriter, RmqpullStreamWriter
from rmqpull_client.connection import Connection
from rmqpull_client.transports import reached
from rmqpull_client.transports.away import AnsweredServers
from rmqpull_client.transports.port import Producer
from tests.harness.fake_producer import FakeProducer

BROKER = "10.0.0.1:8081"
OPTIONS = SinkOptions.from_options({"endpoints": BROKER, "topic": "orders"})
Writer = RmqpullStreamWriter | RmqpullBatchWriter


@pytest.fixture
def begin_process(monkeypatch: pytest.MonkeyPatch, producer: FakeProducer) -> Callable[..., list[tuple[str, ...]]]:
    """Begins a process that has reached only the given servers. Returns what it knows when it asks for a producer."""

    def begin(*answered: str) -> list[tuple[str, ...]]:
        fresh, known = AnsweredServers(), list[tuple[str, ...]]()
        fresh.update(answered)

        def get_producer(connection: Connection, group: str) -> Producer:
            known.append(fresh.list())
            return cast("Producer", producer)

        monkeypatch.setattr(reached, "ANSWERED", fresh)
        monkeypatch.setattr(writers, "get_producer", get_producer)
        return known

    properties = {"sql.streaming.queryId": "query", "streaming.sql.batchId": "7"}
    context = SimpleNamespace(getLocalProperty=properties.get, partitionId=lambda: 3, attemptNumber=lambda: 0)
    monkeypatch.setattr(writers, "_get_context", lambda: context)
    monkeypatch.setattr(writers, "prepare_worker", lambda: None)
    return begin


@pytest.mark.parametrize("kind", [RmqpullStreamWriter, RmqpullBatchWriter])
def test_tasks_and_commit_know_what_was_reached_before_they_ask_for_a_producer(
    begin_process: Callable[..., list[tuple[str, ...]]], kind: type[Writer]
) -> None:
    """Spark makes a new writer for the commit of a stream, in a process of its own."""
    begin_process(BROKER)
    planned: Writer = pickle.loads(pickle.dumps(kind(OPTIONS)))

    known = begin_process()
    report = planned.write(iter([pa.record_batch({"body": [b"1"]})]))
    assert isinstance(report, TaskCommit)
    assert known == [(BROKER,)]

    known = begin_process()
    report = pickle.loads(pickle.dumps(report))
    if kind is RmqpullStreamWriter:
        RmqpullStreamWriter(OPTIONS).commit([report], 7)
    else:
        RmqpullBatchWriter(OPTIONS).commit([report])
    assert known == [(BROKER,)]
