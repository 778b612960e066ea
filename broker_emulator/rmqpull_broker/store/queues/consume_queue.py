"""One consume queue: a list of Arrow chunks, and a short tail of rows that are not in columns yet.

A single send needs no Arrow: its rows are added to the tail. The tail becomes a chunk when it is full or when a reader
needs it. Small chunks are merged when they are added, so that readers of a queue filled in small batches get large
ones. A chunk that will no longer be merged is final. Final chunks may be saved; then only their locations stay in
memory.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart, RowsStored
from rmqpull_broker.core.state.ports import LogRange, Span
from rmqpull_broker.store.log.rows import LoggedRows, decode_columns
from rmqpull_broker.store.queues import chunks
from rmqpull_broker.store.queues.chunks import FreshChunk, PackedRows, SavedChunk, make_chunk, span

TAIL_ROWS_MAX = 1024
ROW_BYTES = 1024
"""The approximate memory of a row of the tail, without its body."""

Load = Callable[[SavedChunk], pa.RecordBatch]


class ConsumeQueue:
    """The messages of one queue by offset.

    Arguments: a function that reads a saved chunk; for a queue from a snapshot, its min offset, the offset after the
    saved chunks, and the saved chunks; whether full chunks are compressed in memory.
    """

    def __init__(
        self,
        load: Load,
        min_offset: int = 0,
        unsaved_from: int = 0,
        saved: Sequence[SavedChunk] = (),
        *,
        packs: bool = False,
    ) -> None:
        self._load = load
        self._packs = packs
        # A cache: the compressed chunk that was read last, and its rows.
        self._unpacked: tuple[FreshChunk, pa.RecordBatch] | None = None
        self._min_offset = min_offset
        self._chunks: list[FreshChunk | SavedChunk] = list(saved)
        self._ends = [chunk.first_offset + chunk.row_count for chunk in saved]  # the offset after each chunk
        self._chunks_end = unsaved_from
        self._saved_count = len(self._chunks)
        self._final_count = len(self._chunks)
        self._tail: list[StoredMessage] = []
        # In place of the tail while the log is replayed: rows in the form of the log, and their number.
        self._logged: list[bytes] = []
        self._logged_count = 0
        self._tail_written: LogRange | None = None
        self._last_store_ms = saved[-1].last_store_ms if saved else 0
        self.unsaved_bytes = 0

    def bounds(self) -> Bounds:
        """Returns the readable range."""
        return Bounds(self._min_offset, self._chunks_end + self.tail_rows)

    @property
    def tail_rows(self) -> int:
        """How many rows are not in columns yet."""
        return len(self._tail) + self._logged_count

    @property
    def last_store_ms(self) -> int:
        """The store time of the last message; 0 without messages."""
        first, last = self.bounds()
        return self._last_store_ms if last > first else 0

    # --- appending -----------------------------------------------------------------------------------------------

    def append_rows(self, rows: Sequence[StoredMessage], written: LogRange) -> None:
        """Adds stored messages; the first must have the queue's max offset."""
        assert rows[0].queue_offset == self.bounds().max_offset, "offsets of a queue are consecutive"
        if self._logged:
            self._seal_tail()
        self._tail.extend(rows)
        self._last_store_ms = rows[-1].store_timestamp_ms
        self._tail_written = span(self._tail_written or written, written)
        self.unsaved_bytes += sum(ROW_BYTES + len(row.message.body) for row in rows)
        if len(self._tail) >= TAIL_ROWS_MAX:
            self._seal_tail()

    def append_logged(self, stored: LoggedRows, written: LogRange) -> None:
        """Adds stored messages like :meth:`append_rows`, without an object for each."""
        assert stored.first_offset == self.bounds().max_offset, "offsets of a queue are consecutive"
        if self._tail:
            self._seal_tail()
        self._logged += stored.sends
        self._last_store_ms = stored.store_timestamp_ms
        self._logged_count += stored.row_count
        self._tail_written = span(self._tail_written or written, written)
        self.unsaved_bytes += sum(map(len, stored.sends))
        if self._logged_count >= TAIL_ROWS_MAX:
            self._seal_tail()

    def append_columns(self, batch: pa.RecordBatch, written: LogRange) -> None:
        """Adds a batch of ``columns.STORED_SCHEMA``; its first row must have the queue's max offset."""
        self._seal_tail()
        self._add_chunk(make_chunk(self._chunks_end, batch, written))

    def seal(self, until_offset: int) -> None:
        """Turns the tail into a chunk if it has rows before ``until_offset``. This changes ``unsaved_bytes``."""
        if until_offset > self._chunks_end:
            self._seal_tail()

    def _seal_tail(self) -> None:
        if self._tail_written is not None:
            batch = decode_columns(self._logged) if self._logged else columns.from_rows(self._tail)
            written = self._tail_written
            self._empty_tail()
            self._add_chunk(make_chunk(self._chunks_end, batch, written))

    def _empty_tail(self) -> None:
        self.unsaved_bytes -= sum(ROW_BYTES + len(row.message.body) for row in self._tail) + sum(map(len, self._logged))
        self._tail, self._logged, self._logged_count, self._tail_written = [], [], 0, None

    def _add_chunk(self, chunk: FreshChunk) -> None:
        """Merges the chunk with the last one while that is not larger, so a row is copied at most log2(rows) times."""
        self._chunks_end += chunk.row_count
        self._last_store_ms = chunk.last_store_ms
        self.unsaved_bytes += chunk.byte_count
        while len(self._chunks) > self._final_count:
            last = self._chunks[-1]
            if isinstance(last, SavedChunk) or not _may_merge(last, chunk):
                break
            self._chunks.pop()
            self._ends.pop()
            chunk = last.merge(chunk)
        is_full = chunk.is_full
        if is_full and self._packs:
            self.unsaved_bytes -= chunk.byte_count
            chunk = chunk.pack()
            self.unsaved_bytes += chunk.byte_count
        self._chunks.append(chunk)
        self._ends.append(self._chunks_end)
        if is_full:
            self._final_count = len(self._chunks)

    # --- saving --------------------------------------------------------------------------------------------------

    def finalize(self) -> None:
        """Makes all chunks ready to be saved, whatever their size."""
        self._seal_tail()
        self._final_count = len(self._chunks)

    def list_fresh(self) -> list[FreshChunk]:
        """Returns the chunks that are not saved, in order."""
        return [chunk for chunk in self._chunks[self._saved_count :] if isinstance(chunk, FreshChunk)]

    def list_ready(self) -> list[FreshChunk]:
        """Returns the final chunks that are not saved, in order."""
        final = self._chunks[self._saved_count : self._final_count]
        return [chunk for chunk in final if isinstance(chunk, FreshChunk)]

    def install(self, chunk: FreshChunk, saved: SavedChunk) -> bool:
        """Replaces the first chunk of :meth:`list_ready` by its location. False when the queue no longer has it."""
        if self._saved_count == len(self._chunks) or self._chunks[self._saved_count] is not chunk:
            return False
        self._chunks[self._saved_count] = saved
        self._saved_count += 1
        self.unsaved_bytes -= chunk.byte_count
        return True

    @property
    def loose_bytes(self) -> int:
        """The approximate bytes that are neither saved nor ready to be saved."""
        return self.unsaved_bytes - sum(chunk.byte_count for chunk in self.list_ready())

    @property
    def unsaved_from(self) -> int:
        """The first offset that is in no queue file."""
        return self._ends[self._saved_count - 1] if self._saved_count else self._begin

    @property
    def _begin(self) -> int:
        return self._chunks[0].first_offset if self._chunks else self._chunks_end

    def find_unsaved_since(self, position: int) -> int:
        """Returns the log position of the oldest write that is in no queue file, or ``position``."""
        if self._saved_count < len(self._chunks):
            return self._chunks[self._saved_count].written.from_position
        return position if self._tail_written is None else self._tail_written.from_position

    def list_saved(self) -> list[SavedChunk]:
        """Returns the saved chunks, in order."""
        return [chunk for chunk in self._chunks[: self._saved_count] if isinstance(chunk, SavedChunk)]

    def list_unsaved(self, queue: MessageQueue) -> list[RowsStored | ColumnsStored]:
        """Returns all messages after the saved chunks, as facts of ``queue``. Makes no columns of a short tail."""
        facts: list[RowsStored | ColumnsStored] = [
            ColumnsStored((QueuePart(queue, chunk.first_offset, chunk.row_count),), chunk.batch)
            for chunk in self.list_fresh()
        ]
        # The last send is a separate fact, because its store time becomes that of the queue.
        if self._logged:
            older, last = self._logged[:-1], self._logged[-1]
            return [*facts, *([LoggedRows(queue, *older)] if older else []), LoggedRows(queue, last)]
        return facts + split_last(queue, self._tail)

    # --- reading and trimming ------------------------------------------------------------------------------------

    def read(self, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of ``[from_offset, until_offset)``, within the bounds, in slices that share the chunks'
        memory."""
        self.seal(until_offset)
        while from_offset < until_offset:
            chunk = self._chunks[bisect.bisect_right(self._ends, from_offset)]
            batch = self._unpack(chunk) if isinstance(chunk, FreshChunk) else self._load(chunk)
            taken = batch.slice(from_offset - chunk.first_offset, until_offset - from_offset)
            from_offset += taken.num_rows
            yield taken

    def read_tail(self, from_offset: int) -> Sequence[StoredMessage]:
        """Returns the messages from ``from_offset`` on if they are not in columns yet; none if one of them is."""
        return self._tail[from_offset - self._chunks_end :] if from_offset >= self._chunks_end else ()

    def _unpack(self, chunk: FreshChunk) -> pa.RecordBatch:
        if not isinstance(chunk.rows, PackedRows):
            return chunk.rows
        if self._unpacked is None or self._unpacked[0] is not chunk:
            self._unpacked = chunk, chunk.batch
        return self._unpacked[1]

    def list_spans(self, from_offset: int, until_offset: int) -> list[Span]:
        """Returns the known sizes in ``[from_offset, until_offset)``: those of saved chunks within it."""
        spans = []
        index = bisect.bisect_right(self._ends, from_offset)
        while from_offset < until_offset:
            end, size = until_offset, None
            if index < len(self._chunks) and self._ends[index] <= until_offset:
                chunk, end = self._chunks[index], self._ends[index]
                if isinstance(chunk, SavedChunk) and chunk.first_offset == from_offset:
                    size = chunk.size
            spans.append(Span(end, size))
            from_offset, index = end, index + 1
        return spans

    def find_time_range(self, timestamp_ms: int) -> Bounds:
        """Returns offsets ``[low, high]`` between which the first message stored at or after a time lies.

        The range is at most one chunk.
        """
        index = bisect.bisect_left(self._chunks, timestamp_ms, key=lambda chunk: chunk.last_store_ms)
        if index == len(self._chunks):
            return Bounds(max(self._chunks_end, self._min_offset), self.bounds().max_offset)
        low = max(self._chunks[index].first_offset, self._min_offset)
        return Bounds(low, low if self._chunks[index].first_store_ms >= timestamp_ms else self._ends[index])

    def trim(self, min_offset: int) -> None:
        """Deletes the messages before ``min_offset``, which may lie beyond the end of the queue."""
        self._min_offset = max(self._min_offset, min(min_offset, self.bounds().max_offset))
        if self._min_offset == self.bounds().max_offset:
            self._empty_tail()
            self._chunks_end = self._min_offset
        self._unpacked = None
        deleted = bisect.bisect_right(self._ends, self._min_offset)
        self.unsaved_bytes -= sum(chunk.byte_count for chunk in self._chunks[:deleted] if isinstance(chunk, FreshChunk))
        del self._chunks[:deleted], self._ends[:deleted]
        self._saved_count = max(self._saved_count - deleted, 0)
        self._final_count = max(self._final_count - deleted, 0)


def split_last(queue: MessageQueue, rows: Sequence[StoredMessage]) -> list[RowsStored]:
    """Splits rows into facts such that the last fact has the store time of the last row."""
    if not rows:
        return []
    if rows[0].store_timestamp_ms == rows[-1].store_timestamp_ms:
        return [RowsStored(queue, tuple(rows))]
    return [RowsStored(queue, tuple(rows[:-1])), RowsStored(queue, (rows[-1],))]


def _may_merge(last: FreshChunk, chunk: FreshChunk) -> bool:
    rows, byte_count = last.row_count + chunk.row_count, last.byte_count + chunk.byte_count
    is_small = rows <= chunks.CHUNK_ROWS_MAX and byte_count <= chunks.CHUNK_BYTES_MAX
    return last.row_count <= chunk.row_count and is_small
