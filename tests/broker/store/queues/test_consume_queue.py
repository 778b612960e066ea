"""One consume queue, compared with a list."""

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, Message, StoredMessage
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.queues import chunks, consume_queue
from rmqpull_broker.store.queues.chunks import SavedChunk
from rmqpull_broker.store.queues.consume_queue import ConsumeQueue

WRITTEN = LogRange(0, 16, 32)


def rows_from(first_offset: int, count: int) -> list[StoredMessage]:
    offsets = range(first_offset, first_offset + count)
    return [StoredMessage(Message(b"body %d" % offset, f"ID{offset}"), offset, 5, "host") for offset in offsets]


def new_queue() -> ConsumeQueue:
    return ConsumeQueue(_unsaved)


def _unsaved(chunk: SavedChunk) -> pa.RecordBatch:
    raise AssertionError(f"{chunk} was never saved")


def append_rows(consume_queue: ConsumeQueue, rows: list[StoredMessage]) -> None:
    consume_queue.append_rows(rows, WRITTEN)


def append_columns(consume_queue: ConsumeQueue, count: int) -> None:
    consume_queue.append_columns(columns.from_rows(rows_from(consume_queue.bounds().max_offset, count)), WRITTEN)


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(consume_queue, "TAIL_ROWS_MAX", 8)
        patch.setattr(chunks, "CHUNK_ROWS_MAX", 16)
        yield


COUNTS = st.integers(1, 12)
STEPS = st.lists(
    st.tuples(st.just("rows"), COUNTS)
    | st.tuples(st.just("columns"), COUNTS)
    | st.tuples(st.just("read"), st.tuples(st.integers(0, 100), st.integers(0, 100))),
    max_size=20,
)


@given(STEPS)
def test_a_queue_is_a_list_of_rows(steps: list[tuple[str, object]]) -> None:
    consume_queue, model = new_queue(), list[StoredMessage]()
    for step, argument in [*steps, ("read", (0, 100))]:
        match step, argument:
            case "rows", int(count):
                append_rows(consume_queue, rows_from(len(model), count))
                model += rows_from(len(model), count)
            case "columns", int(count):
                append_columns(consume_queue, count)
                model += rows_from(len(model), count)
            case _, (int(first), int(last)):
                start, end = sorted((min(first, len(model)), min(last, len(model))))
                assert columns.to_rows(consume_queue.read(start, end)) == model[start:end]
        assert consume_queue.bounds() == Bounds(0, len(model))


def test_rows_that_do_not_follow_are_a_fault_of_the_caller() -> None:
    consume_queue = new_queue()
    append_rows(consume_queue, rows_from(0, 2))
    with pytest.raises(AssertionError, match="are consecutive"):
        append_rows(consume_queue, rows_from(3, 1))


def test_reads_share_the_memory_of_the_queue() -> None:
    consume_queue = new_queue()
    batch = columns.from_rows(rows_from(0, 10))
    consume_queue.append_columns(batch, WRITTEN)
    slices = [*consume_queue.read(2, 4), *consume_queue.read(3, 9)]
    assert {part["body"].buffers()[2].address for part in slices} == {batch["body"].buffers()[2].address}


def chunk_sizes(consume_queue: ConsumeQueue) -> list[int]:
    return [batch.num_rows for batch in consume_queue.read(0, consume_queue.bounds().max_offset)]


@pytest.mark.parametrize(
    ("appended", "chunks"),
    [
        ([1] * 16, [16]),
        ([1] * 17, [16, 1]),
        ([1] * 40, [16, 16, 8]),
        ([3, 1], [3, 1]),
        ([3, 1, 2], [6]),
        ([12, 12], [12, 12]),
        ([16, 1, 1], [16, 2]),
        ([40, 40], [40, 40]),
    ],
)
def test_small_chunks_are_merged_as_they_come(appended: list[int], chunks: list[int]) -> None:
    consume_queue = new_queue()
    for count in appended:
        append_columns(consume_queue, count)
    assert chunk_sizes(consume_queue) == chunks


def test_chunks_are_not_merged_beyond_their_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    one = columns.from_rows(rows_from(0, 1))
    monkeypatch.setattr(chunks, "CHUNK_BYTES_MAX", 2 * one.nbytes)
    consume_queue = new_queue()
    for _ in range(4):
        append_columns(consume_queue, 1)
    assert max(chunk_sizes(consume_queue)) <= 2


def test_single_rows_become_a_chunk_when_the_tail_is_full() -> None:
    consume_queue = new_queue()
    for offset in range(20):
        append_rows(consume_queue, rows_from(offset, 1))
    assert [batch.num_rows for batch in consume_queue.read(0, 16)] == [16]
    assert consume_queue.bounds() == Bounds(0, 20)
    assert chunk_sizes(consume_queue) == [16, 4]


def test_a_read_of_nothing_is_empty() -> None:
    consume_queue = new_queue()
    assert list(consume_queue.read(0, 0)) == []
    append_columns(consume_queue, 3)
    assert list(consume_queue.read(1, 1)) == list(consume_queue.read(3, 3)) == []
    assert isinstance(next(consume_queue.read(0, 3)), pa.RecordBatch)
