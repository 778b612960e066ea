"""Rows of many topics in one batch: sorted by topic, merged, and cut into calls.

One call for each topic of each Arrow batch would mean many small calls: with 1,000 topics, 10 rows each. So one call
has rows of many topics, and batches wait in a buffer before that, which gives the server fewer and longer parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto import columns as wire


class TopicRows(NamedTuple):
    """Rows of one topic, in the order in which they came; ``rows`` has columns of the publish schema."""

    topic: str
    rows: pa.RecordBatch


class TopicPart(NamedTuple):
    """The next ``row_count`` rows of a batch belong to this topic; at least one."""

    topic: str
    row_count: int


class PartedRows(NamedTuple):
    """Rows of several topics: those of one topic are next to each other, in the order in which they came."""

    parts: tuple[TopicPart, ...]
    rows: pa.RecordBatch

    @classmethod
    def of_topic(cls, topic: str, rows: pa.RecordBatch) -> PartedRows:
        """Rows of a single topic."""
        return cls((TopicPart(topic, rows.num_rows),) if rows.num_rows else (), rows)

    def by_topic(self) -> Iterator[TopicRows]:
        """The rows of each topic."""
        start = 0
        for topic, count in self.parts:
            yield TopicRows(topic, self.rows.slice(start, count))
            start += count

    def slice(self, start: int, row_count: int) -> PartedRows:
        """``row_count`` rows, or as many as there are, of which ``start`` is the first."""
        rows, part_start, parts = self.rows.slice(start, row_count), 0, []
        for topic, count in self.parts:
            common = min(part_start + count, start + rows.num_rows) - max(part_start, start)
            if common > 0:
                parts.append(TopicPart(topic, common))
            part_start += count
        return PartedRows(tuple(parts), rows)

    def spread(self, values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
        """A column that repeats one value for each part in all of its rows."""
        if not self.parts:
            return pa.array([], data_type)
        ends = pc.cumulative_sum(pa.array([count for _, count in self.parts], pa.int32()))
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, data_type)))


def sort_by_topic(topics: pa.Array, rows: pa.RecordBatch) -> PartedRows:
    """Sorts rows by their topics, which must not be null. Topics keep the order in which each comes first."""
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) < 2:
        return PartedRows.of_topic(names[0] if names else "", rows)
    return _sort(names, encoded.indices, rows)


def merge_by_topic(batches: Sequence[PartedRows]) -> PartedRows:
    """Merges batches into one. A column that only some of them have is null in the rows of the others."""
    if len(batches) == 1:
        return batches[0]
    numbers: dict[str, int] = {}
    codes = [
        each.spread([numbers.setdefault(topic, len(numbers)) for topic, _ in each.parts], pa.int32())
        for each in batches
    ]
    tables = [pa.Table.from_batches([each.rows]) for each in batches]
    rows = _combine(pa.concat_tables(tables, promote_options="default"))
    if len(numbers) == 1:
        return PartedRows.of_topic(next(iter(numbers)), rows)
    return _sort(list(numbers), pa.concat_arrays(codes), rows)


def _sort(names: Sequence[str], codes: pa.Array, rows: pa.RecordBatch) -> PartedRows:
    tallies = pc.value_counts(codes)
    counts = dict(zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True))
    parts = tuple(TopicPart(names[code], counts[code]) for code in sorted(counts))
    return PartedRows(parts, rows.take(pc.sort_indices(codes)))  # a stable sort


def _combine(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    rows = pa.RecordBatch.from_arrays(columns, names=table.schema.names)
    if "bodyEncoding" not in rows.schema.names:
        return rows
    index = rows.schema.get_field_index("bodyEncoding")
    encodings = pc.fill_null(rows.column(index), wire.BODY_ENCODINGS["IDENTITY"])
    return rows.set_column(index, "bodyEncoding", encodings)


class CallLimits(NamedTuple):
    """The limits of one call; a single row may have more bytes."""

    row_count: int
    byte_count: int
    topic_count: int = 1


def cut_calls(rows: PartedRows, limits: CallLimits) -> Iterator[PartedRows]:
    """Cuts rows, in their order, into calls within the limits."""
    start = 0
    for first in range(0, len(rows.parts), limits.topic_count):
        count = sum(part.row_count for part in rows.parts[first : first + limits.topic_count])
        for piece in split_rows(rows.rows.slice(start, count), limits.byte_count, limits.row_count):
            yield rows.slice(start, piece.num_rows)
            start += piece.num_rows


def split_rows(rows: pa.RecordBatch, byte_count: int, row_count: int) -> Iterator[pa.RecordBatch]:
    """Splits rows into pieces of at most ``byte_count`` bytes and ``row_count`` rows, as few and as even as possible.

    A single row may have more bytes.
    """
    piece_count = min(max(-(-rows.num_rows // row_count), -(-rows.nbytes // byte_count)), rows.num_rows)
    if piece_count > 1:
        step = -(-rows.num_rows // piece_count)
        for start in range(0, rows.num_rows, step):
            yield from split_rows(rows.slice(start, step), byte_count, row_count)
    elif rows.num_rows:
        yield rows


class RowBuffer:
    """Batches that wait to be sent together.

    Batches of one topic wait until they fill a call. Batches of several topics wait until they have ``byte_count``
    bytes: the larger that is, the longer are the parts of each topic.
    """

    def __init__(self, limits: CallLimits, byte_count: int) -> None:
        self._limits = limits
        self._byte_count_max = byte_count
        self._clear()

    def _clear(self) -> None:
        self._waiting: list[PartedRows] = []
        self._topics: set[str] = set()
        self._row_count = 0
        self._byte_count = 0

    def has_room(self, rows: PartedRows) -> bool:
        """Whether a batch may join the others: False if all belong to one topic and do not fit into one call."""
        if not self._waiting or len(self._topics.union(part.topic for part in rows.parts)) > 1:
            return True
        row_count: int = self._row_count + rows.rows.num_rows
        byte_count: int = self._byte_count + rows.rows.nbytes
        return row_count <= self._limits.row_count and byte_count <= self._limits.byte_count

    def buffer_rows(self, rows: PartedRows) -> None:
        """Adds a batch."""
        if not rows.parts:
            return
        self._waiting.append(rows)
        self._topics.update(part.topic for part in rows.parts)
        self._row_count += rows.rows.num_rows
        self._byte_count += rows.rows.nbytes

    @property
    def is_full(self) -> bool:
        """Whether there is enough to send."""
        if len(self._topics) > 1:
            return self._byte_count >= self._byte_count_max
        return self._row_count >= self._limits.row_count or self._byte_count >= self._limits.byte_count

    def take_rows(self) -> PartedRows:
        """Empties the buffer, and returns all rows sorted by topic."""
        waiting = self._waiting
        self._clear()
        if not waiting:
            return PartedRows((), pa.record_batch({"body": pa.array([], pa.binary())}))
        return merge_by_topic(waiting)


def read_rows(rows: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows as dictionaries; times in microseconds since the epoch, which may be beyond the range of Python's own."""
    arrays = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in rows.columns]
    values = zip(*(array.to_pylist() for array in arrays), strict=True)
    return (dict(zip(rows.schema.names, row, strict=True)) for row in values)
