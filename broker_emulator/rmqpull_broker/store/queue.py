"""One consume queue: a run of Arrow chunks, and a short tail of rows that are not in columns yet.

A single send costs no Arrow: it joins the tail. The tail becomes a chunk when it is full or when somebody reads it, and
small chunks are merged as they come, so that a queue filled in small batches is still read in large ones.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence

import pyarrow as pa

from rmqpull_broker.core import columns
from rmqpull_broker.core.model import Bounds, StoredMessage

TAIL_ROWS_MAX = 1024
CHUNK_ROWS_MAX = 8192
CHUNK_BYTES_MAX = 8 << 20
"""Chunks are merged up to these sizes; larger ones only come from larger batches."""


class ConsumeQueue:
    """Messages of one queue by their offset. The first message has offset 0."""

    def __init__(self) -> None:
        self._chunks: list[pa.RecordBatch] = []
        self._ends: list[int] = []  # the offset behind each chunk
        self._tail: list[StoredMessage] = []
        self._min_offset = 0

    @property
    def _chunks_end(self) -> int:
        return self._ends[-1] if self._ends else 0

    def bounds(self) -> Bounds:
        """The readable range."""
        return Bounds(self._min_offset, self._chunks_end + len(self._tail))

    def append_rows(self, rows: Sequence[StoredMessage]) -> None:
        """Adds stored messages; the first must have the queue's max offset."""
        assert rows[0].queue_offset == self.bounds().max_offset, "offsets of a queue follow each other"
        self._tail.extend(rows)
        if len(self._tail) >= TAIL_ROWS_MAX:
            self._seal_tail()

    def append_columns(self, batch: pa.RecordBatch) -> None:
        """Adds a batch of ``columns.STORED_SCHEMA``; its first row must have the queue's max offset."""
        self._seal_tail()
        self._add_chunk(batch)

    def _seal_tail(self) -> None:
        if self._tail:
            rows, self._tail = self._tail, []
            self._add_chunk(columns.from_rows(rows))

    def _add_chunk(self, chunk: pa.RecordBatch) -> None:
        """Merges with the last chunk while that is not larger: each row is copied at most log2(rows) times."""
        end = self._chunks_end + chunk.num_rows
        while self._chunks and self._may_merge(self._chunks[-1], chunk):
            last = self._chunks.pop()
            self._ends.pop()
            chunk = pa.concat_batches([last, chunk])
        self._chunks.append(chunk)
        self._ends.append(end)

    @staticmethod
    def _may_merge(last: pa.RecordBatch, chunk: pa.RecordBatch) -> bool:
        rows, byte_count = last.num_rows + chunk.num_rows, last.nbytes + chunk.nbytes
        return bool(last.num_rows <= chunk.num_rows and rows <= CHUNK_ROWS_MAX and byte_count <= CHUNK_BYTES_MAX)

    def trim(self, min_offset: int) -> None:
        """Forgets what lies before ``min_offset``; a chunk goes when all of it does."""
        self._seal_tail()
        self._min_offset = max(self._min_offset, min_offset)
        gone = bisect.bisect_right(self._ends, self._min_offset)
        # The last one stays: its end is where the queue goes on.
        gone = min(gone, len(self._ends) - 1)
        if gone > 0:
            del self._chunks[:gone], self._ends[:gone]

    def read(self, from_offset: int, until_offset: int) -> list[pa.RecordBatch]:
        """The rows of ``[from_offset, until_offset)``, within the bounds, as slices that share the chunks' memory."""
        if until_offset > self._chunks_end:
            self._seal_tail()
        slices = []
        index = bisect.bisect_right(self._ends, from_offset)
        while from_offset < until_offset:
            chunk, end = self._chunks[index], self._ends[index]
            start = from_offset - (end - chunk.num_rows)
            taken = chunk.slice(start, min(until_offset, end) - from_offset)
            slices.append(taken)
            from_offset += taken.num_rows
            index += 1
        return slices
