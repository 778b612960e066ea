"""Several lanes are pulled at once, ahead of the consumer."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import pytest

from rmqpull_client.errors import BrokerUnavailable, DataLoss
from rmqpull_client.flow import BATCH_ROWS, FlowLimits
from rmqpull_client.transports.grpc.reading_ahead import LANES_AT_ONCE, Piece, ReadAhead

WAIT_S = 60
WIDE = FlowLimits(1_000, 1)


def nothing() -> None:
    """Do nothing before a pull."""


@dataclass
class NumberedLane:
    """Returns the pieces "name-0", "name-1", … and calls ``before`` first."""

    name: str
    count: int
    row_count: int = 1
    byte_count: int = 1
    before: Callable[[], None] = nothing
    pulled: int = 0
    cancelled: threading.Event = field(default_factory=threading.Event)
    changed: threading.Condition = field(default_factory=threading.Condition)

    @property
    def is_done(self) -> bool:
        return self.pulled == self.count

    def pull(self) -> Piece[str]:
        self.before()
        with self.changed:
            piece = Piece(f"{self.name}-{self.pulled}", self.row_count, self.byte_count)
            self.pulled += 1
            self.changed.notify()
            return piece

    def wait_until_pulled(self, count: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.pulled >= count, WAIT_S)

    def cancel(self) -> None:
        self.cancelled.set()


def texts(batches: Iterator[list[Piece[str]]]) -> list[str]:
    return [piece.rows for batch in batches for piece in batch]


def pulling_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("rmqpull-pull")]


@pytest.fixture(autouse=True)
def threads_must_end() -> Iterator[None]:
    yield
    assert pulling_threads() == []


def expected(lane: NumberedLane) -> list[str]:
    return [f"{lane.name}-{number}" for number in range(lane.count)]


@pytest.mark.parametrize("limits", [WIDE, FlowLimits(1, 1), FlowLimits(3, 2, 1, 1)], ids=["wide", "one", "few"])
def test_all_pieces_come_once_and_each_lane_in_order(limits: FlowLimits) -> None:
    lanes = [NumberedLane(f"lane{number}", number) for number in range(3 * LANES_AT_ONCE)]
    found = texts(iter(ReadAhead(lanes, limits)))
    for lane in lanes:
        assert [text for text in found if text.startswith(f"{lane.name}-")] == expected(lane)
    assert len(found) == sum(lane.count for lane in lanes)


def test_without_lanes_there_are_no_pieces() -> None:
    assert texts(iter(ReadAhead[str]([], WIDE))) == []


def test_a_slow_lane_does_not_delay_the_others() -> None:
    may_respond = threading.Event()
    slow, quick = NumberedLane("slow", 2, before=lambda: wait_for_event(may_respond)), NumberedLane("quick", 5)
    pieces = (piece.rows for batch in ReadAhead([slow, quick], FlowLimits(2, 1)) for piece in batch)
    assert [next(pieces) for _ in range(5)] == expected(quick)
    may_respond.set()
    assert list(pieces) == expected(slow)


def wait_for_event(event: threading.Event) -> None:
    assert event.wait(WAIT_S)


@pytest.mark.parametrize(
    ("limits", "ahead"),
    [
        pytest.param(FlowLimits(40, 10), 4, id="bytes of all"),
        pytest.param(FlowLimits(5, 10), 1, id="one pull is always permitted"),
        pytest.param(FlowLimits(1_000, 10, lane_messages_max=15), 4, id="messages of a queue, exceeded by one pull"),
        pytest.param(FlowLimits(1_000, 10, lane_bytes_max=40), 5, id="bytes of a queue, exceeded by one pull"),
    ],
)
def test_pulls_run_ahead_up_to_the_limit(limits: FlowLimits, ahead: int) -> None:
    permits, allowed = threading.Semaphore(0), []

    def one_permit() -> None:
        allowed.append(permits.acquire(timeout=WAIT_S))

    lane = NumberedLane("lane", 20, row_count=5, byte_count=10, before=one_permit)
    reading = ReadAhead([lane], limits)
    batches = iter(reading)
    permits.release()
    assert next(batches)[0].rows == "lane-0"
    for _ in range(lane.count):
        permits.release()
    lane.wait_until_pulled(1 + ahead)
    # The pulling thread now waits until a piece is taken.
    with reading._arrival:
        assert reading._arrival.wait_for(lambda: not reading._in_flight.may_pull(0), WAIT_S)
        assert lane.pulled == 1 + ahead
    assert texts(batches) == expected(lane)[1:]
    assert all(allowed)


def test_pieces_that_have_arrived_come_together_up_to_a_batch() -> None:
    lane = NumberedLane("lane", 8, row_count=BATCH_ROWS // 3)
    batches = iter(ReadAhead([lane], WIDE))
    sizes = [len(next(batches))]
    lane.wait_until_pulled(8)
    sizes += [len(batch) for batch in batches]
    assert sum(sizes) == 8
    assert max(sizes) == 3


def test_a_batch_that_lingers_waits_for_more() -> None:
    lanes = [NumberedLane("a", 2), NumberedLane("b", 3)]
    assert [len(batch) for batch in ReadAhead(lanes, WIDE, linger_s=WAIT_S)] == [5]


@pytest.mark.parametrize("end", [lambda batches: batches.close(), lambda batches: None], ids=["closed", "dropped"])
def test_a_consumer_that_stops_ends_the_pulls(end: Callable[[Iterator[list[Piece[str]]]], None]) -> None:
    blocked, free = NumberedLane("blocked", 9), NumberedLane("free", 1_000_000)
    started = threading.Event()

    def wait_for_cancellation() -> None:
        started.set()
        wait_for_event(blocked.cancelled)

    blocked.before = wait_for_cancellation
    batches = iter(ReadAhead([blocked, free], FlowLimits(4, 1)))
    assert next(batches)
    wait_for_event(started)
    end(batches)
    del batches
    assert pulling_threads() == []
    assert free.cancelled.is_set()


class Errors:
    """Raises one error per call, in order. None raises nothing."""

    def __init__(self, *errors: Exception | None) -> None:
        self._errors = list(errors)
        self.raised_count = 0
        self.has_raised = threading.Event()

    def __call__(self) -> None:
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            self.raised_count += 1
            self.has_raised.set()
            raise error


def test_an_error_comes_after_the_earlier_pieces_and_ends_the_other_lanes() -> None:
    failing = NumberedLane("failing", 3, before=Errors(None, DataLoss("lost")))
    blocked = NumberedLane("blocked", 1)
    blocked.before = lambda: wait_for_event(blocked.cancelled)
    pieces = (piece.rows for batch in ReadAhead([failing, blocked], WIDE) for piece in batch)
    assert next(pieces) == "failing-0"
    with pytest.raises(DataLoss, match="lost"):
        next(pieces)
    assert blocked.cancelled.is_set()


UNAVAILABLE = BrokerUnavailable("No broker responded")


@pytest.mark.parametrize("given", [[UNAVAILABLE], [UNAVAILABLE, UNAVAILABLE]])
def test_a_pull_that_failed_while_the_consumer_was_busy_is_repeated_once(given: Sequence[Exception]) -> None:
    errors = Errors(None, *given)
    lane = NumberedLane("lane", 2, before=errors)
    pieces = (piece.rows for batch in ReadAhead([lane], WIDE) for piece in batch)
    assert next(pieces) == "lane-0"
    wait_for_event(errors.has_raised)
    if len(given) == 1:
        assert list(pieces) == ["lane-1"]
    else:
        with pytest.raises(BrokerUnavailable):
            next(pieces)
    assert errors.raised_count == len(given)


def test_a_pull_that_fails_while_the_consumer_waits_is_an_error() -> None:
    reading: ReadAhead[str]
    errors = Errors(None, UNAVAILABLE)

    def fail_when_consumer_waits() -> None:
        with reading._room:
            assert reading._room.wait_for(lambda: reading._consumer_waits, WAIT_S)
        errors()

    # The first piece is empty, so the consumer keeps waiting.
    lane = NumberedLane("lane", 2, row_count=0, before=fail_when_consumer_waits)
    reading = ReadAhead([lane], WIDE)
    with pytest.raises(BrokerUnavailable):
        list(reading)
    assert errors.raised_count == 1
