"""The ids that messages get which may be sent again (see ``repeats``).

The id of a row does not depend on the order of the rows: it is the task's partition, a digest of the row, and how many
equal rows the task had before. Rows whose values differ from attempt to attempt (``rand()``, ``current_timestamp()``),
or that come to another partition, are new rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.sink.repeats import BATCH_ID, ROW_ID, WRITER_ID
from pyspark_rmqpull.sink.topic_parts import PartedRows, TopicPart
from rmqpull_proto import columns as wire

_DIGEST_BYTES = 12


class RowIds:
    """Gives the rows of one attempt of a task their ids; it remembers a digest of each different row.

    Rows are spelled and their properties put together in columns: Python sees each row once, for its digest.
    """

    def __init__(self, writer_id: str, batch_id: int | None, partition_id: int) -> None:
        self._fixed = {WRITER_ID: writer_id, **({} if batch_id is None else {BATCH_ID: str(batch_id)})}
        self._partition_id = partition_id
        self._seen: dict[bytes, int] = {}

    def added(self, parted: PartedRows) -> PartedRows:
        """The rows with the ids among their properties."""
        return PartedRows(parted.parts, self._with_ids(parted.parts, parted.rows))

    def _with_ids(self, parts: Sequence[TopicPart], rows: pa.RecordBatch) -> pa.RecordBatch:
        own = _properties(rows)
        keys = pa.ListArray.from_arrays(own.offsets, own.keys)
        items = pa.ListArray.from_arrays(own.offsets, own.items)
        others = [rows.column(name) for name in rows.schema.names if name not in ("properties", "bodyEncoding")]
        ids = pa.array(self._row_ids(parts, [*others, _encodings(rows), keys, items]), pa.string())
        fixed = {name: pa.repeat(text, rows.num_rows) for name, text in self._fixed.items()}
        column = _with_entries(own, pc.list_parent_indices(keys), {**fixed, ROW_ID: ids})
        if "properties" in rows.schema.names:
            return rows.set_column(rows.schema.get_field_index("properties"), "properties", column)
        return rows.append_column("properties", column)

    def _row_ids(self, parts: Sequence[TopicPart], columns: Sequence[pa.Array]) -> list[str]:
        seen, ids, prefix = self._seen, list[str](), f"{self._partition_id}-"
        spelled = iter(_spelled(columns).to_pylist())
        for topic, row_count in parts:
            start = hashlib.blake2b(topic.encode(), digest_size=_DIGEST_BYTES)
            for row in islice(spelled, row_count):
                digest = start.copy()
                digest.update(row)
                key = digest.digest()
                seen[key] = count = seen.get(key, 0) + 1
                ids.append(f"{prefix}{key.hex()}-{count}")
        return ids


def _encodings(rows: pa.RecordBatch) -> pa.Array:
    """How each body is packed; the column is there when one of the batch is, whatever the others are."""
    if "bodyEncoding" in rows.schema.names:
        return rows.column("bodyEncoding")
    return pa.repeat(wire.BODY_ENCODINGS["IDENTITY"], rows.num_rows)


def _properties(rows: pa.RecordBatch) -> pa.MapArray:
    """The properties of each row by their names, for Spark keeps no order in a map; none where they are null."""
    if "properties" not in rows.schema.names:
        return pa.array([()] * rows.num_rows, wire.PROPERTIES)
    given = _copied(rows.column("properties"))
    row = pc.list_parent_indices(pa.ListArray.from_arrays(given.offsets, given.keys))
    order = pc.sort_indices(pa.table({"row": row, "name": given.keys}), [("row", "ascending"), ("name", "ascending")])
    return pa.MapArray.from_arrays(given.offsets, given.keys.take(order), given.items.take(order), wire.PROPERTIES)


def _with_entries(own: pa.MapArray, row_of_own: pa.Array, added: dict[str, pa.Array]) -> pa.MapArray:
    """Maps with one more entry for each of ``added``, behind their own."""
    count = len(own)
    each = pa.array(range(count), row_of_own.type)
    in_order = pc.sort_indices(pa.concat_arrays([row_of_own, *[each] * len(added)]))  # keeps what is equal as it was
    keys = pa.concat_arrays([own.keys, *(pa.repeat(name, count) for name in added)])
    items = pa.concat_arrays([own.items, *added.values()])
    offsets = pc.add(own.offsets, pa.array(range(0, len(added) * count + 1, len(added)), pa.int32()))
    return pa.MapArray.from_arrays(offsets, keys.take(in_order), items.take(in_order), wire.PROPERTIES)


def _spelled(columns: Sequence[pa.Array]) -> pa.Array:
    """Each row as bytes that no other row has: the length of each of its texts, all its numbers, and then the texts."""
    numbers, texts = [], []
    for column in columns:
        if pa.types.is_list(column.type):
            whole = _copied(column)
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


def _copied(lists: pa.Array) -> pa.Array:
    """Lists or maps without what a slice, or a null, may cover of their values."""
    return lists.take(pa.array(range(len(lists)), pa.int32()))
