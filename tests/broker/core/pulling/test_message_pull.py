"""What a pull finds: the decision table, the limits of a batch and the scan (rules 3.2, rmqpull.v1)."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.filters.message_filter import EVERYTHING, TagFilter, parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling import message_pull
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.message_pull import (
    Pulled,
    TransferLimits,
    check_offset,
    pull_messages,
)
from tests.harness.core import CoreHarness

RED = parse_tags("red")


def pull(core: CoreHarness, offset: int, batch_size: int = 32, message_filter: TagFilter = EVERYTHING) -> Pulled:
    return pull_messages(core.state, core.queue(), offset, batch_size, message_filter)


def offsets(pulled: Pulled) -> list[int]:
    return [row.queue_offset for row in columns.to_rows(pulled.batches)]


@pytest.mark.parametrize(
    ("offset", "bounds", "status", "next_offset", "response", "waits"),
    [
        (0, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, 19, True),
        (1, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, 21, False),
        (-1, Bounds(0, 0), "NO_MESSAGE_IN_QUEUE", 0, 21, False),
        (4, Bounds(5, 9), "OFFSET_TOO_SMALL", 5, 21, False),
        (-1, Bounds(0, 9), "OFFSET_TOO_SMALL", 0, 21, False),
        (9, Bounds(5, 9), "OFFSET_OVERFLOW_ONE", 9, 19, True),
        (9, Bounds(9, 9), "OFFSET_OVERFLOW_ONE", 9, 19, True),
        (8, Bounds(9, 9), "OFFSET_TOO_SMALL", 9, 21, False),
        (10, Bounds(5, 9), "OFFSET_OVERFLOW_BADLY", 9, 21, False),
        (10, Bounds(0, 9), "OFFSET_OVERFLOW_BADLY", 9, 21, False),
    ],
)
def test_an_offset_without_a_message_is_answered_by_the_decision_table(
    offset: int, bounds: Bounds, status: str, next_offset: int, response: int, waits: bool
) -> None:
    found = check_offset(offset, bounds)
    assert found is not None
    assert (found.status.name, found.offset, found.next_offset, found.bounds) == (status, offset, next_offset, bounds)
    assert (found.response, found.may_park, found.row_count) == (response, waits, 0)


@pytest.mark.parametrize("offset", [5, 8])
def test_an_offset_with_a_message_is_scanned(offset: int) -> None:
    assert check_offset(offset, Bounds(5, 9)) is None


@pytest.mark.parametrize(
    ("offset", "message_filter", "status", "found", "next_offset"),
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
    core: CoreHarness, offset: int, message_filter: TagFilter, status: str, found: list[int], next_offset: int
) -> None:
    core.topic()
    core.fill([b"a", b"b", b"c", b"d"], ["red", "blue", "red", None])
    pulled = pull(core, offset, message_filter=message_filter)
    assert (pulled.status.name, offsets(pulled), pulled.next_offset) == (status, found, next_offset)
    assert (pulled.offset, pulled.bounds, pulled.row_count) == (offset, (0, 4), len(found))
    assert pulled.may_park == (status == "OFFSET_OVERFLOW_ONE")


def test_a_queue_never_written_has_no_message(core: CoreHarness) -> None:
    core.topic()
    assert pull(core, 0).status is PullStatus.NO_MESSAGE_IN_QUEUE


@pytest.mark.parametrize(("batch_size", "count"), [(1, 1), (31, 31), (32, 32), (33, 32), (1_000, 32), (0, 1), (-1, 1)])
@pytest.mark.parametrize("message_filter", [EVERYTHING, RED])
def test_at_most_32_messages_and_at_least_one(
    core: CoreHarness, message_filter: TagFilter, batch_size: int, count: int
) -> None:
    core.topic()
    core.fill([b"x"] * 40, ["red"] * 40)
    pulled = pull(core, 3, batch_size, message_filter)
    assert offsets(pulled) == list(range(3, 3 + count))
    assert pulled.next_offset == 3 + count


def test_the_byte_limit_counts_stored_records_and_not_bodies(core: CoreHarness) -> None:
    # 32 bodies of 8,192 bytes would fill 262,144 bytes exactly.
    core.topic()
    core.fill([bytes(8_192)] * 40)
    assert len(offsets(pull(core, 0))) == 31


KIB = 1024
AROUND_BODY = (
    91
    + len("orders")
    + len("UNIQ_KEY\1\2MSG_REGION\1DefaultRegion\2TRACE_ON\1true\2CLUSTER\1DefaultCluster\2")
    + len("__BORNHOST\1client\2BORN_TIMESTAMP\0011000\2")
    + 34
)
"""Bytes of the record of a message of these tests beside its body; its id has 34 characters."""


def fill_records(core: CoreHarness, sizes: list[int]) -> None:
    """Publishes messages whose records have these sizes."""
    core.fill([bytes(size - AROUND_BODY) for size in sizes])


@pytest.mark.parametrize(
    ("sizes", "count"),
    [
        ([256 * KIB, KIB], 1),
        ([255 * KIB, KIB, KIB], 2),
        ([255 * KIB, KIB + 1], 1),
        ([KIB, 255 * KIB, KIB], 2),
        ([KIB, 256 * KIB], 1),
        ([300 * KIB, KIB], 1),
        ([4096 * KIB, 4096 * KIB], 1),
        ([KIB, 300 * KIB], 1),
    ],
)
def test_records_of_at_most_256_kib_but_the_first_always_fits(core: CoreHarness, sizes: list[int], count: int) -> None:
    core.topic()
    fill_records(core, sizes)
    pulled = pull(core, 0)
    assert (len(offsets(pulled)), pulled.next_offset) == (count, count)


def test_whether_the_batch_is_full_is_asked_before_the_filter(core: CoreHarness) -> None:
    core.topic()
    core.fill([b"a", bytes(256 * KIB), b"c"], ["red", "blue", "red"])
    pulled = pull(core, 0, message_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([0], 1)


def test_what_the_filter_drops_fills_nothing(core: CoreHarness) -> None:
    core.topic()
    core.fill([bytes(300 * KIB), b"b", b"c"], ["blue", "red", "blue"])
    pulled = pull(core, 0, message_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([1], 3)


@pytest.mark.parametrize(
    ("red_at", "status", "next_offset"),
    [(799, "FOUND", 800), (800, "NO_MATCHED_MESSAGE", 800), (0, "FOUND", 800)],
)
def test_one_pull_looks_at_800_messages(core: CoreHarness, red_at: int, status: str, next_offset: int) -> None:
    core.topic()
    core.fill([b"x"] * 1_000, ["red" if offset == red_at else "blue" for offset in range(1_000)])
    pulled = pull(core, 0, message_filter=RED)
    assert (pulled.status.name, pulled.next_offset) == (status, next_offset)
    assert offsets(pulled) == ([red_at] if status == "FOUND" else [])


def test_pulls_that_match_nothing_get_to_the_end_and_wait_there(core: CoreHarness) -> None:
    core.topic()
    core.fill([b"x"] * 1_700, ["blue"] * 1_700)
    seen = [pull(core, 0, message_filter=RED)]
    while not seen[-1].may_park:
        seen.append(pull(core, seen[-1].next_offset, message_filter=RED))
    assert [pulled.next_offset for pulled in seen] == [800, 1_600, 1_700, 1_700]
    assert seen[-1].status is PullStatus.OFFSET_OVERFLOW_ONE


def test_a_pull_reads_over_the_borders_of_chunks(core: CoreHarness) -> None:
    core.topic()
    for size in (20, 5, 1):  # falling sizes are not merged
        core.fill([b"x"] * size, ["red", *["blue"] * (size - 1)])
    pulled = pull(core, 1)
    assert (offsets(pulled), pulled.next_offset) == (list(range(1, 26)), 26)
    pulled = pull(core, 1, batch_size=1, message_filter=RED)
    assert (offsets(pulled), pulled.next_offset) == ([20], 21)


@pytest.mark.parametrize(("size", "count"), [(78 * KIB, 12), (78 * KIB + 1, 11)])
def test_the_byte_limit_counts_over_the_borders_of_chunks(core: CoreHarness, size: int, count: int) -> None:
    # The first chunk is far from the limit, so its rows are not measured before the second one.
    core.topic()
    for sizes in ([10 * KIB] * 10, [78 * KIB, size], [KIB]):
        fill_records(core, sizes)
    assert len(offsets(pull(core, 0))) == count


@pytest.mark.parametrize(
    ("max_msg_nums", "next_offset"), [(1, 800), (800, 800), (801, 801), (900, 900), (2_000, 1_000)]
)
def test_who_wants_more_than_800_messages_is_looked_at_as_many_for(
    core: CoreHarness, max_msg_nums: int, next_offset: int
) -> None:
    core.topic()
    core.fill([b"x"] * 1_000, ["blue"] * 1_000)
    assert pull(core, 0, max_msg_nums, RED).next_offset == next_offset


@pytest.mark.parametrize("message_filter", [EVERYTHING, RED])
def test_one_pull_looks_into_one_file_of_the_consume_queue(
    core: CoreHarness, monkeypatch: pytest.MonkeyPatch, message_filter: TagFilter
) -> None:
    monkeypatch.setattr(message_pull, "CONSUME_QUEUE_FILE_ENTRIES", 10)
    core.topic()
    core.fill([b"x"] * 25, ["red"] * 25)
    assert [pull(core, offset, message_filter=message_filter).next_offset for offset in (0, 9, 10, 20)] == [
        10,
        10,
        20,
        25,
    ]


# --- a store that cannot read everything ------------------------------------------------------------------------------


def without(core: CoreHarness, monkeypatch: pytest.MonkeyPatch, *gone: range) -> None:
    """From now on these offsets cannot be read any more, though the bounds hold them."""
    read = core.state.store.read

    def read_what_is_left(queue: MessageQueue, from_offset: int, until_offset: int) -> list[pa.RecordBatch]:
        left = [at for at in range(from_offset, until_offset) if not any(at in lost for lost in gone)]
        return [slice_ for at in left for slice_ in read(queue, at, at + 1)]

    monkeypatch.setattr(core.state.store, "read", read_what_is_left)


@pytest.mark.parametrize(
    ("gone", "offset", "message_filter", "answer"),
    [
        ((range(6),), 0, EVERYTHING, ("OFFSET_FOUND_NULL", [], 300_000)),
        ((range(3, 6),), 3, RED, ("OFFSET_FOUND_NULL", [], 300_000)),
        ((range(2),), 0, EVERYTHING, ("FOUND", [2, 3, 4, 5], 6)),
        ((range(2, 4),), 0, EVERYTHING, ("FOUND", [0, 1, 4, 5], 6)),
        ((range(2),), 0, parse_tags("green"), ("MESSAGE_WAS_REMOVING", [], 6)),
        ((range(2, 4),), 1, parse_tags("green"), ("MESSAGE_WAS_REMOVING", [], 6)),
        ((range(2, 4),), 4, parse_tags("green"), ("NO_MATCHED_MESSAGE", [], 6)),
    ],
)
def test_messages_that_are_gone_in_between_are_passed_over(
    core: CoreHarness,
    monkeypatch: pytest.MonkeyPatch,
    gone: tuple[range, ...],
    offset: int,
    message_filter: TagFilter,
    answer: tuple[str, list[int], int],
) -> None:
    core.topic()
    core.fill([b"x"] * 6, ["red"] * 6)
    without(core, monkeypatch, *gone)
    pulled = pull(core, offset, message_filter=message_filter)
    assert (pulled.status.name, offsets(pulled), pulled.next_offset) == answer


@given(
    st.lists(st.tuples(st.sampled_from(["red", "blue"]), st.integers(1, 9)), min_size=1, max_size=60),
    st.sampled_from([EVERYTHING, RED]),
    st.integers(-1, 9),
    st.integers(1, 9),
    st.integers(1, 3_000),
)
def test_following_next_offset_reads_every_matching_message_once_within_the_limits(
    messages: list[tuple[str, int]],
    message_filter: TagFilter,
    max_msg_nums: int,
    count_max: int,
    byte_max: int,
) -> None:
    core = CoreHarness()
    core.topic()
    core.fill([bytes(size) for _, size in messages], [tag for tag, _ in messages])
    read: list[int] = []
    next_offset = 0
    while next_offset < len(messages):
        limits = TransferLimits(count_max, byte_max)
        pulled = pull_messages(core.state, core.queue(), next_offset, max_msg_nums, message_filter, limits)
        sizes = [len(row.message.body) + AROUND_BODY + len("TAGS\1\2red") for row in columns.to_rows(pulled.batches)]
        assert len(sizes) <= max(1, min(max_msg_nums, count_max))
        assert sum(sizes) <= byte_max or len(sizes) == 1
        assert pulled.next_offset > next_offset
        next_offset = pulled.next_offset
        read += offsets(pulled)
    assert read == [at for at, (tag, _) in enumerate(messages) if message_filter is EVERYTHING or tag == "red"]
