"""Messages in columns as the log keeps them: each part of a batch is whole in one message, where its place says."""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterator
from itertools import accumulate, pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart
from rmqpull_broker.core.state.stage_facts import ColumnsStaged
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.logged_columns import (
    DamagedMessage,
    add_null_columns,
    decode_messages,
    encode_messages,
    group_parts,
    locate_parts,
    place_messages,
    read_message,
)
from rmqpull_broker.store.log.segments import segment_name
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.written_messages import QUEUES, lower_part_limits, make_call, make_rows

LARGE = 6


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, LARGE)
        yield


COUNTS = st.lists(st.integers(1, 2 * LARGE), min_size=1, max_size=12)


@given(COUNTS)
def test_a_message_is_one_large_part_or_neighbouring_small_ones(counts: list[int]) -> None:
    groups = list(group_parts(counts))
    ends = [0, *accumulate(groups)]
    assert ends[-1] == sum(counts)
    assert set(ends) <= {0, *accumulate(counts)}, "each part is whole in one message"
    bounds = list(pairwise([0, *accumulate(counts)]))
    for begin, end in pairwise(ends):
        own = [after - before for before, after in bounds if begin <= before and after <= end]
        assert max(own) < LARGE or len(own) == 1
        assert sum(own[:-1]) < LARGE, "it is closed when it is large enough"
    for (_, first_end), (second_begin, second_end) in pairwise(pairwise(ends)):
        following = [after - before for before, after in bounds if before >= second_begin]
        is_small = first_end - ends[ends.index(first_end) - 1] < LARGE
        assert not is_small or following[0] >= LARGE, "a small message ends before a large part"
        assert second_end > second_begin


@pytest.mark.parametrize(
    ("counts", "groups"),
    [
        ([], []),
        ([1], [1]),
        ([5, 1], [6]),
        ([5, 5], [10]),
        ([5, 6], [5, 6]),
        ([6, 5], [6, 5]),
        ([1, 6, 1, 1, 7, 2], [1, 6, 2, 7, 2]),
        ([3, 3, 3, 3, 3], [6, 6, 3]),
    ],
)
def test_parts_are_grouped(counts: list[int], groups: list[int]) -> None:
    assert list(group_parts(counts)) == groups


def make_bodies(count: int) -> list[bytes]:
    return [b"body %d" % number for number in range(count)]


@given(COUNTS, st.integers(0, 9).map(lambda number: 8 * number))
def test_each_part_is_where_its_message_says(counts: list[int], position: int) -> None:
    bodies = make_bodies(sum(counts))
    encoded = encode_messages(make_rows(bodies), counts)
    data = b"".join(map(bytes, encoded.data))
    assert (len(data), len(data) % 8) == (encoded.length, 0)
    placed = place_messages(encoded.forms, 8, position)
    assert [message.row_count for message in placed] == list(group_parts(counts))
    found = []
    for count, (message, begin) in zip(counts, locate_parts(counts, placed), strict=True):
        assert (message.segment, message.position % 8) == (8, 0)
        at = message.position - position
        rows = add_null_columns(read_message(data[at : at + message.length], message))
        assert (rows.schema, rows.num_rows) == (columns.UNPLACED_SCHEMA, message.row_count)
        found += rows.slice(begin, count).column("body").to_pylist()
    assert found == bodies
    assert decode_messages(data, encoded.forms) == make_rows(bodies)


@given(st.lists(COUNTS, min_size=1, max_size=4), st.booleans(), st.integers(0, 1))
def test_places_in_a_real_log_have_the_rows(batches: list[list[int]], is_staged: bool, small_segments: int) -> None:
    disk = MemoryFileSystem()
    log = CommitLog(disk, segment_bytes=64 if small_segments else 1 << 20)
    log.recover(lambda facts, written: None)
    for sequence, counts in enumerate(batches):
        bodies = iter(make_bodies(sum(counts)))
        parts = [(QUEUES[at % 3], [next(bodies) for _ in range(count)]) for at, count in enumerate(counts)]
        call = make_call("a", sequence, parts)
        fact: ColumnsStaged | ColumnsStored = call
        if not is_staged:
            rows = columns.place_rows(call.batch, 0, 1_000, "host")
            begins = accumulate(counts, initial=0)
            stored = tuple(QueuePart(part[0], begin, part[1]) for part, begin in zip(call.parts, begins, strict=False))
            fact = ColumnsStored(stored, rows)
        for written, (kept,) in log.append([[fact], [fact]]):
            assert isinstance(kept, (ColumnsStaged, ColumnsStored))
            if not is_staged and max(counts) < LARGE:
                assert kept.messages == ()
                continue
            assert [message.row_count for message in kept.messages] == list(group_parts(counts))
            read = [read_placed(disk, message) for message in kept.messages]
            assert columns.concat_batches(read) == call.batch
            assert all(message.segment == written.segment for message in kept.messages)
            assert kept.messages[0].position > written.from_position
            assert kept.messages[-1].position + kept.messages[-1].length <= written.until_position
            (again,) = log.read(written.from_position, written.until_position)
            assert again == [fact]
            assert [found.messages for found in again] == [kept.messages]  # type: ignore[union-attr]


def read_placed(disk: MemoryFileSystem, message: LoggedMessage) -> pa.RecordBatch:
    at = message.position - message.segment
    return add_null_columns(
        read_message(bytes(disk.files[segment_name(message.segment)][at : at + message.length]), message)
    )


ENCODED = encode_messages(make_rows(make_bodies(3)), [3])
(PLACED,) = place_messages(ENCODED.forms, 0, 64)
DATA = bytes(ENCODED.data[0])


def test_every_flipped_byte_is_refused() -> None:
    assert add_null_columns(read_message(DATA, PLACED)) == make_rows(make_bodies(3))
    for at in range(len(DATA)):
        changed = bytearray(DATA)
        changed[at] ^= 1 << at % 8
        with pytest.raises(DamagedMessage, match="the message fails its checksum"):
            read_message(bytes(changed), PLACED)


def test_a_message_cut_anywhere_is_refused() -> None:
    for size in range(len(DATA)):
        with pytest.raises(DamagedMessage, match="the log ends within the message"):
            read_message(DATA[:size], PLACED)


def test_another_message_of_the_same_length_is_refused() -> None:
    other = bytes(encode_messages(make_rows([b"other!", b"other!", b"other!"]), [3]).data[0])
    assert len(other) == len(DATA)
    with pytest.raises(DamagedMessage):
        read_message(other, PLACED)
    assert read_message(other, PLACED._replace(checksum=zlib.crc32(other))).num_rows == 3


def test_a_message_lacks_what_a_queue_gives_its_rows() -> None:
    placed = columns.place_rows(make_rows(make_bodies(3)), 7, 1_000, "host")
    assert encode_messages(placed, [3]).forms == ENCODED.forms


def test_a_slice_of_a_batch_is_written_without_the_rest() -> None:
    slices = make_rows(make_bodies(300)).slice(100, 3)
    assert encode_messages(slices, [3]).length < 2 * ENCODED.length
    encoded = encode_messages(slices, [3])
    assert add_null_columns(read_message(bytes(encoded.data[0]), place_messages(encoded.forms, 0, 0)[0])) == slices


def test_columns_without_any_value_are_left_out_and_null_again() -> None:
    rows = make_rows(make_bodies(3))
    read = read_message(DATA, PLACED)
    empty = {name for name in rows.schema.names if rows.column(name).null_count == 3}
    assert {"tags", "keys", "messageGroup", "deliveryTimestamp"} <= empty
    assert set(read.schema.names) == set(rows.schema.names) - empty
    placed = columns.place_rows(read, 7, 1_000, "host")
    assert placed == columns.place_rows(rows, 7, 1_000, "host")


def test_facts_are_equal_wherever_the_log_has_them() -> None:
    call = make_call("a", 0, [(QUEUES[0], make_bodies(3))])
    assert dataclasses.replace(call, messages=(PLACED,)) == call
