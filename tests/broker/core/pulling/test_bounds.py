"""Offsets by time (rules 3.11), and ranges cut by size (rmqpull.v1 CutRanges)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import Message
from rmqpull_broker.core.pulling.bounds import BoundaryType, cut_by_bytes, find_offset_at_time
from rmqpull_broker.core.state.facts import QueuesTrimmed
from tests.harness.core import CoreHarness


def stored_at(core: CoreHarness, times_ms: list[int]) -> None:
    core.topic()
    for core.now_ms in times_ms:
        core.send(Message(b"x", "ID", born_timestamp_ms=99))


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
    core: CoreHarness, timestamp_ms: int, lower: int, upper: int
) -> None:
    stored_at(core, [10, 10, 20, 20, 40])
    found = [find_offset_at_time(core.state, core.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize(
    ("timestamp_ms", "lower", "upper"), [(5, 3, 3), (20, 3, 3), (25, 4, 3), (40, 4, 4), (99, 5, 4)]
)
def test_messages_that_are_gone_are_not_found_by_time(
    core: CoreHarness, timestamp_ms: int, lower: int, upper: int
) -> None:
    stored_at(core, [10, 10, 20, 20, 40])
    core.state.apply([QueuesTrimmed(((core.queue(), 3),))])
    found = [find_offset_at_time(core.state, core.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize("boundary", BoundaryType)
@pytest.mark.parametrize("messages", [0, 2])
def test_a_queue_without_messages_has_one_offset_at_any_time(
    core: CoreHarness, messages: int, boundary: BoundaryType
) -> None:
    stored_at(core, [10] * messages)
    core.state.apply([QueuesTrimmed(((core.queue(), messages),))])
    assert [find_offset_at_time(core.state, core.queue(), at_ms, boundary) for at_ms in (5, 10, 15)] == [messages] * 3


def test_a_queue_of_an_unknown_topic_has_offset_0_at_any_time(core: CoreHarness) -> None:
    assert [find_offset_at_time(core.state, core.queue(), 5, boundary) for boundary in BoundaryType] == [0, 0]


@given(st.lists(st.integers(0, 30), max_size=20).map(sorted), st.integers(-1, 31))
def test_time_search_agrees_with_a_plain_search(times_ms: list[int], timestamp_ms: int) -> None:
    core = CoreHarness()
    stored_at(core, times_ms)
    lower = next((offset for offset, time in enumerate(times_ms) if time >= timestamp_ms), len(times_ms))
    upper = max((offset for offset, time in enumerate(times_ms) if time <= timestamp_ms), default=0)
    found = [find_offset_at_time(core.state, core.queue(), timestamp_ms, boundary) for boundary in BoundaryType]
    assert found == [lower, upper]


@pytest.mark.parametrize(
    ("from_offset", "until_offset", "byte_max", "parts"),
    [
        (0, 3, 60, [(3, 60)]),
        (0, 3, 59, [(2, 30), (3, 30)]),
        (0, 3, 30, [(2, 30), (3, 30)]),
        (0, 3, 29, [(1, 10), (2, 20), (3, 30)]),
        (0, 3, 0, [(1, 10), (2, 20), (3, 30)]),
        (0, 3, -5, [(1, 10), (2, 20), (3, 30)]),
        (1, 2, 1_000, [(2, 20)]),
        (2, 99, 29, [(3, 30)]),
        (-4, 1, 10, [(1, 10)]),
        (3, 9, 100, []),
        (9, 3, 100, []),
    ],
)
def test_a_range_is_cut_into_parts_of_so_many_bytes(
    core: CoreHarness, from_offset: int, until_offset: int, byte_max: int, parts: list[tuple[int, int]]
) -> None:
    core.topic()
    core.fill([bytes(10), bytes(20), bytes(30)])
    assert list(cut_by_bytes(core.state, core.queue(), from_offset, until_offset, byte_max)) == parts


def test_messages_that_are_gone_are_in_no_part(core: CoreHarness) -> None:
    core.topic()
    core.fill([bytes(10), bytes(20), bytes(30)])
    core.state.apply([QueuesTrimmed(((core.queue(), 2),))])
    assert list(cut_by_bytes(core.state, core.queue(), 0, 3, 1_000)) == [(3, 30)]


def test_a_queue_never_written_has_no_parts(core: CoreHarness) -> None:
    core.topic()
    assert list(cut_by_bytes(core.state, core.queue(), 0, 5, 100)) == []


@given(st.lists(st.integers(1, 9), max_size=12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 60))
def test_parts_are_all_messages_in_order_and_as_long_as_they_may_be(
    sizes: list[int], from_offset: int, until_offset: int, byte_max: int
) -> None:
    core = CoreHarness()
    core.topic()
    for size in sizes:
        core.fill([bytes(size)])
    parts = list(cut_by_bytes(core.state, core.queue(), from_offset, until_offset, byte_max))
    end = min(until_offset, len(sizes))
    ends = [part.until_offset for part in parts]
    begins = [from_offset, *ends][: len(ends)]
    assert all(begin < until for begin, until in zip(begins, ends, strict=True))
    assert ends[-1:] == [end][: end > from_offset]
    for begin, (until, byte_count) in zip(begins, parts, strict=True):
        assert byte_count == sum(sizes[begin:until])
        assert byte_count <= byte_max or until == begin + 1
        assert until == end or byte_count + sizes[until] > byte_max
