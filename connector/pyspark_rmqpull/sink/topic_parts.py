"""Rows of many topics in one batch: sorted by topic, put together, and cut into calls.

A call for each topic of each Arrow batch would be many small ones: 1,000 topics leave 10 rows for each. So rows of all
topics travel together, and are gathered before that, which gives the server fewer and longer parts to store.
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
    """The next ``row_count`` rows of a batch, 1 or more, are of this topic."""

    topic: str
    row_count: int


class PartedRows(NamedTuple):
    """Rows of several topics: those of each topic stand together, in the order in which they came."""

    parts: tuple[TopicPart, ...]
    rows: pa.RecordBatch

    @classmethod
    def of_topic(cls, topic: str, rows: pa.RecordBatch) -> PartedRows:
        """Rows that are all of one topic."""
        return cls((TopicPart(topic, rows.num_rows),) if rows.num_rows else (), rows)

    def by_topic(self) -> Iterator[TopicRows]:
        """The rows of each topic."""
        place = 0
        for topic, count in self.parts:
            yield TopicRows(topic, self.rows.slice(place, count))
            place += count

    def slice(self, start: int, row_count: int) -> PartedRows:
        """``row_count`` rows from ``start`` on, or as many as there are."""
        rows, place, parts = self.rows.slice(start, row_count), 0, []
        for topic, count in self.parts:
            common = min(place + count, start + rows.num_rows) - max(place, start)
            if common > 0:
                parts.append(TopicPart(topic, common))
            place += count
        return PartedRows(tuple(parts), rows)

    def spread(self, values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
        """A column of one value for each part, in all of its rows."""
        if not self.parts:
            return pa.array([], data_type)
        ends = pc.cumulative_sum(pa.array([count for _, count in self.parts], pa.int32()))
        return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, pa.array(values, data_type)))


def sorted_by_topic(topics: pa.Array, rows: pa.RecordBatch) -> PartedRows:
    """Rows by their topics, which must not be null; topics in the order in which they come first."""
    encoded = topics.dictionary_encode()
    names = encoded.dictionary.to_pylist()
    if len(names) < 2:
        return PartedRows.of_topic(names[0] if names else "", rows)
    return _sorted(names, encoded.indices, rows)


def merged(gathered: Sequence[PartedRows]) -> PartedRows:
    """All rows as one batch; columns that only some of them have are null in the others."""
    if len(gathered) == 1:
        return gathered[0]
    numbers: dict[str, int] = {}
    codes = [
        each.spread([numbers.setdefault(topic, len(numbers)) for topic, _ in each.parts], pa.int32())
        for each in gathered
    ]
    tables = [pa.Table.from_batches([each.rows]) for each in gathered]
    rows = _one_batch(pa.concat_tables(tables, promote_options="default"))
    if len(numbers) == 1:
        return PartedRows.of_topic(next(iter(numbers)), rows)
    return _sorted(list(numbers), pa.concat_arrays(codes), rows)


def _sorted(names: Sequence[str], codes: pa.Array, rows: pa.RecordBatch) -> PartedRows:
    tallies = pc.value_counts(codes)
    counts = dict(zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True))
    parts = tuple(TopicPart(names[code], counts[code]) for code in sorted(counts))
    return PartedRows(parts, rows.take(pc.sort_indices(codes)))  # which keeps what is equal as it was


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    columns = [column.combine_chunks() for column in table.columns]
    rows = pa.RecordBatch.from_arrays(columns, names=table.schema.names)
    if "bodyEncoding" not in rows.schema.names:
        return rows
    place = rows.schema.get_field_index("bodyEncoding")
    encodings = pc.fill_null(rows.column(place), wire.BODY_ENCODINGS["IDENTITY"])
    return rows.set_column(place, "bodyEncoding", encodings)


class CallLimits(NamedTuple):
    """What one call may have; a single row may have more bytes."""

    row_count: int
    byte_count: int
    topic_count: int = 1


def cut(rows: PartedRows, limits: CallLimits) -> Iterator[PartedRows]:
    """The rows in their order, in calls within ``limits``."""
    place = 0
    for at in range(0, len(rows.parts), limits.topic_count):
        count = sum(part.row_count for part in rows.parts[at : at + limits.topic_count])
        for piece in pieces(rows.rows.slice(place, count), limits.byte_count, limits.row_count):
            yield rows.slice(place, piece.num_rows)
            place += piece.num_rows


def pieces(rows: pa.RecordBatch, byte_count: int, row_count: int) -> Iterator[pa.RecordBatch]:
    """The rows in pieces of at most ``byte_count`` bytes, unless it is a single row, and ``row_count`` rows; as few and
    as even as they can be.
    """
    piece_count = min(max(-(-rows.num_rows // row_count), -(-rows.nbytes // byte_count)), rows.num_rows)
    if piece_count > 1:
        step = -(-rows.num_rows // piece_count)
        for start in range(0, rows.num_rows, step):
            yield from pieces(rows.slice(start, step), byte_count, row_count)
    elif rows.num_rows:
        yield rows


class Gathered:
    """Batches that wait to go together.

    Those of one topic wait until they fill a call. Those of several topics wait until they have ``byte_count`` bytes:
    the larger that is, the more rows of a topic stand together.
    """

    def __init__(self, limits: CallLimits, byte_count: int) -> None:
        self._limits = limits
        self._byte_count_max = byte_count
        self._empty()

    def _empty(self) -> None:
        self._waiting: list[PartedRows] = []
        self._topics: set[str] = set()
        self._row_count = 0
        self._byte_count = 0

    def takes(self, rows: PartedRows) -> bool:
        """Whether a batch may wait with the others: False when all are of one topic and would not fit into a call."""
        if not self._waiting or len(self._topics.union(part.topic for part in rows.parts)) > 1:
            return True
        row_count: int = self._row_count + rows.rows.num_rows
        byte_count: int = self._byte_count + rows.rows.nbytes
        return row_count <= self._limits.row_count and byte_count <= self._limits.byte_count

    def add(self, rows: PartedRows) -> None:
        """Lets a batch wait."""
        if not rows.parts:
            return
        self._waiting.append(rows)
        self._topics.update(part.topic for part in rows.parts)
        self._row_count += rows.rows.num_rows
        self._byte_count += rows.rows.nbytes

    @property
    def is_full(self) -> bool:
        """Whether enough waits."""
        if len(self._topics) > 1:
            return self._byte_count >= self._byte_count_max
        return self._row_count >= self._limits.row_count or self._byte_count >= self._limits.byte_count

    def take(self) -> PartedRows:
        """Everything that waits, sorted by topic; then nothing does."""
        waiting = self._waiting
        self._empty()
        return merged(waiting) if waiting else PartedRows((), pa.record_batch({"body": pa.array([], pa.binary())}))
