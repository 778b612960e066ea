"""What the broker does by the clock. Each story advances a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.sending.delays import make_delayed_message
from rmqpull_broker.core.sending.half_messages import TransactionCheck, make_half_message
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, RowsStored
from rmqpull_broker.core.state.ports import Kept
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.timed_work import TimedWork
from rmqpull_broker.store.memory_storage import MemoryStorage

QUEUE = MessageQueue("orders", "broker-a", 0)
START_MS = 1_000_000


class Log(MemoryStorage):
    """Stores nothing; fails a given number of times."""

    byte_count = 0

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0

    def append_at_once(self, groups: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        return None  # as a disk

    def append(self, groups: Sequence[Sequence[Fact]]) -> list[Kept]:
        if self.failures:
            self.failures -= 1
            raise OSError("no space left on device")
        return super().append(groups)


class Broker:
    """A topic, a clock, and the checks of half messages."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.log = Log()
        self.state = BrokerState(self.log.store, ["broker-a"])
        self.group_commit = GroupCommit(self.state, self.log, lambda facts: None)
        self.asked: list[TransactionCheck] = []
        self.work = TimedWork(self.state, self.group_commit, self.clock, "store", self.asked.append, lambda: "id")

    async def store(self, message: Message) -> None:
        def command(draft: Draft) -> None:
            create_topic(draft, TopicConfig("orders", 1, 1))
            now_ms = self.clock.wall_ms()
            place = (
                make_half_message(draft, QUEUE, message)
                if message.transactional
                else make_delayed_message(draft, QUEUE, message, now_ms)
            )
            draft.add(
                RowsStored(place[0], (StoredMessage(place[1], draft.find_next_offset(place[0]), now_ms, "store"),))
            )

        await self.group_commit.execute(command)
        self.work.set_alarms()

    async def delay(self, delay_ms: int) -> None:
        await self.store(Message(b"x", f"{delay_ms}", delivery_timestamp_ms=self.clock.wall_ms() + delay_ms))

    async def advance(self, ms: int) -> int:
        """Advances the clock. Returns how many messages can be read then."""
        self.clock.advance(ms)
        for _ in range(50):
            await asyncio.sleep(0)
            await self.group_commit.wait_until_idle()  # a thread writes the log
        return self.state.bounds(QUEUE).max_offset


Story = Callable[[Broker], Awaitable[None]]


def run_story(story: Story) -> None:
    async def run() -> None:
        broker = Broker()
        await story(broker)
        await broker.work.stop()
        await broker.group_commit.close()

    asyncio.run(run())


@pytest.mark.proves("A delayed message that becomes due")
def test_a_delayed_message_is_delivered_at_its_time() -> None:
    async def story(broker: Broker) -> None:
        broker.work.start()
        await broker.delay(3_600_000)
        assert await broker.advance(3_598_999) == 0
        assert await broker.advance(1) == 1

    run_story(story)


def test_an_earlier_message_does_not_wait_for_a_later_one() -> None:
    async def story(broker: Broker) -> None:
        broker.work.start()
        await broker.delay(60_000)
        await broker.delay(5_000)
        assert await broker.advance(5_000) == 1
        assert await broker.advance(55_000) == 2

    run_story(story)


def test_messages_that_fell_due_while_the_broker_was_down_are_delivered_at_its_start() -> None:
    async def story(broker: Broker) -> None:
        await broker.delay(5_000)
        await broker.work.stop()
        broker.clock.advance(60_000)
        broker.work = TimedWork(
            broker.state, broker.group_commit, broker.clock, "store", broker.asked.append, lambda: "id"
        )
        broker.work.start()
        assert await broker.advance(0) == 1

    run_story(story)


def test_more_messages_than_one_command_delivers_are_all_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.sending.delays.DELIVERIES_MAX", 2)

    async def story(broker: Broker) -> None:
        broker.work.start()
        for _ in range(5):
            await broker.delay(5_000)
        assert await broker.advance(5_000) == 5

    run_story(story)


def test_a_delivery_that_cannot_be_stored_is_retried() -> None:
    async def story(broker: Broker) -> None:
        broker.work.start()
        await broker.delay(5_000)
        broker.log.failures = 2
        assert await broker.advance(5_000) == 0
        assert await broker.advance(100) == 0
        assert await broker.advance(100) == 1

    run_story(story)


def test_producers_are_asked_at_every_check_until_they_answer_or_it_is_the_last() -> None:
    async def story(broker: Broker) -> None:
        broker.work.start()
        await broker.store(Message(b"x", "ID", transactional=True, born_timestamp_ms=START_MS))
        await broker.advance(29_999)
        assert len(broker.asked) == 0
        await broker.advance(1)
        assert [check.stored.message.msg_id for check in broker.asked] == ["ID"]
        for _ in range(20):
            await broker.advance(30_000)
        assert (len(broker.asked), len(broker.state.halves)) == (15, 0)

    run_story(story)


def test_nothing_happens_after_the_end() -> None:
    async def story(broker: Broker) -> None:
        broker.work.start()
        await broker.delay(5_000)
        await broker.work.stop()
        assert await broker.advance(60_000) == 0

    run_story(story)
