"""The plan of pipelined pulls reads every message once and in order, whatever a broker gives."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rmqpull_client.flow import Flow
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.remoting.reading.pull_plan import (
    RESPONSE_BYTES,
    SPANS_MAX,
    PlanLimits,
    PullPlan,
    Span,
    SpanPiece,
)

SCAN = 800
WIDE = PlanLimits(32, 1_000, 100 << 20, 64 << 20)


def queue(number: int = 0) -> MessageQueue:
    return MessageQueue("orders", "broker-a", number)


def ranges(*sizes: int) -> list[QueueRange]:
    return [QueueRange(queue(number), 0, size) for number, size in enumerate(sizes)]


def bounds(spans: Sequence[Span]) -> list[tuple[int, int]]:
    return [(span.offset, span.until_offset) for span in spans]


def respond(plan: PullPlan, span: Span, count: int | None = None, byte_count: int = 100) -> None:
    """Responds with the messages that were asked for, or with fewer."""
    count = span.asked if count is None else count
    plan.accept(span, span.offset + count, count, byte_count * count, "rows")


def offsets(pieces: Sequence[SpanPiece]) -> list[tuple[int, int]]:
    return [(piece.from_offset, piece.until_offset) for piece in pieces]


# --- which pulls go ---------------------------------------------------------------------------------------------------


def test_many_pulls_of_a_queue_are_in_flight() -> None:
    plan = PullPlan(ranges(10_000), WIDE, is_filtered=False)
    started = plan.start_pulls()
    assert bounds(started) == [(number * 32, number * 32 + 32) for number in range(32)]  # 1,000 and one pull more
    assert plan.start_pulls() == []


def test_all_queues_take_part_in_a_narrow_limit() -> None:
    plan = PullPlan(ranges(*[1_000] * 4), PlanLimits(32, 1_000, 1 << 30, 4 * RESPONSE_BYTES), is_filtered=False)
    assert [span.queue.queue_id for span in plan.start_pulls()] == [0, 1, 2, 3]


def test_one_pull_goes_whatever_the_limits_are() -> None:
    plan = PullPlan(ranges(100, 100), PlanLimits(32, 0, 0, 0), is_filtered=False)
    [first] = plan.start_pulls()
    respond(plan, first)
    assert plan.start_pulls() == []  # the consumer has rows to take
    assert offsets(plan.take(10_000, 1 << 30)) == [(0, 32)]
    assert len(plan.start_pulls()) == 1


def test_a_response_counts_with_the_bytes_of_earlier_ones() -> None:
    limits = PlanLimits(32, 1_000, 1 << 30, 10 * RESPONSE_BYTES)
    plan = PullPlan(ranges(100_000), limits, is_filtered=False)
    first = plan.start_pulls()
    assert len(first) == 10
    for span in first:
        respond(plan, span, byte_count=100)
    plan.take(10_000, 1 << 30)
    assert len(plan.start_pulls()) == 32  # 32 messages of 100 bytes are less than assumed


@pytest.mark.parametrize("given", [8, 1, 32])
def test_spans_get_the_size_of_responses(given: int) -> None:
    plan = PullPlan(ranges(100_000), WIDE, is_filtered=False)
    for _ in range(32 // given):
        for span in plan.start_pulls():
            respond(plan, span, given)
    plan.take(10_000, 1 << 30)
    assert {span.asked for span in plan.start_pulls()} == {given}


def test_spans_grow_again() -> None:
    plan = PullPlan(ranges(1_000_000), WIDE, is_filtered=False)
    for span in plan.start_pulls():
        respond(plan, span, 1)
    for _ in range(200):
        for span in plan.start_pulls():
            respond(plan, span)
        plan.take(100_000, 1 << 30)
    assert plan.start_pulls()[-1].asked == 32


@pytest.mark.parametrize(("flow", "pulls"), [(Flow(), SPANS_MAX), (Flow(pull_threshold_for_queue=1_000), 32)])
def test_the_pulls_of_a_queue_are_limited_by_its_messages(flow: Flow, pulls: int) -> None:
    limits = PlanLimits.of(flow)
    plan = PullPlan(ranges(1 << 20), replace(limits, bytes_max=1 << 30, queue_bytes_max=1 << 30), is_filtered=False)
    assert len(plan.start_pulls()) == pulls


def test_with_a_filter_the_first_pull_goes_alone() -> None:
    plan = PullPlan(ranges(10_000), WIDE, is_filtered=True)
    [first] = plan.start_pulls()
    plan.accept(first, 800, 0, 0, None)
    assert bounds(plan.start_pulls())[:2] == [(800, 1_600), (1_600, 2_400)]


def test_the_spans_that_wait_for_the_first_one_are_limited() -> None:
    plan = PullPlan(ranges(1 << 20), WIDE, is_filtered=True)
    plan.accept(plan.start_pulls()[0], 800, 0, 0, None)
    head, *others = plan.start_pulls()
    while others:
        for span in others:
            plan.accept(span, span.until_offset, 0, 0, None)
        others = plan.start_pulls()
    assert head.queue_plan.spans[0] is head
    assert len(head.queue_plan.spans) == SPANS_MAX


# --- in which order pieces are given out ------------------------------------------------------------------------------


def test_pieces_come_in_the_order_of_the_queue() -> None:
    plan = PullPlan(ranges(96), WIDE, is_filtered=False)
    first, second, third = plan.start_pulls()
    respond(plan, third)
    respond(plan, second)
    assert plan.take(10_000, 1 << 30) == []
    respond(plan, first)
    assert offsets(plan.take(10_000, 1 << 30)) == [(0, 32), (32, 64), (64, 96)]
    assert plan.is_done


def test_a_response_that_stops_short_is_given_out_at_once_and_goes_on() -> None:
    plan = PullPlan(ranges(64), WIDE, is_filtered=False)
    first, second = plan.start_pulls()
    respond(plan, second)
    respond(plan, first, 10)
    assert offsets(plan.take(10_000, 1 << 30)) == [(0, 10)]
    assert bounds(plan.start_pulls()) == [(10, 32)]
    respond(plan, first)
    assert offsets(plan.take(10_000, 1 << 30)) == [(10, 32), (32, 64)]


def test_a_slow_queue_does_not_delay_others() -> None:
    plan = PullPlan(ranges(32, 32), WIDE, is_filtered=False)
    respond(plan, plan.start_pulls()[1])
    assert [piece.queue.queue_id for piece in plan.take(10_000, 1 << 30)] == [1]


def test_a_batch_has_a_limit_of_rows_and_bytes() -> None:
    plan = PullPlan(ranges(320), WIDE, is_filtered=False)
    for span in plan.start_pulls():
        respond(plan, span)
    assert plan.byte_count == 32_000
    assert len(plan.take(70, 1 << 30)) == 2
    assert len(plan.take(10_000, 10_000)) == 3
    assert len(plan.take(1, 1)) == 1
    assert plan.take(1, 1, is_first=False) == []
    assert plan.byte_count == 12_800


def test_a_loss_reaches_into_messages_that_nobody_asked_for() -> None:
    limits = PlanLimits(32, 40, 1 << 30, 1 << 30)
    plan = PullPlan(ranges(1_000), limits, is_filtered=False)
    first, second = plan.start_pulls()
    plan.lose(first, 700, "deleted")
    respond(plan, second)  # it was pulled before the broker deleted the file
    assert [(*offsets([piece])[0], piece.loss) for piece in plan.take(10_000, 1 << 30)] == [
        (0, 32, "deleted"),
        (32, 64, ""),
        (64, 700, "deleted"),
    ]
    assert bounds(plan.start_pulls())[0] == (700, 732)


def test_a_filter_that_passes_over_the_end_of_the_last_span_lengthens_it() -> None:
    plan = PullPlan(ranges(1_000), WIDE, is_filtered=True)
    [first] = plan.start_pulls()
    plan.accept(first, 500, 3, 300, "rows")
    assert offsets(plan.take(10_000, 1 << 30)) == [(0, 500)]


def test_a_filter_that_passes_over_the_end_of_another_span_does_not() -> None:
    plan = PullPlan(ranges(10_000), WIDE, is_filtered=True)
    plan.accept(plan.start_pulls()[0], 32, 32, 3_200, "rows")
    first, *_ = plan.start_pulls()
    until_offset = first.until_offset
    plan.accept(first, until_offset + 700, 3, 300, "rows")
    assert offsets(plan.take(10_000, 1 << 30)) == [(0, 32), (32, until_offset)]


# --- everything at once -----------------------------------------------------------------------------------------------


@dataclass
class SimulatedBroker:
    """A queue of a broker that gives short responses, scans 800 offsets for a filter, and deletes messages."""

    chance: random.Random
    is_filtered: bool
    min_offset: int
    max_offset: int
    given_max: int
    density: float
    given: dict[int, bool] = field(default_factory=dict)

    def has(self, offset: int) -> bool:
        """Whether the filter keeps the message."""
        return not self.is_filtered or random.Random(offset).random() < self.density

    def pull(self, plan: PullPlan, span: Span) -> None:
        offset = span.offset
        if self.chance.random() < 0.05:
            self.min_offset = min(self.max_offset, self.min_offset + self.chance.randint(0, 200))
        if offset < self.min_offset:
            plan.lose(span, self.min_offset, "too small")
        elif offset >= self.max_offset:
            plan.lose(span, span.queue_plan.until_offset, "beyond the end")
        else:
            self._find(plan, span)

    def _find(self, plan: PullPlan, span: Span) -> None:
        at, found = span.offset, list[int]()
        most = min(span.asked, self.chance.randint(1, self.given_max))
        while at < min(self.max_offset, span.offset + SCAN) and len(found) < most:
            if self.has(at):
                found.append(at)
            at += 1
        plan.accept(span, at, len(found), 100 * len(found), found or None)


def run_to_end(plan: PullPlan, brokers: Sequence[SimulatedBroker], chance: random.Random) -> Iterator[SpanPiece]:
    in_flight: list[Span] = []
    while not plan.is_done:
        started = plan.start_pulls()
        assert not {id(span) for span in started} & {id(span) for span in in_flight}
        assert plan.byte_count <= 6 * RESPONSE_BYTES or plan.pulls_in_flight <= 1
        in_flight += started
        chance.shuffle(in_flight)
        # After a lost connection the rest is asked again: the plan does not notice.
        for _ in range(chance.randint(0, len(in_flight))):
            span = in_flight.pop()
            brokers[span.queue.queue_id].pull(plan, span)
        yield from plan.take(chance.randint(1, 300), 1 << 30)


@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(0, 1 << 32),
    is_filtered=st.booleans(),
    sizes=st.lists(st.integers(0, 3_000), min_size=1, max_size=4),
    batch_size=st.integers(1, 64),
    given_max=st.integers(1, 80),
    density=st.sampled_from([0.0, 0.01, 0.3, 1.0]),
)
def test_every_message_is_read_once_and_in_order(
    seed: int, is_filtered: bool, sizes: list[int], batch_size: int, given_max: int, density: float
) -> None:
    chance = random.Random(seed)
    brokers = [
        SimulatedBroker(chance, is_filtered, chance.randint(0, 100), chance.randint(0, 3_200), given_max, density)
        for _ in sizes
    ]
    wanted = ranges(*sizes)
    limits = PlanLimits(batch_size, chance.choice([0, 100, 1_000]), 1 << 20, 6 * RESPONSE_BYTES)
    reached = [0] * len(sizes)
    for piece in run_to_end(PullPlan(wanted, limits, is_filtered), brokers, chance):
        number = piece.queue.queue_id
        broker = brokers[number]
        if is_filtered:  # offsets without a match are in no piece
            assert not any(broker.has(at) for at in range(reached[number], piece.from_offset))
        else:
            assert piece.from_offset == reached[number]
        rows = [at for at in piece.content or () if piece.from_offset <= at < piece.until_offset]
        if not piece.loss:
            assert rows == [at for at in range(piece.from_offset, piece.until_offset) if broker.has(at)]
        reached[number] = piece.until_offset
    for number, entry in enumerate(wanted):
        assert is_filtered or reached[number] == entry.until_offset
        assert not any(brokers[number].has(at) for at in range(reached[number], entry.until_offset))
