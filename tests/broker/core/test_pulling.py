"""What a pull finds: the decision table, the limits of a batch and the scan (rocketmq-semantics 3.2, rmqpull.v1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import columns, pulling
from rmqpull_broker.core.filtering import EVERYTHING, TagFilter, parse_tags
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling import ColumnPull, Pulled, PullStatus, look_up, pull_columns, pull_messages

if TYPE_CHECKING:
    from tests.broker.core.conftest import Desk

RED = parse_tags("red")


def pull(desk: Desk, offset: int, batch_size: int = 32, tag_filter: TagFilter = EVERYTHING) -> Pulled:
    return pull_messages(desk.state, desk.queue(), offset, batch_size, tag_filter)


def offsets(pulled: Pulled) -> list[int]:
    return [row.queue_offset for row in columns.to_rows(pulled.batches)]


@pytest.mark.parametrize(
    ("offset", "bounds", "status", "next_offset", "waits", "is_outside"),
    [
        (0, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, True, False),
        (1, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, False, True),
        (-1, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, False, True),
        (4, Bounds(5, 9), "OFFSET_TOO_SMALL", 5, False, True),
        (-1, Bounds(0, 9), "OFFSET_TOO_SMALL", 0, False, True),
        (9, Bounds(5, 9), "OFFSET_OVERFLOW_ONE", 9, True, False),
        (9, Bounds(9, 9), "OFFSET_OVERFLOW_ONE", 9, True, False),
        (8, Bounds(9, 9), "OFFSET_TOO_SMALL", 9, False, True),
        (10, Bounds(5, 9), "OFFSET_OVERFLOW_BADLY", 9, False, True),
        (10, Bounds(0, 9), "OFFSET_OVERFLOW_BADLY", 9, False, True),
    ],
)
def test_an_offset_without_a_message_is_answered_by_the_decision_table(
    offset: int, bounds: Bounds, status: str, next_offset: int, waits: bool, is_outside: bool
) -> None:
    found = look_up(offset, bounds)
    assert found is not None
    assert (found.status.name, found.offset, found.next_offset, found.bounds) == (status, offset, next_offset, bounds)
    assert (found.waits, found.is_outside, found.row_count) == (waits, is_outside, 0)


@pytest.mark.parametrize("offset", [5, 8])
def test_an_offset_with_a_message_is_scanned(offset: int) -> None:
    assert look_up(offset, Bounds(5, 9)) is None


@pytest.mark.parametrize(
    ("offset", "tag_filter", "status", "found", "next_offset"),
    [
        (0, EVERYTHING, "FOUND", [0, 1, 2, 3], 4),
        (3, EVERYTHING, "FOUND", [3], 4),
        (0, RED, "FOUND", [0, 2], 4),
        (1, RED, "FOUND", [2], 4),
        (3, RED, "NO_MATCHED_MESSAGE", [], 4),
        (0, parse_tags("green"), "NO_MATCHED_MESSAGE", [], 4),
        (4, RED, "OFFSET_OVERFLOW_ONE", [], 4),
        (9, RED, "OFFSET_OVERFLOW_BADLY", [], 4),
        (-1, RED, "OFFSET_TOO_SMALL", [], 0),
    ],
)
def test_a_pull_finds_what_matches_and_moves_on(
    desk: Desk, offset: int, tag_filter: TagFilter, status: str, found: list[int], next_offset: int
) -> None:
    desk.topic()
    desk.fill([b"a", b"b", b"c", b"d"], ["red", "blue", "red", None])
    pulled = pull(desk, offset, tag_filter=tag_filter)
    assert (pulled.status.name, offsets(pulled), pulled.next_offset) == (status, found, next_offset)
    assert (pulled.offset, pulled.bounds, pulled.row_count) == (offset, (0, 4), len(found))
    assert (pulled.waits, pulled.is_outside) == (status == "OFFSET_OVERFLOW_ONE", offset in (9, -1))


def test_a_queue_never_written_has_no_message(desk: Desk) -> None:
    desk.topic()
    assert pull(desk, 0).status is PullStatus.NO_MESSAGE_IN_QUEUE


@pytest.mark.parametrize(("batch_size", "count"), [(1, 1), (31, 31), (32, 32), (33, 32), (1_000, 32), (0, 1), (-1, 1)])
@pytest.mark.parametrize("tag_filter", [EVERYTHING, RED])
def test_at_most_32_messages_and_at_least_one(desk: Desk, tag_filter: TagFilter, batch_size: int, count: int) -> None:
    desk.topic()
    desk.fill([b"x"] * 40, ["red"] * 40)
    pulled = pull(desk, 3, batch_size, tag_filter)
    assert offsets(pulled) == list(range(3, 3 + count))
    assert pulled.next_offset == 3 + count


KIB = 1024


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([256 * KIB, 1], 1),
        ([255 * KIB, KIB, 1], 2),
        ([255 * KIB, KIB + 1], 1),
        ([1, 256 * KIB - 1, 1], 2),
        ([1, 256 * KIB], 1),
        ([300 * KIB, 1], 1),
        ([4096 * KIB, 4096 * KIB], 1),
        ([1, 300 * KIB], 1),
    ],
)
def test_at_most_256_kib_but_the_first_message_always_fits(desk: Desk, sizes: list[int], count: int) -> None:
    desk.topic()
    desk.fill([bytes(size) for size in sizes])
    pulled = pull(desk, 0)
    assert (len(offsets(pulled)), pulled.next_offset) == (count, count)


def test_whether_the_batch_is_full_is_asked_before_the_filter(desk: Desk) -> None:
    desk.topic()
    desk.fill([b"a", bytes(256 * KIB), b"c"], ["red", "blue", "red"])
    pulled = pull(desk, 0, tag_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([0], 1)


def test_what_the_filter_drops_fills_nothing(desk: Desk) -> None:
    desk.topic()
    desk.fill([bytes(300 * KIB), b"b", b"c"], ["blue", "red", "blue"])
    pulled = pull(desk, 0, tag_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([1], 3)


@pytest.mark.parametrize(
    ("red_at", "status", "next_offset"),
    [(799, "FOUND", 800), (800, "NO_MATCHED_MESSAGE", 800), (0, "FOUND", 800)],
)
def test_one_pull_looks_at_800_messages(desk: Desk, red_at: int, status: str, next_offset: int) -> None:
    desk.topic()
    desk.fill([b"x"] * 1_000, ["red" if offset == red_at else "blue" for offset in range(1_000)])
    pulled = pull(desk, 0, tag_filter=RED)
    assert (pulled.status.name, pulled.next_offset) == (status, next_offset)
    assert offsets(pulled) == ([red_at] if status == "FOUND" else [])


def test_pulls_that_match_nothing_get_to_the_end_and_wait_there(desk: Desk) -> None:
    desk.topic()
    desk.fill([b"x"] * 1_700, ["blue"] * 1_700)
    seen = [pull(desk, 0, tag_filter=RED)]
    while not seen[-1].waits:
        seen.append(pull(desk, seen[-1].next_offset, tag_filter=RED))
    assert [pulled.next_offset for pulled in seen] == [800, 1_600, 1_700, 1_700]
    assert seen[-1].status is PullStatus.OFFSET_OVERFLOW_ONE


def test_a_pull_reads_over_the_borders_of_chunks(desk: Desk) -> None:
    desk.topic()
    for size in (20, 5, 1):  # falling sizes are not merged
        desk.fill([b"x"] * size, ["red", *["blue"] * (size - 1)])
    pulled = pull(desk, 1)
    assert (offsets(pulled), pulled.next_offset) == (list(range(1, 26)), 26)
    pulled = pull(desk, 1, batch_size=1, tag_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([20], 21)


# --- columnar pulls ----------------------------------------------------------------------------------------------


@pytest.fixture
def three_queues(desk: Desk) -> Desk:
    """Three queues of four messages, each of 10 bytes."""
    desk.topic(queue_count=3)
    desk.fill([bytes(10)] * 12)
    return desk


def ask(
    desk: Desk, *pulls: ColumnPull, tag_filter: TagFilter = EVERYTHING, rows_max: int = 1_000, bytes_max: int = 1_000
) -> list[tuple[str, list[int], int]]:
    results = pull_columns(desk.state, pulls, tag_filter, rows_max, bytes_max)
    return [(result.status.name, offsets(result), result.next_offset) for result in results]


@pytest.mark.parametrize(
    ("rows_max", "bytes_max", "answers"),
    [
        (1_000, 1_000, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1, 2, 3], 4), ("FOUND", [2, 3], 4)]),
        (5, 1_000, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1], 2), ("NOT_REACHED", [], 2)]),
        (3, 1_000, [("FOUND", [1, 2, 3], 4), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1_000, 59, [("FOUND", [1, 2, 3], 4), ("FOUND", [0, 1], 2), ("NOT_REACHED", [], 2)]),
        (1_000, 30, [("FOUND", [1, 2, 3], 4), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (2, 15, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1, 1_000, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
        (1_000, 1, [("FOUND", [1], 2), ("NOT_REACHED", [], 0), ("NOT_REACHED", [], 2)]),
    ],
)
def test_queues_fill_the_answer_in_their_order(
    three_queues: Desk, rows_max: int, bytes_max: int, answers: list[tuple[str, list[int], int]]
) -> None:
    pulls = [ColumnPull(three_queues.queue(queue_id), offset) for queue_id, offset in enumerate((1, 0, 2))]
    assert ask(three_queues, *pulls, rows_max=rows_max, bytes_max=bytes_max) == answers


@pytest.mark.parametrize(
    ("until_offset", "found"), [(3, [1, 2]), (2, [1]), (4, [1, 2, 3]), (99, [1, 2, 3]), (None, [1, 2, 3])]
)
def test_nothing_is_read_at_or_beyond_until_offset(
    three_queues: Desk, until_offset: int | None, found: list[int]
) -> None:
    answer = ask(three_queues, ColumnPull(three_queues.queue(), 1, until_offset))
    assert answer == [("FOUND", found, found[-1] + 1)]


@pytest.mark.parametrize("until_offset", [1, 0])
def test_an_empty_range_reads_nothing_and_goes_nowhere(three_queues: Desk, until_offset: int) -> None:
    ((_, found, next_offset),) = ask(three_queues, ColumnPull(three_queues.queue(), 1, until_offset))
    assert (found, next_offset) == ([], 1)


def test_each_queue_has_its_own_status(three_queues: Desk) -> None:
    queue = three_queues.queue()
    nowhere = [three_queues.queue(3), MessageQueue("orders", "broker-b", 0), three_queues.queue(topic="unknown")]
    pulls = [ColumnPull(queue, 4), ColumnPull(queue, 5), ColumnPull(queue, -1), *(ColumnPull(n, 7) for n in nowhere)]
    assert ask(three_queues, *pulls, ColumnPull(queue, 3)) == [
        ("OFFSET_OVERFLOW_ONE", [], 4),
        ("OFFSET_OVERFLOW_BADLY", [], 4),
        ("OFFSET_TOO_SMALL", [], 0),
        *[("NO_MATCHED_LOGIC_QUEUE", [], 7)] * 3,
        ("FOUND", [3], 4),
    ]


def test_a_queue_that_got_nowhere_in_a_full_answer_was_not_reached(desk: Desk) -> None:
    desk.topic(queue_count=2)
    desk.fill([b"x"] * 6, ["red", "blue", "blue", "red", "red", "red"])
    pulls = [ColumnPull(desk.queue(0), 0), ColumnPull(desk.queue(1), 0), ColumnPull(desk.queue(1), 1)]
    assert ask(desk, *pulls, tag_filter=RED, rows_max=2) == [
        ("FOUND", [0, 2], 3),
        ("NO_MATCHED_MESSAGE", [], 1),
        ("NOT_REACHED", [], 1),
    ]


def test_a_rare_tag_does_not_hold_up_the_answer(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulling, "COLUMN_SCAN_ROWS_MAX", 3)
    desk.topic()
    desk.fill([b"x"] * 5, ["blue"] * 4 + ["red"])
    assert ask(desk, ColumnPull(desk.queue(), 0), tag_filter=RED) == [("NO_MATCHED_MESSAGE", [], 3)]
    assert ask(desk, ColumnPull(desk.queue(), 3), tag_filter=RED) == [("FOUND", [4], 5)]


@given(
    st.lists(st.lists(st.sampled_from(["red", "blue"]), min_size=1, max_size=9), min_size=1, max_size=4),
    st.sampled_from([EVERYTHING, RED]),
    st.integers(1, 9),
    st.integers(1, 60),
)
def test_following_next_offset_reads_every_matching_row_once_within_the_limits(
    new_desk: type[Desk], batches: list[list[str]], tag_filter: TagFilter, rows_max: int, bytes_max: int
) -> None:
    desk = new_desk()
    queues = desk.state.readable_queues(desk.topic(queue_count=2))
    for tags in batches:
        desk.fill([bytes(6 + len(tags))] * len(tags), tags)
    wanted = {
        q: [r.queue_offset for r in desk.rows(q) if tag_filter.tags is None or r.message.tags == "red"] for q in queues
    }
    reached, read = dict.fromkeys(queues, 0), {queue: list[int]() for queue in queues}
    while any(reached[queue] < desk.state.bounds(queue).max_offset for queue in queues):
        results = pull_columns(desk.state, [ColumnPull(*at) for at in reached.items()], tag_filter, rows_max, bytes_max)
        sizes = [
            size for result in results for batch in result.batches for size in columns.row_bytes(batch).to_pylist()
        ]
        assert len(sizes) <= rows_max
        assert sum(sizes) <= bytes_max or len(sizes) == 1
        progress = {queue: result.next_offset for queue, result in zip(queues, results, strict=True)}
        assert progress != reached
        assert all(r.next_offset == r.offset for r in results if r.status is PullStatus.NOT_REACHED)
        reached = progress
        for queue, result in zip(queues, results, strict=True):
            read[queue] += offsets(result)
    assert read == wanted
