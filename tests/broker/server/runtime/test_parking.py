"""Parked pulls: which ones wake, by what, and that nothing is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise

import pytest

from rmqpull_broker.core.errors import IllegalPollingTime
from rmqpull_broker.core.filters.message_filter import EVERYTHING, TagFilter
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.pulling.parking import LONG_POLLING, ParkedPull, PollingRules
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import (
    Fact,
    GroupPut,
    OffsetsCommitted,
    OffsetsReset,
    QueuesTrimmed,
    RowsStored,
    TopicDeleted,
    TopicPut,
)
from rmqpull_broker.core.state.ports import NOT_LOGGED
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted, TransactionId
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import ClockMover, ManualClock
from rmqpull_broker.server.fault_names import check_names
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.metrics import Metrics
from rmqpull_broker.server.runtime.parking import ENDED_IN_A_TURN, PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.server.runtime.renewer import Renewer
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.runtime.stage_keeper import StageKeeper
from rmqpull_broker.server.runtime.unstored_offsets import UnstoredOffsets
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues

QUEUE, OTHER = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
NEVER_MS = 10**12
WANTED = TagFilter(frozenset({"wanted"}))


class Lot:
    """A parking with a manual clock at 1 000 ms that was started at 0 ms."""

    def __init__(self, rules: PollingRules = LONG_POLLING) -> None:
        self.clock = ManualClock()
        self.store = ConsumeQueues()
        self.parker = PullParker(self.store, self.clock, rules)
        self.clock.advance(1_000)

    def park(
        self, *queues: MessageQueue, message_filter: TagFilter = EVERYTHING, until_ms: int = NEVER_MS
    ) -> asyncio.Task[bool]:
        return asyncio.ensure_future(
            self.parker.park(ParkedPull(queues or (QUEUE,), message_filter, until_ms, group="readers"))
        )

    def parked(self) -> list[ParkedPull]:
        """Returns a list to which every further parked pull is added."""
        pulls: list[ParkedPull] = []
        park = self.parker._parked.park

        def park_and_tell(pull: ParkedPull, now_ms: int) -> int:
            pulls.append(pull)
            return park(pull, now_ms)

        self.parker._parked.park = park_and_tell  # type: ignore[method-assign]
        return pulls

    async def run_pending_tasks(self) -> None:
        """Runs everything that can run now."""
        for _ in range(10):
            await asyncio.sleep(0)

    def arrive(self, queue: MessageQueue = QUEUE, tag: str | None = None) -> None:
        """Stores a message and its fact."""
        offset = self.store.bounds(queue).max_offset
        fact = RowsStored(queue, (StoredMessage(Message(b"x", "m", tags=tag), offset, 0, "here"),))
        self.store.apply(fact, NOT_LOGGED)
        facts: list[Fact] = [fact, GroupPut(GroupConfig("g"))]
        self.parker.wake_for(facts)


def in_lot(story: Callable[[Lot], Awaitable[None]]) -> None:
    async def run() -> None:
        await story(Lot())

    asyncio.run(run())


def test_an_arrival_wakes_only_matching_pulls() -> None:
    async def story(lot: Lot) -> None:
        concerned = [lot.park(), lot.park(OTHER, QUEUE), lot.park(message_filter=WANTED)]
        others = [lot.park(OTHER), lot.park(message_filter=TagFilter(frozenset({"foreign"})))]
        await lot.run_pending_tasks()
        lot.arrive(tag="wanted")
        await asyncio.gather(*concerned)
        assert not any(other.done() for other in others)
        assert len(lot.parker) == len(others)
        lot.parker.close()
        await asyncio.gather(*others)

    in_lot(story)


def test_a_pull_ends_with_its_timeout() -> None:
    async def story(lot: Lot) -> None:
        late, early = lot.park(until_ms=5_000), lot.park(until_ms=2_000)
        await lot.run_pending_tasks()
        lot.clock.advance(1_000)
        await early
        assert (late.done(), len(lot.parker)) == (False, 1)
        lot.clock.advance(3_000)
        await late
        assert len(lot.parker) == 0

    in_lot(story)


def test_an_earlier_deadline_resets_the_timer() -> None:
    async def story(lot: Lot) -> None:
        late = lot.park(until_ms=9_000)
        await lot.run_pending_tasks()
        early = lot.park(until_ms=2_000)
        await lot.run_pending_tasks()
        lot.clock.advance(1_000)
        await early
        assert not late.done()
        lot.clock.advance(7_000)
        await late

    in_lot(story)


def test_a_pull_that_skips_arrivals_runs_again_after_five_seconds_at_most() -> None:
    async def story(lot: Lot) -> None:
        pull = lot.park(message_filter=WANTED)
        await lot.run_pending_tasks()
        lot.arrive(tag="foreign")
        lot.clock.advance(3_999)
        await lot.run_pending_tasks()
        assert not pull.done()
        lot.clock.advance(1)
        await pull

    in_lot(story)


def test_changed_bounds_wake_the_pulls_of_the_queue() -> None:
    async def story(lot: Lot) -> None:
        concerned, other = lot.park(message_filter=WANTED), lot.park(OTHER)
        await lot.run_pending_tasks()
        lot.parker.wake_queues([QUEUE])
        await concerned
        assert not other.done()
        lot.parker.wake_topic(OTHER.topic)
        await other

    in_lot(story)


@pytest.mark.parametrize(
    ("fact", "wakes"),
    [
        (QueuesTrimmed(((QUEUE, 5),)), True),
        (QueuesTrimmed(((OTHER, 5),)), False),
        (OffsetsReset("readers", ((QUEUE, 0),)), True),
        (OffsetsReset("others", ((QUEUE, 0),)), False),
        (TopicDeleted("orders"), True),
        (TopicDeleted("bills"), False),
        (TopicPut(TopicConfig("orders", 8, 8)), True),
        (OffsetsCommitted("g", ((QUEUE, 5),)), False),
        (StagesCommitted(TransactionId("q", 1), ("a",), None, (Splice(QUEUE, QUEUE, 0, 1, 1, 1, "host"),)), True),
        (StagesCommitted(TransactionId("q", 1), ("a",), None, (Splice(OTHER, OTHER, 0, 1, 1, 1, "host"),)), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_change_of_a_queue_wakes_its_pulls(fact: Fact, wakes: bool) -> None:
    async def story(lot: Lot) -> None:
        pull = lot.park(message_filter=WANTED)
        await lot.run_pending_tasks()
        lot.parker.wake_for([fact])
        await lot.run_pending_tasks()
        assert pull.done() is wakes
        lot.parker.close()
        await pull

    in_lot(story)


def test_a_cancelled_pull_is_removed() -> None:
    async def story(lot: Lot) -> None:
        pull = lot.park()
        await lot.run_pending_tasks()
        assert len(lot.parker) == 1
        pull.cancel()
        await asyncio.wait([pull])
        assert len(lot.parker) == 0
        lot.arrive()

    in_lot(story)


def test_an_arrival_and_a_cancellation_at_once_do_no_harm() -> None:
    async def story(lot: Lot) -> None:
        pull = lot.park()
        await lot.run_pending_tasks()
        lot.arrive()
        pull.cancel()
        lot.arrive()
        await asyncio.wait([pull])
        assert len(lot.parker) == 0

    in_lot(story)


def test_closing_the_parking_ends_all_pulls_and_parks_no_more() -> None:
    async def story(lot: Lot) -> None:
        pulls = [lot.park(), lot.park(OTHER, until_ms=2000)]
        await lot.run_pending_tasks()
        lot.parker.close()
        assert await asyncio.gather(*pulls, lot.park()) == [False] * 3  # none runs again
        assert len(lot.parker) == 0

    in_lot(story)


def test_closing_the_parking_does_not_block_the_event_loop() -> None:
    """Ten thousand responses must not delay the rest of the stop."""

    async def story(lot: Lot) -> None:
        pulls = [lot.park() for _ in range(5 * ENDED_IN_A_TURN)]
        await lot.run_pending_tasks()
        lot.parker.close()
        answered = [0]
        while answered[-1] < len(pulls) and len(answered) < 100:
            await asyncio.sleep(0)
            answered.append(sum(pull.done() for pull in pulls))
        assert answered[-1] == len(pulls)
        assert max(later - earlier for earlier, later in pairwise(answered)) == ENDED_IN_A_TURN

    in_lot(story)


@pytest.mark.parametrize(
    ("timeout_ms", "remaining_ms", "deadline_ms"),
    [
        (20_000, None, 21_000),
        (20_000, 60_000, 21_000),
        (20_000, 10_000, 10_950),  # a response shortly before the caller's deadline
        (300_000, None, 301_000),
        (20_000, 31_535_999 * 60_000, 21_000),  # the Java client's sixty years (rules 6.3)
        (20_000, 10, None),
        (0, None, None),
        (-1, None, None),
    ],
)
@pytest.mark.proves("A parked pull that finds nothing")
def test_a_parked_pull_ends_with_its_timeout_or_shortly_before_its_callers_deadline(
    timeout_ms: int, remaining_ms: int | None, deadline_ms: int | None
) -> None:
    async def story(lot: Lot) -> None:
        parked = lot.parked()
        caller = Caller("here", "tester", remaining_ms)
        parker = asyncio.ensure_future(service_of(lot).park([QUEUE], EVERYTHING, timeout_ms, caller))
        await lot.run_pending_tasks()
        lot.parker.close()
        await parker
        assert [pull.deadline_ms for pull in parked] == ([] if deadline_ms is None else [deadline_ms])

    in_lot(story)


@pytest.mark.parametrize(("timeout_ms", "answered_ms"), [(0, 5_000), (15_000, 20_000)])
def test_a_pull_parked_on_apaches_grid_ends_with_a_check(timeout_ms: int, answered_ms: int) -> None:
    async def story(lot: Lot) -> None:
        caller = Caller("here", "tester", remaining_ms=30_000)
        parker = asyncio.ensure_future(service_of(lot).park([QUEUE], EVERYTHING, timeout_ms, caller, on_grid=True))
        await lot.run_pending_tasks()
        lot.clock.advance(answered_ms - 1_001)
        await lot.run_pending_tasks()
        assert not parker.done()
        lot.clock.advance(1)
        await parker

    in_lot(story)


def test_without_long_polling_the_broker_sets_the_time_of_parking() -> None:
    async def story() -> None:
        lot = Lot(PollingRules(long_polling_enable=False))
        caller = Caller("here", "tester", None)
        parker = asyncio.ensure_future(service_of(lot).park([QUEUE], EVERYTHING, 20_000, caller))
        await lot.run_pending_tasks()
        lot.clock.advance(999)
        await lot.run_pending_tasks()
        assert not parker.done()
        lot.clock.advance(1)
        await parker

    asyncio.run(story())


def test_a_polling_time_above_five_minutes_is_refused() -> None:
    Service.check_polling_time(300_000)
    with pytest.raises(IllegalPollingTime, match="300000 ms"):
        Service.check_polling_time(300_001)


def service_of(lot: Lot) -> Service:
    state = BrokerState(lot.store, "broker-a")
    group_commit = GroupCommit(state, MemoryStorage(), lot.parker.wake_for)
    sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "here")
    pops = Pops(state, group_commit, lot.clock)
    return Service(
        state=state,
        group_commit=group_commit,
        parker=lot.parker,
        sender=sender,
        clock=lot.clock,
        faults=Faults(lot.clock, check_names),
        metrics=Metrics(),
        endpoints=("127.0.0.1", 8081),
        clients=Clients(lot.clock),
        clock_mover=ClockMover(lot.clock, group_commit.wait_until_idle),
        stage_keeper=StageKeeper(state, group_commit, lot.clock, sender),
        unstored_offsets=UnstoredOffsets(state, group_commit),
        pops=pops,
        renewer=Renewer(pops, lot.clock, lambda holder: False, state.find_group),
    )
