"""Offsets by time and by bytes (rocketmq-semantics 3.11; rmqpull.v1 QueryBounds)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import bounds
from rmqpull_broker.core.bounds import offset_at_time, offset_within_bytes
from rmqpull_broker.core.model import Message

if TYPE_CHECKING:
    from tests.broker.core.conftest import Desk


def stored_at(desk: Desk, times_ms: list[int]) -> None:
    desk.topic()
    for desk.now_ms in times_ms:
        desk.send(Message(b"x", "ID", born_timestamp_ms=99))


@pytest.mark.parametrize(
    ("timestamp_ms", "offset"),
    [(-1, 0), (0, 0), (5, 0), (10, 0), (11, 2), (15, 2), (20, 2), (30, 4), (40, 4), (41, 5), (1 << 60, 5)],
)
def test_the_first_message_stored_then_or_later(desk: Desk, timestamp_ms: int, offset: int) -> None:
    stored_at(desk, [10, 10, 20, 20, 40])
    assert offset_at_time(desk.state, desk.queue(), timestamp_ms) == offset


def test_an_empty_queue_has_offset_0_at_any_time(desk: Desk) -> None:
    desk.topic()
    assert offset_at_time(desk.state, desk.queue(), 5) == 0


@given(st.lists(st.integers(0, 30), max_size=20).map(sorted), st.integers(-1, 31))
def test_time_search_agrees_with_a_plain_search(new_desk: type[Desk], times_ms: list[int], timestamp_ms: int) -> None:
    desk = new_desk()
    stored_at(desk, times_ms)
    expected = next((offset for offset, time in enumerate(times_ms) if time >= timestamp_ms), len(times_ms))
    assert offset_at_time(desk.state, desk.queue(), timestamp_ms) == expected


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
