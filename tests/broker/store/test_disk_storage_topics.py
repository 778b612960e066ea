"""Starts and stops with many topics that have few messages: the work and the files grow with the messages alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.log import rows
from rmqpull_broker.store.queues import tail
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness, list_files

LARGE = StorageOptions(free_bytes_min=0)
FILE_BYTES_OF_TOPIC_MAX = 600
"""A message in columns, as a snapshot would have it, is more than 2 KB."""


def fill(topics: int, sends: int = 1) -> MemoryFileSystem:
    """Returns the disk of a killed broker, each of whose topics has eight queues and a few messages in one of them."""
    disk = MemoryFileSystem()
    broker = StorageHarness(disk, LARGE)
    for number in range(topics):
        broker.topic(f"topic-{number}", 8)
        for sent in range(sends):
            broker.send(b"x", topic=f"topic-{number}", now_ms=1_000 + sent)
    broker.storage.close()
    return disk


@pytest.fixture
def made_columns(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of sends in each Arrow batch that is made of rows in the form of the log."""
    made: list[int] = []
    decode = rows.decode_columns

    def count(encoded: Iterable[bytes]) -> pa.RecordBatch:
        sends = list(encoded)
        made.append(len(sends))
        return decode(sends)

    monkeypatch.setattr(tail, "decode_columns", count)
    return made


@pytest.mark.parametrize("topics", [20, 40])
def test_neither_a_stop_nor_a_start_makes_columns_of_a_few_messages(topics: int, made_columns: list[int]) -> None:
    disk = fill(topics)
    StorageHarness(disk, LARGE).stop()
    (snapshot,) = list_files(disk, ".snapshot")
    assert disk.size(snapshot) < topics * FILE_BYTES_OF_TOPIC_MAX
    again = StorageHarness(disk, LARGE)
    assert (again.recovery.fact_batches, made_columns) == (0, [])
    assert not again.storage.store.list_ready()
    assert again.state.count_messages() == topics
    assert again.bodies(MessageQueue("topic-3", "broker-a", 0)) == [b"x"]
    assert made_columns == [1]


def test_a_start_holds_the_same_after_a_snapshot_as_after_a_replay() -> None:
    disk = fill(20, sends=3)
    replayed = StorageHarness(disk, LARGE)
    unsaved_bytes = replayed.storage.store.unsaved_bytes
    replayed.stop()
    from_snapshot = StorageHarness(disk, LARGE)
    assert from_snapshot.storage.store.unsaved_bytes == unsaved_bytes
    assert from_snapshot.observed() == replayed.observed()


@pytest.mark.parametrize("is_killed_first", [False, True])
def test_a_queue_is_as_new_after_a_snapshot_as_its_last_message(is_killed_first: bool) -> None:
    disk = MemoryFileSystem()
    broker = StorageHarness(disk, LARGE)
    broker.topic()
    for now_ms in (1_000, 2_000, 9_000):
        broker.send(b"x", now_ms=now_ms)
    if is_killed_first:
        broker.storage.close()
        broker = StorageHarness(disk, LARGE)
    broker.stop()
    assert StorageHarness(disk, LARGE).state.find_newest_message_ms() == 9_000


def test_messages_are_counted_in_the_queues_that_have_some(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[MessageQueue] = []

    def count(method: Any) -> Any:
        def counted(store: ConsumeQueues, queue: MessageQueue) -> Any:
            asked.append(queue)
            return method(store, queue)

        return counted

    state: BrokerState = StorageHarness(fill(20), LARGE).state
    monkeypatch.setattr(ConsumeQueues, "bounds", count(ConsumeQueues.bounds))
    monkeypatch.setattr(ConsumeQueues, "find_last_store_ms", count(ConsumeQueues.find_last_store_ms))
    assert (state.count_messages(), len(asked)) == (20, 20)
    assert (state.find_newest_message_ms(), len(asked)) == (1_000, 40)
    assert state.bounds(asked[0]) == Bounds(0, 1)
