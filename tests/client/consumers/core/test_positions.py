"""Where a consumer is, and which offsets it may set: none of what its user has not got, or another member owns."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from rmqpull_client.consumers.core.positions import Positions
from rmqpull_client.model import MessageQueue

FIRST, SECOND, THIRD = QUEUES = tuple(MessageQueue("orders", "a", queue_id) for queue_id in range(3))


@pytest.fixture
def positions() -> Positions:
    positions = Positions()
    positions.add({FIRST: 10, SECOND: 20})
    return positions


def test_a_queue_starts_where_it_is_told_and_moves_with_what_the_user_gets(positions: Positions) -> None:
    positions.advance(FIRST, 13)
    assert positions.list_readable() == {FIRST: 13, SECOND: 20}
    assert (positions.get(FIRST), positions.get(THIRD)) == (13, None)


def test_a_paused_queue_is_not_read_and_keeps_its_position(positions: Positions) -> None:
    positions.pause([FIRST, THIRD])
    assert positions.paused == {FIRST}
    assert positions.list_readable() == {SECOND: 20}
    positions.resume([FIRST])
    assert positions.list_readable() == {FIRST: 10, SECOND: 20}


def test_a_lost_queue_is_not_read_and_its_offset_not_set(positions: Positions) -> None:
    positions.advance(FIRST, 13)
    positions.pause([FIRST])
    positions.drop([FIRST, THIRD])
    positions.advance(FIRST, 15)
    assert positions.queues == {SECOND}
    assert not positions.paused
    positions.mark_consumed()
    assert positions.list_unset() == {SECOND: 20}
    assert not positions.move(FIRST, 1)


def test_an_offset_is_set_again_only_after_progress(positions: Positions) -> None:
    positions.note_set({FIRST: 10, SECOND: 20, THIRD: 1})
    assert positions.list_unset() == {}
    positions.advance(SECOND, 21)
    assert positions.list_unset() == {}  # the user has it, and has not asked for more
    positions.mark_consumed()
    assert positions.list_unset() == {SECOND: 21}


def test_the_offset_of_a_queue_that_others_may_have_had_is_compared_again(positions: Positions) -> None:
    positions.note_set({FIRST: 10, SECOND: 20})
    positions.doubt("b")
    assert positions.list_first_set({FIRST: 10}) == []
    positions.doubt("a")
    assert positions.list_first_set({FIRST: 10, SECOND: 20}) == [FIRST, SECOND]


def test_only_the_first_offset_of_a_queue_may_meet_a_later_one_of_its_former_owner(positions: Positions) -> None:
    assert positions.list_first_set({FIRST: 11, SECOND: 21, THIRD: 1}) == [FIRST, SECOND]
    positions.note_set({FIRST: 11})
    positions.move(SECOND, 3)  # the user wants to go back
    assert positions.list_first_set({FIRST: 12, SECOND: 3}) == []


@pytest.mark.parametrize(
    ("change", "is_outdated"),
    [
        (lambda positions: positions.advance(FIRST, 11), False),
        (lambda positions: positions.note_set({FIRST: 10}), False),
        (lambda positions: positions.pause([THIRD]), False),
        (lambda positions: positions.drop([THIRD]), False),
        (lambda positions: positions.move(FIRST, 11), True),
        (lambda positions: positions.pause([FIRST]), True),
        (lambda positions: positions.drop([FIRST]), True),
        (lambda positions: positions.add({THIRD: 0}), True),
    ],
)
def test_what_was_read_is_outdated_when_queues_or_positions_change(
    positions: Positions, change: object, is_outdated: bool
) -> None:
    before = positions.version
    assert callable(change)
    change(positions)
    assert (positions.version != before) is is_outdated


class Consumption(RuleBasedStateMachine):
    """Whatever happens, no offset is set beyond what the user has got, and none of a queue that is not owned."""

    def __init__(self) -> None:
        super().__init__()
        self.positions = Positions()
        self.got: dict[MessageQueue, int] = {}

    @rule(queue=st.sampled_from(QUEUES), offset=st.integers(0, 9))
    def take(self, queue: MessageQueue, offset: int) -> None:
        if queue not in self.got:
            self.positions.add({queue: offset})
            self.got[queue] = offset

    @rule(queue=st.sampled_from(QUEUES))
    def lose(self, queue: MessageQueue) -> None:
        self.positions.drop([queue])
        self.got.pop(queue, None)

    @rule(queue=st.sampled_from(QUEUES), count=st.integers(1, 3))
    def get(self, queue: MessageQueue, count: int) -> None:
        if (position := self.positions.list_readable().get(queue)) is not None:
            assert position == self.got[queue]
            self.positions.advance(queue, position + count)
            self.got[queue] = position + count

    @rule(queue=st.sampled_from(QUEUES), offset=st.integers(0, 9))
    def seek(self, queue: MessageQueue, offset: int) -> None:
        if self.positions.move(queue, offset):
            self.got[queue] = offset

    @rule(queue=st.sampled_from(QUEUES), is_paused=st.booleans())
    def pause(self, queue: MessageQueue, is_paused: bool) -> None:
        (self.positions.pause if is_paused else self.positions.resume)([queue])

    @precondition(lambda self: self.got)
    @rule()
    def set_offsets(self) -> None:
        self.positions.mark_consumed()
        offsets = self.positions.list_unset()
        assert offsets.items() <= self.got.items()
        self.positions.note_set(offsets)
        assert self.positions.list_unset() == {}

    @invariant()
    def owns_what_it_was_given(self) -> None:
        assert self.positions.queues == self.got.keys()


TestConsumption = Consumption.TestCase
