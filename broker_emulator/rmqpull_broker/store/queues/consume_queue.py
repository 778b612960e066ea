"""One consume queue: a list of Arrow chunks, and a short tail of rows that are not in columns yet.

A single send needs no Arrow: its rows are added to the tail. The tail becomes a chunk when it is full or when a reader
needs it. Small chunks are merged when they are added, so that readers of a queue filled in small batches get large
ones. A chunk that will no longer be merged is final. Final chunks may be saved; then only their locations stay in
memory. A run refers to rows where the log has them; one of many small parts is scattered, and is saved like a chunk, so
that it can be read fast.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, LoggedMessage, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import ColumnsStored, QueuePart, RowsStored
from rmqpull_broker.core.state.ports import LogRange, Span
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.queues import chunks
from rmqpull_broker.store.queues.chunks import FreshChunk, HeldRows, PackedRows, Run, SavedChunk, make_chunk
from rmqpull_broker.store.queues.tail import Tail

TAIL_ROWS_MAX = 1024

Load = Callable[[SavedChunk], pa.RecordBatch]
ReadMessage = Callable[[LoggedMessage], pa.RecordBatch]
"""Reads the rows of a message in the log, without what a queue gives them."""


class ConsumeQueue:
    """The messages of one queue by offset.

    Arguments: a function that reads a saved chunk; for a queue from a snapshot, its min offset, the offset after the
    saved chunks, and the saved chunks; a function that reads a message in the log; whether full chunks are compressed
    in memory.
    """

    def __init__(
        self,
        load: Load,
        min_offset: int = 0,
        unsaved_from: int = 0,
        saved: Sequence[SavedChunk | Run] = (),
        *,
        read_message: ReadMessage | None = None,
        packs: bool = False,
    ) -> None:
        self._load = load
        self._read_message = read_message
        self._packs = packs
        # A cache: the compressed chunk that was read last, and its rows.
        self._unpacked: tuple[FreshChunk, pa.RecordBatch] | None = None
        self._min_offset = min_offset
        self._chunks: list[FreshChunk | SavedChunk | Run] = list(saved)
        self._ends = [chunk.first_offset + chunk.row_count for chunk in saved]  # the offset after each chunk
        self._chunks_end = unsaved_from
        self._final_count = len(self._chunks)
        # Chunks that are in no queue file, in order, by their first offsets.
        self._fresh: dict[int, FreshChunk] = {}
        self._scattered: dict[int, Run] = {
            run.first_offset: run for run in saved if isinstance(run, Run) and run.is_scattered
        }
        self._tail = Tail()
        self._last_store_ms = saved[-1].last_store_ms if saved else 0
        self.unsaved_bytes = 0
        """The memory of rows that are not saved."""
        self.scattered_bytes = sum(run.scattered_bytes for run in self._scattered.values())
        """The bytes of scattered runs: those of their rows, and what the index needs for them."""

    def bounds(self) -> Bounds:
        """Returns the readable range."""
        return Bounds(self._min_offset, self._chunks_end + self.tail_rows)

    @property
    def tail_rows(self) -> int:
        """How many rows are not in columns yet."""
        return len(self._tail)

    @property
    def last_store_ms(self) -> int:
        """The store time of the last message; 0 without messages."""
        first, last = self.bounds()
        return self._last_store_ms if last > first else 0

    # --- appending -----------------------------------------------------------------------------------------------

    def append_rows(self, rows: Sequence[StoredMessage], written: LogRange) -> None:
        """Adds stored messages; the first must have the queue's max offset."""
        assert rows[0].queue_offset == self.bounds().max_offset, "offsets of a queue are consecutive"
        if self._tail and not self._tail.has_objects:
            self._seal_tail()
        self._change_tail(partial(self._tail.add_rows, rows, written), rows[-1].store_timestamp_ms)

    def append_logged(self, stored: LoggedRows, written: LogRange) -> None:
        """Adds stored messages like :meth:`append_rows`, without an object for each."""
        assert stored.first_offset == self.bounds().max_offset, "offsets of a queue are consecutive"
        if self._tail.has_objects:
            self._seal_tail()
        self._change_tail(partial(self._tail.add_logged, stored, written), stored.store_timestamp_ms)

    def _change_tail(self, change: Callable[[], None], store_ms: int) -> None:
        before = self._tail.byte_count
        change()
        self._last_store_ms = store_ms
        self.unsaved_bytes += self._tail.byte_count - before
        if len(self._tail) >= TAIL_ROWS_MAX:
            self._seal_tail()

    def append_columns(self, batch: pa.RecordBatch, written: LogRange, first_offset: int | None = None) -> None:
        """Adds a batch of ``columns.STORED_SCHEMA``.

        Its first row has the queue's max offset, or ``first_offset`` between chunks that a snapshot has in files.
        """
        self._seal_tail()
        if first_offset is None or first_offset >= self._chunks_end:
            self._add_chunk(make_chunk(self._chunks_end, batch, written))
        else:
            self._insert(make_chunk(first_offset, batch, written))

    def _insert(self, chunk: FreshChunk) -> None:
        index = bisect.bisect_left(self._ends, chunk.first_offset + chunk.row_count)
        self._chunks.insert(index, chunk)
        self._ends.insert(index, chunk.first_offset + chunk.row_count)
        self._final_count += 1
        self.unsaved_bytes += chunk.byte_count
        self._fresh = dict(sorted([*self._fresh.items(), (chunk.first_offset, chunk)]))

    def append_run(self, run: Run) -> None:
        """Adds rows where they are. The first must have the queue's max offset."""
        self._seal_tail()
        assert run.first_offset == self._chunks_end, "offsets of a queue are consecutive"
        self._chunks_end += run.row_count
        self._last_store_ms = run.store_ms
        self._chunks.append(run)
        self._ends.append(self._chunks_end)
        self._final_count = len(self._chunks)
        self.unsaved_bytes += run.memory_bytes
        if run.is_scattered:
            self._scattered[run.first_offset] = run
            self.scattered_bytes += run.scattered_bytes

    def seal(self, until_offset: int) -> None:
        """Turns the tail into a chunk if it has rows before ``until_offset``. This changes ``unsaved_bytes``."""
        if until_offset > self._chunks_end:
            self._seal_tail()

    def _seal_tail(self) -> None:
        tail = self._tail
        if tail.written is not None:
            self._empty_tail()
            self._add_chunk(make_chunk(self._chunks_end, tail.to_batch(), tail.written))

    def _empty_tail(self) -> None:
        self.unsaved_bytes -= self._tail.byte_count
        self._tail = Tail()

    def _add_chunk(self, chunk: FreshChunk) -> None:
        """Merges the chunk with the last one while that is not larger, so a row is copied at most log2(rows) times."""
        self._chunks_end += chunk.row_count
        self._last_store_ms = chunk.last_store_ms
        self.unsaved_bytes += chunk.byte_count
        while len(self._chunks) > self._final_count:
            last = self._chunks[-1]
            if not isinstance(last, FreshChunk) or not _may_merge(last, chunk):
                break
            self._chunks.pop()
            self._ends.pop()
            del self._fresh[last.first_offset]
            chunk = last.merge(chunk)
        is_full = chunk.is_full
        if is_full and self._packs:
            self.unsaved_bytes -= chunk.byte_count
            chunk = chunk.pack()
            self.unsaved_bytes += chunk.byte_count
        self._chunks.append(chunk)
        self._ends.append(self._chunks_end)
        self._fresh[chunk.first_offset] = chunk
        if is_full:
            self._final_count = len(self._chunks)

    # --- saving --------------------------------------------------------------------------------------------------

    def finalize(self) -> None:
        """Makes all chunks ready to be saved, whatever their size."""
        self._seal_tail()
        self._final_count = len(self._chunks)

    def list_fresh(self) -> list[FreshChunk]:
        """Returns the chunks whose rows are only in the log and in memory, in order."""
        return list(self._fresh.values())

    def list_held(self) -> Iterator[HeldRows]:
        """Yields the rows that are in memory, in the pieces in which they may be deleted."""
        for chunk in self._chunks:
            if isinstance(chunk, FreshChunk):
                end = chunk.first_offset + chunk.row_count
                yield HeldRows(end, chunk.written.until_position, chunk.last_store_ms, chunk.byte_count)
            elif isinstance(chunk, Run):
                for part, end in zip(chunk.parts, chunk.parts.ends, strict=True):
                    until = chunk.written.until_position
                    yield HeldRows(chunk.first_offset + end, until, chunk.store_ms, part.memory_bytes)

    def list_ready(self) -> list[FreshChunk]:
        """Returns the final chunks whose rows are in memory, in order."""
        final_until = self._ends[self._final_count - 1] if self._final_count else 0
        return list(takewhile(lambda chunk: chunk.first_offset < final_until, self._fresh.values()))

    @property
    def scattered_count(self) -> int:
        """The number of scattered runs that can be saved."""
        return len(self._scattered)

    def list_scattered(self, until_position: int) -> list[Run]:
        """Returns the scattered runs whose commits end at or before a log position, in order."""
        return list(takewhile(lambda run: run.written.until_position <= until_position, self._scattered.values()))

    def list_commits(self) -> Iterator[int]:
        """Yields where the commit of each scattered run ends in the log, in order."""
        return (run.written.until_position for run in self._scattered.values())

    def install(self, chunks: Sequence[FreshChunk | Run], saved: Sequence[SavedChunk | Run]) -> bool:
        """Replaces ready chunks by their locations, or scattered runs by chunks and the rest of the last run.

        False when the queue no longer has them.
        """
        begin = bisect.bisect_right(self._ends, chunks[0].first_offset)
        found = self._chunks[begin : begin + len(chunks)]
        if len(found) < len(chunks) or any(own is not given for own, given in zip(found, chunks, strict=True)):
            return False
        for chunk in chunks:
            self._forget(chunk)
        self._chunks[begin : begin + len(chunks)] = saved
        self._ends[begin : begin + len(chunks)] = [chunk.first_offset + chunk.row_count for chunk in saved]
        self._final_count += len(saved) - len(chunks)
        if isinstance(rest := saved[-1], Run):
            self._list_first(rest)
        return True

    def _list_first(self, run: Run) -> None:
        """Lists a run again that has lost its first parts, unless large ones are left."""
        if run.is_scattered:
            self._scattered = dict(sorted([(run.first_offset, run), *self._scattered.items()]))
            self.scattered_bytes += run.scattered_bytes

    def leave(self, run: Run) -> None:
        """Lists a run as scattered no more."""
        if self._scattered.get(run.first_offset) is run:
            del self._scattered[run.first_offset]
            self.scattered_bytes -= run.scattered_bytes

    def _forget(self, chunk: FreshChunk | SavedChunk | Run) -> None:
        """Counts a chunk no longer."""
        if isinstance(chunk, Run):
            self.unsaved_bytes -= chunk.memory_bytes
            self.leave(chunk)
        elif isinstance(chunk, FreshChunk):
            self.unsaved_bytes -= chunk.byte_count
            self._fresh.pop(chunk.first_offset, None)

    @property
    def loose_bytes(self) -> int:
        """The approximate bytes that are neither saved nor ready to be saved."""
        return self.unsaved_bytes - sum(chunk.byte_count for chunk in self.list_ready())

    @property
    def unsaved_from(self) -> int:
        """The offset after the chunks of :meth:`list_saved`."""
        saved = next(
            (at for at in range(len(self._chunks), 0, -1) if not isinstance(self._chunks[at - 1], FreshChunk)), 0
        )
        return self._ends[saved - 1] if saved else self._begin

    @property
    def _begin(self) -> int:
        return self._chunks[0].first_offset if self._chunks else self._chunks_end

    def find_unsaved_since(self, position: int) -> int:
        """Returns the log position of the oldest write whose rows a snapshot has to hold, or ``position``."""
        fresh = next(iter(self._fresh.values()), None)
        if fresh is not None:
            return fresh.written.from_position
        return position if self._tail.written is None else self._tail.written.from_position

    def list_saved(self) -> list[SavedChunk | Run]:
        """Returns the chunks that a snapshot only refers to, in order."""
        return [chunk for chunk in self._chunks if not isinstance(chunk, FreshChunk)]

    def list_unsaved(self, queue: MessageQueue) -> list[RowsStored | ColumnsStored]:
        """Returns all messages after the saved chunks, as facts of ``queue``. Makes no columns of a short tail."""
        facts: list[RowsStored | ColumnsStored] = [
            ColumnsStored((QueuePart(queue, chunk.first_offset, chunk.row_count),), chunk.batch)
            for chunk in self.list_fresh()
        ]
        return facts + self._tail.to_facts(queue)

    # --- reading and trimming ------------------------------------------------------------------------------------

    def read(self, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of ``[from_offset, until_offset)``, within the bounds, in slices that share the chunks'
        memory."""
        self.seal(until_offset)
        while from_offset < until_offset:
            chunk = self._chunks[bisect.bisect_right(self._ends, from_offset)]
            if isinstance(chunk, Run):
                for taken in self._read_run(chunk, from_offset, until_offset):
                    from_offset += taken.num_rows
                    yield taken
                continue
            batch = self._unpack(chunk) if isinstance(chunk, FreshChunk) else self._load(chunk)
            taken = batch.slice(from_offset - chunk.first_offset, until_offset - from_offset)
            from_offset += taken.num_rows
            yield taken

    def _read_run(self, run: Run, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        for first_offset, part in run.list_within(from_offset, min(until_offset, run.first_offset + run.row_count)):
            low, high = max(first_offset, from_offset), min(first_offset + part.row_count, until_offset)
            rows = part.read(self._read_message).slice(low - first_offset, high - low)
            yield columns.place_rows(rows, low, run.store_ms, run.store_host)

    def read_tail(self, from_offset: int) -> Sequence[StoredMessage]:
        """Returns the messages from ``from_offset`` on if they are not in columns yet; none if one of them is."""
        return self._tail.rows[from_offset - self._chunks_end :] if from_offset >= self._chunks_end else ()

    def _unpack(self, chunk: FreshChunk) -> pa.RecordBatch:
        if not isinstance(chunk.rows, PackedRows):
            return chunk.rows
        if self._unpacked is None or self._unpacked[0] is not chunk:
            self._unpacked = chunk, chunk.batch
        return self._unpacked[1]

    def list_spans(self, from_offset: int, until_offset: int) -> list[Span]:
        """Returns the known sizes in ``[from_offset, until_offset)``: those of saved chunks, and of parts of runs."""
        spans: list[Span] = []
        index = bisect.bisect_right(self._ends, from_offset)
        while from_offset < until_offset:
            end, size = until_offset, None
            chunk = self._chunks[index] if index < len(self._chunks) else None
            if isinstance(chunk, Run):
                for first_offset, part in chunk.list_within(from_offset, until_offset):
                    end = min(first_offset + part.row_count, until_offset)
                    is_whole = first_offset >= from_offset and end == first_offset + part.row_count
                    spans.append(Span(end, part.size if is_whole else None))
                    from_offset = end
                index += 1
                continue
            if chunk is not None and self._ends[index] <= until_offset:
                end = self._ends[index]
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
        for chunk in self._chunks[:deleted]:
            self._forget(chunk)
        del self._chunks[:deleted], self._ends[:deleted]
        self._final_count = max(self._final_count - deleted, 0)
        self._trim_run()

    def _trim_run(self) -> None:
        """Drops the parts before the min offset of the first chunk, because the log may no longer have them."""
        first = self._chunks[0] if self._chunks else None
        if isinstance(first, Run) and (left := first.without_before(self._min_offset)) is not first:
            is_scattered = first.first_offset in self._scattered
            self._forget(first)
            self._chunks[0] = left
            self.unsaved_bytes += left.memory_bytes
            if is_scattered:
                self._list_first(left)


def _may_merge(last: FreshChunk, chunk: FreshChunk) -> bool:
    rows, byte_count = last.row_count + chunk.row_count, last.byte_count + chunk.byte_count
    is_small = rows <= chunks.CHUNK_ROWS_MAX and byte_count <= chunks.CHUNK_BYTES_MAX
    return last.row_count <= chunk.row_count and is_small
