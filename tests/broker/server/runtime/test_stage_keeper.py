"""What the broker does for stages by itself, without their callers. Each story advances a manual clock.

All messages are delayed, because a commit stores only these later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import pyarrow as pa
import pytest

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import ServiceNotAvailable
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.sending.publishing import Published
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from rmqpull_broker.core.sending.storing import BatchToStore
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, QueuePart
from rmqpull_broker.core.state.ports import Kept
from rmqpull_broker.core.state.stage_facts import CallStaged, ColumnsStaged, StagesCommitted, TransactionId
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.stage_keeper import RETRY_MS, TIMEOUT_MS, StageKeeper
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_proto.names import TIMER_TOPIC
from tests.harness.core import check_batch, commit_stages
from tests.harness.waiting import until

QUEUE = MessageQueue(TIMER_TOPIC, "broker-a", 0)
DUE = pa.array([9_000_000_000], pa.timestamp("us", tz="UTC"))
BATCH, WRITE = TransactionId("query", 7), TransactionId("write", None)


class Log(MemoryStorage):
    """Stores nothing; fails a given number of times, and counts the attempts."""

    def __init__(self) -> None:
        super().__init__()
        self.failures = 0
        self.appends = 0

    def append_at_once(self, groups: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        return None  # as a disk

    def append(self, groups: Sequence[Sequence[Fact]]) -> list[Kept]:
        self.appends += 1
        if self.failures:
            self.failures -= 1
            raise OSError("no space left on device")
        return super().append(groups)


class DamagedSender(Sender):
    """Fails for damaged rows as long as ``damage`` is set."""

    damage: Exception | None = None

    def store(self, draft: Draft, to_store: BatchToStore, now_ms: int) -> tuple[QueuePart, ...]:
        if self.damage is not None and b"damaged" in to_store.batch.column("body").to_pylist():
            raise self.damage
        return super().store(draft, to_store, now_ms)


class Broker:
    """A topic, a clock, and writers that stage and leave."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.log = Log()
        self.state = BrokerState(self.log.store, ["broker-a"])
        self.sender = DamagedSender(QueueSelector(), MessageIds(bytes(6), 1), "store")
        self.group_commit = GroupCommit(self.state, self.log, lambda facts: self.keeper.handle(facts))
        self.begin()

    def begin(self) -> None:
        """Restarts the stage keeper with the same state."""
        self.keeper = StageKeeper(self.state, self.group_commit, self.clock, self.sender)

    async def topic(self) -> None:
        await self.group_commit.execute(lambda draft: create_topic(draft, TopicConfig("orders", 1, 1, TopicType.DELAY)))

    async def hand_over(
        self, *bodies: bytes, batch: TransactionId = BATCH, stage_id: str = "a", timeout_ms: int = 0
    ) -> None:
        """Stages each body in a separate call."""

        def command(draft: Draft, sequence: int, body: bytes) -> None:
            published = Published("orders", pa.record_batch({"body": [body], "deliveryTimestamp": DUE}), "client")
            checked = check_batch(self.sender, published, self.clock.wall_ms())
            stage(draft, self.sender, batch, stage_id, sequence, checked, self.clock.wall_ms(), timeout_ms)

        for sequence, body in enumerate(bodies):
            await self.group_commit.execute(partial(command, sequence=sequence, body=body))

    async def commit(self, call_count: int, batch: TransactionId = BATCH, stage_id: str = "a") -> None:
        """Commits without waiting."""
        named = [CommittedStage(stage_id, call_count)]
        await self.group_commit.execute(lambda draft: commit_stages(draft, batch, named))

    async def advance(self, ms: int = 0) -> int:
        """Advances the clock. Returns how many messages have been stored then."""
        self.clock.advance(ms)
        await self.group_commit.wait_until_idle()
        await until(lambda: not self.keeper.is_busy, "done with its work")
        await self.group_commit.wait_until_idle()
        return self.state.bounds(QUEUE).max_offset

    @property
    def bodies(self) -> list[bytes]:
        batches = self.state.store.read(QUEUE, *self.state.bounds(QUEUE))
        return [body for batch in batches for body in batch.column("body").to_pylist()]

    @property
    def stages(self) -> list[str]:
        return list(self.state.stages.all())


def play(story: Callable[[Broker], Awaitable[None]]) -> None:
    async def run() -> None:
        broker = Broker()
        await broker.topic()
        await story(broker)
        await broker.keeper.stop()
        await broker.group_commit.close()

    asyncio.run(run())


def test_a_commit_is_stored_without_a_waiting_caller() -> None:
    """Its caller is killed before the response: the call is cancelled, but its command is stored."""

    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", b"2")
        await broker.commit(2)
        assert await broker.advance() == 2
        assert broker.stages == []

    play(story)


def test_a_caller_that_leaves_while_calls_are_stored_stops_nothing() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(*(b"%d" % number for number in range(5)))
        await broker.commit(5)
        waiting = asyncio.ensure_future(broker.keeper.wait_until_stored(BATCH))
        await asyncio.sleep(0)
        waiting.cancel()
        assert await broker.advance() == 5

    play(story)


def test_a_stage_whose_writer_left_before_the_response_has_its_timeout() -> None:
    """Also one whose writer never calls again: only the fact counts."""

    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", timeout_ms=5_000)
        await broker.advance(4_999)
        assert broker.stages == ["a"]
        await broker.advance(1)
        assert broker.stages == []

    play(story)


def test_a_restart_restarts_the_timeout_of_each_stage() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", timeout_ms=5_000)
        await broker.hand_over(b"2", stage_id="b", batch=WRITE)
        await broker.keeper.stop()
        broker.clock.advance(60_000)
        broker.begin()
        broker.keeper.start()
        await broker.advance(4_999)
        assert broker.stages == ["a", "b"]
        await broker.advance(1)
        assert broker.stages == ["b"]
        await broker.advance(TIMEOUT_MS - 5_000)
        assert broker.stages == []

    play(story)


def test_a_restart_resumes_a_commit_that_was_partly_stored() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", b"2", b"3")
        await broker.keeper.stop()
        await broker.commit(3)
        assert await broker.advance(60_000) == 0
        with pytest.raises(ServiceNotAvailable, match="the broker is stopping"):
            await broker.keeper.wait_until_stored(BATCH)
        broker.begin()
        broker.keeper.start()
        assert await broker.advance() == 3

    play(story)


def test_a_full_disk_delays_a_commit_and_fails_the_waiting_call() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", b"2")
        await broker.keeper.stop()
        await broker.commit(2)
        broker.begin()
        broker.log.failures = 1
        waiting = asyncio.ensure_future(broker.keeper.wait_until_stored(BATCH))
        assert await broker.advance() == 0
        with pytest.raises(ServiceNotAvailable, match="no space left"):
            await waiting
        assert await broker.advance(RETRY_MS - 1) == 0
        assert await broker.advance(1) == 2
        await broker.keeper.wait_until_stored(BATCH)

    play(story)


def test_rows_that_cannot_be_stored_delay_only_their_own_writer() -> None:
    """Such as rows of a chunk that is damaged, permanently or temporarily."""

    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", b"damaged", b"3")
        await broker.hand_over(b"4", stage_id="b", batch=TransactionId("query", 8))
        await broker.hand_over(b"5", b"6", stage_id="c", batch=WRITE)
        broker.sender.damage = OSError("a chunk is damaged")
        await broker.commit(3)
        await broker.commit(1, TransactionId("query", 8), "b")
        await broker.commit(2, WRITE, "c")
        waiting = [
            asyncio.ensure_future(broker.keeper.wait_until_stored(batch))
            for batch in (BATCH, TransactionId("query", 8), WRITE)
        ]
        assert await broker.advance() == 3
        assert broker.bodies == [b"1", b"5", b"6"]
        await waiting[2]
        for told in waiting[:2]:
            with pytest.raises(ServiceNotAvailable, match=r"not stored yet; .* a chunk is damaged"):
                await told
        broker.sender.damage = None
        await broker.advance(RETRY_MS)
        assert broker.bodies == [b"1", b"5", b"6", b"damaged", b"3", b"4"]

    play(story)


def test_a_failed_drop_is_retried_later() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", timeout_ms=5_000)
        broker.log.failures, before = 2, broker.log.appends
        await broker.advance(5_000)
        await broker.advance(RETRY_MS - 1)
        assert (broker.log.appends - before, broker.stages) == (1, ["a"])
        await broker.advance(1)
        await broker.advance(RETRY_MS)
        assert (broker.log.appends - before, broker.stages) == (3, [])

    play(story)


def test_a_transaction_that_is_kept_alive_is_not_dropped_with_overdue_ones() -> None:
    """It is kept alive while the drop of the first one is written."""

    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", timeout_ms=5_000)
        await broker.hand_over(b"2", stage_id="b", batch=WRITE, timeout_ms=5_000)
        broker.clock.advance(5_000)
        await asyncio.sleep(0)  # the first drop is being written
        broker.keeper.keep_alive(WRITE, 5_000)
        await broker.advance()
        assert broker.stages == ["b"]
        await broker.advance(5_000)
        assert broker.stages == []

    play(story)


def test_keeping_unknown_transactions_alive_stores_nothing() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1", timeout_ms=5_000)
        appends = broker.log.appends
        for number in range(20_000):
            broker.keeper.keep_alive(TransactionId(f"unknown {number}", None), 1)
        await broker.advance(1)
        assert broker.log.appends == appends
        await broker.hand_over(b"2", stage_id="b", batch=WRITE)
        assert broker.stages == ["a", "b"]

    play(story)


def test_staging_after_the_commit_is_reported_and_stores_nothing() -> None:
    async def story(broker: Broker) -> None:
        await broker.hand_over(b"1")
        await broker.commit(1)
        facts: list[Fact] = []
        broker.group_commit = GroupCommit(broker.state, broker.log, facts.extend)
        await broker.hand_over(b"late", stage_id="zombie")
        assert [fact for fact in facts if isinstance(fact, (ColumnsStaged, CallStaged, StagesCommitted))] == []
        await broker.advance()
        assert broker.stages == []

    play(story)
