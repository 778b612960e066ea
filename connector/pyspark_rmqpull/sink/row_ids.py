"""The ids of messages that may be sent again (see ``repeats``).

The id of a row is the partition of its task, a digest of the row, and its count among equal rows of the task. So it
does not depend on the order of the rows. A row whose values differ from attempt to attempt (``rand()``,
``current_timestamp()``), or that moves to another partition, is a new row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.sink.repeats import BATCH_ID, ROW_ID, WRITER_ID
from pyspark_rmqpull.sink.topic_parts import PartedRows, TopicPart
from rmqpull_proto import columns as wire

_DIGEST_BYTES = 12


class RowIds:
    """Adds ids to the rows of one attempt of a task. It remembers a digest of each different row.

    Everything but the digest is computed over whole columns, so Python handles each row only once.
    """

    def __init__(self, writer_id: str, batch_id: int | None, partition_id: int) -> None:
        self._fixed = {WRITER_ID: writer_id, **({} if batch_id is None else {BATCH_ID: str(batch_id)})}
        self._partition_id = partition_id
        self._seen: dict[bytes, int] = {}

    def add_ids(self, parted: PartedRows) -> PartedRows:
        """Returns the rows with ids among their properties."""
        return PartedRows(parted.parts, self._add_ids(parted.parts, parted.rows))

    def _add_ids(self, parts: Sequence[TopicPart], rows: pa.RecordBatch) -> pa.RecordBatch:
        own = _sort_properties(rows)
        keys = pa.ListArray.from_arrays(own.offsets, own.keys)
        items = pa.ListArray.from_arrays(own.offsets, own.items)
        others = [rows.column(name) for name in rows.schema.names if name not in ("properties", "bodyEncoding")]
        ids = self._make_ids(parts, [*others, _get_encodings(rows), keys, items])
        fixed = {name: pa.repeat(text, rows.num_rows) for name, text in self._fixed.items()}
        column = _add_entries(own, keys, {**fixed, ROW_ID: ids})
        if "properties" in rows.schema.names:
            return rows.set_column(rows.schema.get_field_index("properties"), "properties", column)
        return rows.append_column("properties", column)

    def _make_ids(self, parts: Sequence[TopicPart], columns: Sequence[pa.Array]) -> pa.Array:
        digests = _make_digests(parts, _serialize_rows(columns))
        hexadecimal = pa.py_buffer(b"".join(digests).hex().encode())
        texts = pa.FixedSizeBinaryArray.from_buffers(pa.binary(2 * _DIGEST_BYTES), len(digests), [None, hexadecimal])
        return pc.binary_join_element_wise(
            f"{self._partition_id}-", texts.cast(pa.binary()).cast(pa.string()), self._count(digests), ""
        )

    def _count(self, digests: Sequence[bytes]) -> pa.Array | str:
        """Returns the end of each id: how often its row has occurred. Usually no row occurs twice."""
        seen, new = self._seen, dict.fromkeys(digests, 1)
        if len(new) == len(digests) and seen.keys().isdisjoint(new):
            seen.update(new)
            return "-1"
        ends = []
        for digest in digests:
            seen[digest] = count = seen.get(digest, 0) + 1
            ends.append(f"-{count}")
        return pa.array(ends, pa.string())


def _make_digests(parts: Sequence[TopicPart], rows: pa.Array) -> list[bytes]:
    serialized = iter(rows.to_pylist())
    digests = []
    for topic, row_count in parts:
        copy = hashlib.blake2b(topic.encode(), digest_size=_DIGEST_BYTES).copy
        for row in islice(serialized, row_count):
            digest = copy()
            digest.update(row)
            digests.append(digest.digest())
    return digests


def _get_encodings(rows: pa.RecordBatch) -> pa.Array:
    """The encoding of each body. A batch has the column only if one of its bodies is compressed."""
    if "bodyEncoding" in rows.schema.names:
        return rows.column("bodyEncoding")
    return pa.repeat(wire.BODY_ENCODINGS["IDENTITY"], rows.num_rows)


def _sort_properties(rows: pa.RecordBatch) -> pa.MapArray:
    """Sorts the properties of each row by name, because Spark's maps have no order; null becomes an empty map."""
    if "properties" not in rows.schema.names:
        return _make_empty_maps(rows.num_rows)
    given = _copy(rows.column("properties"))
    row = pc.list_parent_indices(pa.ListArray.from_arrays(given.offsets, given.keys))
    order = pc.sort_indices(pa.table({"row": row, "name": given.keys}), [("row", "ascending"), ("name", "ascending")])
    return pa.MapArray.from_arrays(given.offsets, given.keys.take(order), given.items.take(order), wire.PROPERTIES)


@lru_cache(maxsize=2)
def _make_empty_maps(count: int) -> pa.MapArray:
    return pa.array([()] * count, wire.PROPERTIES)


def _add_entries(own: pa.MapArray, own_keys: pa.ListArray, added: dict[str, pa.Array]) -> pa.MapArray:
    """Appends an entry to each map for each of ``added``. ``own_keys`` are the keys of ``own``, as lists."""
    count = len(own)
    keys = pa.concat_arrays([own.keys, *(pa.repeat(name, count) for name in added)])
    items = pa.concat_arrays([own.items, *added.values()])
    offsets = pc.add(own.offsets, _make_offsets(count, len(added)))
    if len(own.keys):
        row_of_own = pc.list_parent_indices(own_keys)
        each = pc.list_parent_indices(pa.ListArray.from_arrays(_make_offsets(count, 1), added[ROW_ID]))
        in_order = pc.sort_indices(pa.concat_arrays([row_of_own, *[each] * len(added)]))  # a stable sort
    else:
        in_order = _interleave(count, len(added))
    return pa.MapArray.from_arrays(offsets, keys.take(in_order), items.take(in_order), wire.PROPERTIES)


@lru_cache(maxsize=2)
def _make_offsets(count: int, length: int) -> pa.Array:
    """The offsets of lists of one length."""
    return pa.array(range(0, length * count + 1, length), pa.int32())


@lru_cache(maxsize=2)
def _interleave(count: int, column_count: int) -> pa.Array:
    """The indexes that bring concatenated columns into the order of their rows."""
    return pa.array([index for row in range(count) for index in range(row, count * column_count, count)], pa.int32())


def _serialize_rows(columns: Sequence[pa.Array]) -> pa.Array:
    """Serializes each row: the lengths of its texts and all its numbers, then the texts. Different rows differ."""
    numbers, texts = [], []
    for column in columns:
        if pa.types.is_list(column.type):
            if not column.null_count and not len(column.flatten()):
                numbers.append(pa.repeat("", len(column)))
                continue
            whole = _copy(column)
            lengths = pa.ListArray.from_arrays(whole.offsets, _as_text(pc.binary_length(whole.values)))
            numbers.append(pc.binary_join(lengths, " "))
            texts.append(pc.fill_null(pc.binary_join(whole, ""), ""))
        elif pa.types.is_binary(column.type) or pa.types.is_string(column.type):
            numbers.append(_as_text(pc.binary_length(column)))
            texts.append(column)
        else:
            numbers.append(_as_text(column))
    joined = pc.binary_join_element_wise(*numbers, ",", null_handling="replace", null_replacement="null")
    contents = [text.cast(pa.binary()) for text in (joined, *texts)]
    return pc.binary_join_element_wise(*contents, b":", null_handling="replace", null_replacement=b"")


def _as_text(numbers: pa.Array) -> pa.Array:
    return numbers.cast(pa.int64()).cast(pa.string())


def _copy(lists: pa.Array) -> pa.Array:
    """Copies lists or maps, without values that belong to no entry of a slice or to a null."""
    if lists.null_count:
        return lists.take(pa.array(range(len(lists)), pa.int32()))
    return pa.concat_arrays([lists])  # much faster, but keeps the values of nulls
