"""Retention on a serving broker: acknowledged messages that are not delivered yet are not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

import pytest

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import ServiceNotAvailable
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state import retention
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.timed_work import Cleaner
from rmqpull_broker.store.disk_storage import DiskStorage, StorageOptions
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.waiting import WAIT_S, until

HOUR_MS = 3_600_000
TOPICS: Any = {"later": (1, TopicType.DELAY), "payments": (1, TopicType.TRANSACTION), "orders": 1}
LATER = MessageQueue("later", "broker-a", 0)
TIMER = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)

Start = Callable[..., AbstractContextManager[RunningBroker]]


@pytest.fixture(params=["memory", "disk"])
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    """Starts a broker that keeps messages for an hour, on a manual clock."""

    def started(**properties: Any) -> AbstractContextManager[RunningBroker]:
        data_dir = None if request.param == "memory" else str(tmp_path)
        limits = BrokerProperties(file_reserved_time=1, **properties)
        return running_broker(TOPICS, data_dir=data_dir, clock="manual", properties=limits)

    return started


def send_due_in(broker: RunningBroker, ms: int, body: bytes = b"x") -> None:
    broker.send("later", Message(body, "", delivery_timestamp_ms=broker.clock.now_ms() + ms))


def bodies(broker: RunningBroker, topic: str) -> list[bytes]:
    return [row.message.body for row in broker.messages(topic)]


def test_a_message_delayed_for_longer_than_retention_is_delivered(start: Start) -> None:
    with start() as broker:
        due_ms = broker.clock.now_ms() + 2 * HOUR_MS
        send_due_in(broker, 2 * HOUR_MS)
        broker.clock.advance(minutes=119, seconds=58)
        assert bodies(broker, "later") == []
        broker.clock.advance(seconds=2)
        (row,) = broker.messages("later")
        assert due_ms - 1_000 <= row.store_timestamp_ms <= due_ms
        broker.clock.advance(minutes=30)
        assert bodies(broker, "later") == [b"x"]


def test_a_topic_without_new_messages_keeps_its_last_ones(start: Start) -> None:
    with start() as broker:
        broker.send("orders", b"old")
        broker.clock.advance(hours=3)
        assert bodies(broker, "orders") == [b"old"]


def test_waiting_messages_above_the_size_limit_are_not_stored_again_in_every_pass(start: Start) -> None:
    with start(retention_bytes=10_000, mapped_file_size_commit_log=4_096) as broker:
        for number in range(30):
            send_due_in(broker, HOUR_MS // 2, b"%02d" % number * 500)
        broker.clock.advance(minutes=29)
        assert broker.look(lambda state: (len(state.delayed), state.bounds(TIMER).max_offset <= 90)) == (30, True)
        broker.clock.advance(minutes=1)
        assert broker.look(lambda state: (len(state.delayed), state.bounds(LATER).max_offset)) == (0, 30)


def test_a_message_that_waits_for_half_a_day_does_not_fill_the_disk(tmp_path: Path) -> None:
    limits = BrokerProperties(file_reserved_time=1, mapped_file_size_commit_log=64 << 10)
    with running_broker(TOPICS, data_dir=str(tmp_path), clock="manual", properties=limits) as broker:
        send_due_in(broker, 12 * HOUR_MS, b"last")
        for _ in range(6):
            assert bodies(broker, "later") == []
            broker.send("orders", *[bytes(10_000)] * 100)
            broker.clock.advance(hours=2)
            assert sum(path.stat().st_size for path in tmp_path.glob("*.log")) < 1_000_000
        assert bodies(broker, "later") == [b"last"]


class FullDisk(MemoryFileSystem):
    """A disk with a fixed number of free bytes."""

    free = 1 << 30

    def free_bytes(self) -> int:
        return self.free


class Full:
    """A broker with a full disk and old messages: some can be read, some wait."""

    def __init__(self, waiting: int) -> None:
        self.disk = FullDisk()
        storage = DiskStorage(self.disk, StorageOptions(segment_bytes=2_000))
        self.state = BrokerState(storage.store, ["broker-a"])
        storage.recover(self.state)
        self.group_commit = GroupCommit(self.state, storage, lambda facts: None)
        self.sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "host")
        self.waiting = waiting

    async def fill(self) -> None:
        later = TopicConfig("later", 1, 1, TopicType.DELAY)
        await self.group_commit.execute(lambda draft: create_topic(draft, later))
        message = Message(bytes(1_000), "ID", delivery_timestamp_ms=1_000 + 2 * HOUR_MS)
        for _ in range(self.waiting):
            await self.group_commit.execute(lambda draft: self.sender.send(draft, "later", [message], 1_000))
        self.disk.free = 1 << 20

    def logs(self) -> list[str]:
        return [name for name in self.disk.names() if name.endswith(".log")]


def test_on_a_full_disk_old_messages_are_deleted_although_some_of_them_wait() -> None:
    async def story() -> None:
        full = Full(waiting=9)
        await full.fill()
        before = full.logs()
        for _ in range(20):
            await full.group_commit.expire(1_000 + 100 * HOUR_MS)
        assert len(full.state.delayed) == 9
        assert not set(before[:-1]) & set(full.logs())
        await full.group_commit.close()

    asyncio.run(story())


def test_on_a_full_disk_messages_above_the_size_limit_are_deleted_although_a_pass_stored_as_much_again() -> None:
    async def story() -> None:
        full = Full(waiting=9)
        full.state.properties = BrokerProperties(retention_bytes=10_000)
        await full.fill()
        full.disk.free = 1 << 30
        await full.group_commit.expire(2_000)
        await full.group_commit.execute(lambda draft: create_topic(draft, TopicConfig("orders", 1, 1)))
        message = Message(bytes(1_000), "ID")
        for _ in range(5):
            await full.group_commit.execute(lambda draft: full.sender.send(draft, "orders", [message], 2_000))
        full.disk.free = 1 << 20
        for _ in range(20):
            await full.group_commit.expire(3_000)
        orders = full.state.bounds(MessageQueue("orders", "broker-a", 0))
        assert (len(full.state.delayed), orders) == (9, Bounds(5, 5))
        await full.group_commit.close()

    asyncio.run(story())


def test_a_message_that_cannot_be_stored_again_keeps_its_segment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PUT_AGAIN_MAX", 1)

    async def story() -> None:
        full = Full(waiting=9)
        await full.fill()
        before, places = full.logs(), [*full.state.delayed]
        with pytest.raises(ServiceNotAvailable, match="retention must store too many delayed and half messages again"):
            await full.group_commit.expire(1_000 + 100 * HOUR_MS)
        assert (full.logs(), [*full.state.delayed]) == (before, places)
        full.disk.free = 1 << 30
        await full.group_commit.expire(1_000 + 100 * HOUR_MS)
        assert not set(before[:-1]) & set(full.logs())
        assert len(full.state.delayed) == 9
        await full.group_commit.close()

    asyncio.run(story())


def test_a_failed_write_loses_no_waiting_command() -> None:
    async def story() -> None:
        full = Full(waiting=9)
        await full.fill()
        full.disk.free, before = 1 << 30, full.logs()
        full.disk.fail_next.add("write")
        with pytest.raises(ServiceNotAvailable):
            await full.group_commit.expire(1_000 + 100 * HOUR_MS)
        assert full.logs() == before
        await full.group_commit.expire(1_000 + 100 * HOUR_MS)
        assert len(full.state.delayed) == 9
        assert not set(before[:-1]) & set(full.logs())
        await full.group_commit.close()

    asyncio.run(story())


def test_a_stopping_broker_does_not_wait_for_a_whole_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PUT_AGAIN_MAX", 1)

    async def story() -> None:
        full = Full(waiting=9)
        await full.fill()
        full.disk.free, before = 1 << 30, full.logs()
        clock = ManualClock(1_000 + 100 * HOUR_MS)
        cleaner = Cleaner(full.group_commit, clock)
        cleaner.start()
        clock.advance(10_000)
        await until(lambda: full.state.bounds(TIMER).max_offset > 9, "begun")
        await cleaner.stop()
        assert full.state.bounds(TIMER).max_offset < 18
        assert (len(full.state.delayed), set(before) <= set(full.logs())) == (9, True)
        await full.group_commit.close()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("lasts_ms", "passes_s"),
    [(0, [10, 20, 30, 40]), (9_999, [10, 20, 30, 40]), (10_000, [10, 30]), (25_000, [10, 40])],
)
def test_a_pass_runs_every_ten_seconds_and_skips_those_that_a_longer_one_missed(
    lasts_ms: int, passes_s: list[int]
) -> None:
    async def story() -> list[int]:
        clock, begun_s = ManualClock(), list[int]()

        class SlowCommit:
            async def expire(self, now_ms: int) -> None:
                begun_s.append(clock.passing_ms() // 1_000)
                ended = asyncio.Event()
                clock.call_at(clock.passing_ms() + lasts_ms, ended.set)
                await asyncio.wait_for(ended.wait(), WAIT_S)

        cleaner = Cleaner(cast(GroupCommit, SlowCommit()), clock)
        cleaner.start()
        while clock.passing_ms() < 45_000:
            clock.advance(1)
            for _ in range(3):
                await asyncio.sleep(0)
        return begun_s

    assert asyncio.run(story()) == passes_s
