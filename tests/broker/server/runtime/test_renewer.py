"""Receipts that the broker renews by its clock. Each story advances a manual clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import pytest

from rmqpull_broker.core.errors import ServiceNotAvailable
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.receipts import DeliveredMessage, Receipt, TopicKind
from rmqpull_broker.core.popping.renewals import Holder
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.runtime import renewer as limits
from rmqpull_broker.server.runtime.renewer import Renewer
from tests.harness.waiting import WAIT_S

ANN, BOB = Holder("ann", "readers"), Holder("bob", "readers")
START_MS = 1_000_000
SECOND = 1_000


class RenewerHarness:
    """The renewer, and each change of an invisible time: its second, the offsets, and the new time in seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock(START_MS)
        self.members = {ANN, BOB}
        self.changes: list[tuple[int, list[int], int]] = []
        self.queues: set[MessageQueue] = set()
        self.failures = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.ended: set[int] = set()
        self.renewer = Renewer(self, self.clock, self.members.__contains__, lambda name: None)

    def is_in_flight(self, message: DeliveredMessage) -> bool:
        return message.receipt.queue_offset not in self.ended

    async def change_invisible_times(self, messages: Sequence[DeliveredMessage], invisible_ms: int) -> list[Receipt]:
        now_ms = self.clock.wall_ms()
        offsets = [message.receipt.queue_offset for message in messages]
        self.changes.append(((now_ms - START_MS) // SECOND, offsets, invisible_ms // SECOND))
        self.queues.update(message.queue for message in messages)
        await asyncio.wait_for(self.gate.wait(), WAIT_S)
        if self.failures:
            self.failures -= 1
            raise ServiceNotAvailable("no space left on device")
        return [each.receipt._replace(pop_time_ms=now_ms, invisible_ms=invisible_ms) for each in messages]

    def receipt(self, offset: int = 0, kind: TopicKind = TopicKind.NORMAL) -> Receipt:
        return Receipt(offset, self.clock.wall_ms(), 60_000, 3, kind, "broker-a", 0, offset)

    def keep(self, offset: int = 0, holder: Holder = ANN, kind: TopicKind = TopicKind.NORMAL) -> Receipt:
        receipt = self.receipt(offset, kind)
        self.renewer.keep(holder, f"id-{offset}", "orders", receipt, 0)
        return receipt

    async def advance(self, seconds: int) -> None:
        """Advances the clock second by second, so that all that is due happens at its time."""
        for _ in range(seconds):
            self.clock.advance(SECOND)
            await self.settle()

    async def settle(self) -> None:
        for _ in range(20):
            await asyncio.sleep(0)


def play(story: Callable[[RenewerHarness], Awaitable[None]]) -> None:
    """Runs a story on a new clock."""

    async def run() -> None:
        await story(RenewerHarness())

    asyncio.run(run())


def test_receipts_are_renewed_at_the_check_at_which_ten_seconds_are_left() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep(0)
        await renewer.advance(3)
        renewer.keep(1)
        await renewer.advance(277)
        assert renewer.changes == [
            (50, [0], 60),
            (55, [1], 60),
            (100, [0], 180),
            (105, [1], 180),
            (270, [0], 300),
            (275, [1], 300),
        ]

    play(story)


def test_what_is_due_together_is_renewed_together_and_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CHANGES_MAX", 2)

    async def story(renewer: RenewerHarness) -> None:
        for offset in range(3):
            renewer.keep(offset, (ANN, BOB)[offset % 2])
        await renewer.advance(50)
        assert renewer.changes == [(50, [0, 1], 60), (50, [2], 60)]

    play(story)


def test_a_message_that_came_from_the_retries_is_renewed_there() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep(0, kind=TopicKind.RETRY)
        await renewer.advance(50)
        assert renewer.queues == {MessageQueue("%RETRY%readers_orders", "broker-a", 0)}

    play(story)


def test_a_message_whose_delivery_has_ended_otherwise_is_forgotten() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep(0)
        renewer.keep(1)
        renewer.ended.add(0)  # as when its topic is deleted
        await renewer.advance(50)
        assert (renewer.changes, renewer.renewer.kept_count) == ([(50, [1], 60)], 1)

    play(story)


def test_who_acknowledges_during_a_renewal_gets_its_receipt() -> None:
    async def story(renewer: RenewerHarness) -> None:
        first, other = renewer.keep(0), renewer.keep(1)
        renewer.gate.clear()
        await renewer.advance(50)
        taking = asyncio.ensure_future(renewer.renewer.take(ANN, "id-0", first))
        await renewer.settle()
        assert not taking.done()
        renewer.gate.set()
        assert (await taking).pop_time_ms == START_MS + 50 * SECOND
        assert (await renewer.renewer.take(ANN, "id-1", other)).pop_time_ms == START_MS + 50 * SECOND

    play(story)


@pytest.mark.parametrize(("failures", "tries"), [(1, [50, 55, 105]), (2, [50, 55])])
def test_a_renewal_that_fails_is_tried_at_the_next_checks_until_its_time_is_over(
    failures: int, tries: list[int]
) -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep()
        renewer.failures = failures
        await renewer.advance(105)
        assert [at for at, _, _ in renewer.changes] == tries
        assert renewer.renewer.kept_count == (failures == 1)

    play(story)


def test_the_messages_of_a_client_that_leaves_are_redelivered_after_a_second() -> None:
    async def story(renewer: RenewerHarness) -> None:
        for offset in range(3):
            renewer.keep(offset, (ANN, BOB)[offset % 2])
        renewer.members.remove(ANN)
        renewer.renewer.release_gone()
        await renewer.settle()
        assert renewer.changes == [(0, [0, 2], 1)]
        renewer.members.remove(BOB)
        await renewer.advance(4)
        assert len(renewer.changes) == 1
        await renewer.advance(1)  # nobody has reported it; the next check finds out
        assert renewer.changes[1:] == [(5, [1], 1)]
        assert renewer.renewer.kept_count == 0

    play(story)


def test_a_client_that_leaves_during_a_renewal_is_seen_after_it() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep()
        renewer.gate.clear()
        await renewer.advance(50)
        renewer.members.clear()
        renewer.renewer.release_gone()
        renewer.gate.set()
        await renewer.settle()
        assert renewer.changes == [(50, [0], 60), (50, [0], 1)]

    play(story)


def test_messages_that_cannot_be_released_are_redelivered_after_their_time() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep()
        renewer.members.clear()
        renewer.failures = 1
        renewer.renewer.release_gone()
        await renewer.advance(100)
        assert (len(renewer.changes), renewer.renewer.kept_count) == (1, 0)

    play(story)


def test_a_broker_that_stops_releases_everything() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.keep(0)
        renewer.keep(1, BOB)
        await renewer.renewer.stop()
        assert renewer.changes == [(0, [0, 1], 1)]
        renewer.keep(2)
        await renewer.advance(100)
        assert len(renewer.changes) == 1

    play(story)


def test_nothing_is_checked_while_nothing_is_kept() -> None:
    async def story(renewer: RenewerHarness) -> None:
        renewer.renewer.release_gone()
        assert renewer.clock.next_due_ms() is None
        first = renewer.keep()
        assert renewer.clock.next_due_ms() == 5 * SECOND
        await renewer.renewer.take(ANN, "id-0", first)
        await renewer.advance(5)
        assert renewer.clock.next_due_ms() is None
        assert not renewer.renewer.is_busy

    play(story)
