"""Pulls in flight and messages in memory stay within the limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.flow import FlowLimits, PulledAhead


def in_flight(limits: FlowLimits, *held: tuple[int, int, int]) -> PulledAhead:
    """With responses that nobody has taken yet, each (lane, messages, bytes)."""
    counted = PulledAhead(limits)
    for entry in held:
        counted.start_pull()
        counted.finish_pull(*entry)
    return counted


@pytest.mark.parametrize(
    ("limits", "held", "may_pull"),
    [
        pytest.param(FlowLimits(10, 10), [], True, id="one pull"),
        pytest.param(FlowLimits(5, 10), [], True, id="one pull that is larger than all"),
        pytest.param(FlowLimits(10, 4), [(1, 1, 6)], True, id="just room for one more"),
        pytest.param(FlowLimits(10, 4), [(1, 1, 7)], False, id="no room, whatever the lane"),
        pytest.param(FlowLimits(99, 1, 1_000), [(0, 1_000, 1)], True, id="as many messages as the queue may have"),
        pytest.param(FlowLimits(99, 1, 1_000), [(0, 1_001, 1)], False, id="more messages"),
        pytest.param(FlowLimits(99, 1, 1_000), [(1, 1_001, 1)], True, id="more messages of another queue"),
        pytest.param(FlowLimits(99, 1, None, 8), [(0, 1, 8)], True, id="as many bytes as the queue may have"),
        pytest.param(FlowLimits(99, 1, None, 8), [(0, 1, 9)], False, id="more bytes"),
        pytest.param(FlowLimits(99, 1, None, 8), [(1, 1, 9)], True, id="more bytes of another queue"),
    ],
)
def test_a_pull_must_be_within_all_limits(limits: FlowLimits, held: list[tuple[int, int, int]], may_pull: bool) -> None:
    assert in_flight(limits, *held).may_pull(0) == may_pull


def test_pulls_in_flight_count_with_their_maximum_size() -> None:
    counted = PulledAhead(FlowLimits(10, 4))
    counted.start_pull()
    assert counted.may_pull(0)
    counted.start_pull()
    assert not counted.may_pull(0)
    counted.finish_pull(1, 1, 2)
    assert counted.may_pull(0)


def test_taken_messages_make_room() -> None:
    counted = in_flight(FlowLimits(10, 4, 3), (0, 4, 9))
    assert not counted.may_pull(0)
    counted.take(0, 4, 9)
    assert counted.may_pull(0)
    assert counted.byte_count == 0


@given(st.integers(1, 50), st.integers(1, 20), st.lists(st.tuples(st.sampled_from("bat"), st.integers(0, 50))))
def test_the_limit_is_never_exceeded(bytes_max: int, bytes_per_pull: int, steps: list[tuple[str, int]]) -> None:
    counted = PulledAhead(FlowLimits(bytes_max, bytes_per_pull))
    under_way, waiting = 0, list[int]()
    for step, size in steps:
        if step == "b" and counted.may_pull(0):
            counted.start_pull()
            under_way += 1
        elif step == "a" and under_way:
            under_way -= 1
            waiting.append(min(size, bytes_per_pull))
            counted.finish_pull(0, 1, waiting[-1])
        elif step == "t" and waiting:
            counted.take(0, 1, waiting.pop(0))
        assert counted.byte_count <= max(bytes_max, bytes_per_pull)
