"""Offsets by time and by bytes (rocketmq-semantics 3.11; rmqpull.v1 QueryBounds)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import bounds
from rmqpull_broker.core.bounds import BoundaryType, offset_at_time, offset_within_bytes
from rmqpull_broker.core.facts import QueuesTrimmed
from rmqpull_broker.core.model import Message

if TYPE_CHECKING:
    from tests.broker.core.conftest import Desk


def stored_at(desk: Desk, times_ms: list[int]) -> None:
    desk.topic()
    for desk.now_ms in times_ms:
        desk.send(Message(b"x", "ID", born_timestamp_ms=99))


@pytest.mark.parametrize(
    ("timestamp_ms", "lower", "upper"),
    [
        (-1, 0, 0),
        (0, 0, 0),
        (5, 0, 0),
        (10, 0, 1),
        (11, 2, 1),
        (15, 2, 1),
        (20, 2, 3),
        (30, 4, 3),
        (40, 4, 4),
        (41, 5, 4),
        (99, 5, 4),
        (1 << 53, 5, 4),
    ],
)
def test_a_time_means_the_first_message_since_or_the_last_one_until_then(
    desk: Desk, timestamp_ms: int, lower: int, upper: int
) -> None:
    stored_at(desk, [10, 10, 20, 20, 40])
    found = [offset_at_time(desk.state, desk.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize(
    ("timestamp_ms", "lower", "upper"), [(5, 3, 3), (20, 3, 3), (25, 4, 3), (40, 4, 4), (99, 5, 4)]
)
def test_messages_that_are_gone_are_not_found_by_time(desk: Desk, timestamp_ms: int, lower: int, upper: int) -> None:
    stored_at(desk, [10, 10, 20, 20, 40])
    desk.state.apply([QueuesTrimmed(((desk.queue(), 3),))])
    found = [offset_at_time(desk.state, desk.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize("boundary", BoundaryType)
@pytest.mark.parametrize("messages", [0, 2])
def test_a_queue_without_messages_has_one_offset_at_any_time(desk: Desk, messages: int, boundary: BoundaryType) -> None:
    stored_at(desk, [10] * messages)
    desk.state.apply([QueuesTrimmed(((desk.queue(), messages),))])
    assert [offset_at_time(desk.state, desk.queue(), at_ms, boundary) for at_ms in (5, 10, 15)] == [messages] * 3


def test_a_queue_of_an_unknown_topic_has_offset_0_at_any_time(desk: Desk) -> None:
    assert [offset_at_time(desk.state, desk.queue(), 5, boundary) for boundary in BoundaryType] == [0, 0]


@given(st.lists(st.integers(0, 30), max_size=20).map(sorted), st.integers(-1, 31))
def test_time_search_agrees_with_a_plain_search(new_desk: type[Desk], times_ms: list[int], timestamp_ms: int) -> None:
    desk = new_desk()
    stored_at(desk, times_ms)
    lower = next((offset for offset, time in enumerate(times_ms) if time >= timestamp_ms), len(times_ms))
    upper = max((offset for offset, time in enumerate(times_ms) if time <= timestamp_ms), default=0)
    found = [offset_at_time(desk.state, desk.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize(
    ("from_offset", "byte_budget", "reached"),
    [
        (0, 10, 1),
        (0, 29, 1),
        (0, 30, 2),
        (0, 60, 3),
        (0, 1_000, 3),
        (1, 20, 2),
        (0, 9, 1),
        (0, 0, 1),
        (0, -5, 1),
        (2, 29, 3),
        (3, 100, 3),
        (9, 100, 3),
        (-4, 10, 1),
    ],
)
def test_a_byte_budget_reaches(desk: Desk, from_offset: int, byte_budget: int, reached: int) -> None:
    desk.topic()
    desk.fill([bytes(10), bytes(20), bytes(30)])
    assert offset_within_bytes(desk.state, desk.queue(), from_offset, byte_budget) == reached


def test_an_empty_queue_is_reached_at_0_with_any_budget(desk: Desk) -> None:
    desk.topic()
    assert offset_within_bytes(desk.state, desk.queue(), 5, 100) == 0


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 12), st.integers(0, 60))
def test_the_offset_reached_is_the_largest_within_the_budget(
    new_desk: type[Desk], sizes: list[int], from_offset: int, byte_budget: int
) -> None:
    desk = new_desk()
    desk.topic()
    for size in sizes:
        desk.fill([bytes(size)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounds, "_STEP_ROWS", 2)
        reached = offset_within_bytes(desk.state, desk.queue(), from_offset, byte_budget)
    start = min(from_offset, len(sizes))
    within = [end for end in range(start, len(sizes) + 1) if sum(sizes[start:end]) <= byte_budget]
    assert reached == max(within[-1], min(start + 1, len(sizes)))
