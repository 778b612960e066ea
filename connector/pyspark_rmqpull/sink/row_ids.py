"""The ids of messages that may be sent again (see ``repeats``).

The id of a row is a hash of 128 bits over the write, the micro-batch, the partition of the task, the row, and its count
among equal rows of the task. So it does not depend on the order of the rows. A row whose values differ from attempt to
attempt (``rand()``, ``current_timestamp()``), or that moves to another partition, is a new row.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.sink.occurrences import Occurrences
from pyspark_rmqpull.sink.repeats import ID
from pyspark_rmqpull.sink.row_hashes import Lanes, RowHashes, fold
from pyspark_rmqpull.sink.topic_parts import PartedRows, TopicPart, split_rows
from rmqpull_proto import columns as wire
from rmqpull_proto.even_texts import EvenTexts, find_even, join_even, make_texts

_PIECE_BYTES, _PIECE_ROWS = 2 << 20, 10_000
"""How much is hashed at a time: it takes little memory, and a batch of Spark's default size is one piece."""
_HASH_BYTES, _TEXT_BYTES = 16, 22
"""The size of an id, and of its text: base64 without padding."""
_PROPERTIES = pa.field("properties", wire.PROPERTIES)
_HASHED_OTHERWISE = frozenset(("properties", "keys", "bodyEncoding"))
_IDENTITY = wire.BODY_ENCODINGS["IDENTITY"]


class RowIds:
    """Adds ids to the rows of one attempt of a task, without a Python object for each row."""

    def __init__(self, writer_id: str, batch_id: int | None, partition_id: int) -> None:
        self._hashes = RowHashes(json.dumps([writer_id, batch_id, partition_id]).encode())
        self._seen = Occurrences()

    def add_ids(self, parted: PartedRows) -> PartedRows:
        """Returns the rows with ids among their properties."""
        rows = parted.rows
        if not rows.num_rows:
            return parted
        own = _sort_properties(rows)
        column = _add_entry(own, self._make_ids(parted.parts, rows, own))
        at = rows.schema.get_field_index("properties")
        rows = rows.append_column(_PROPERTIES, column) if at < 0 else rows.set_column(at, _PROPERTIES, column)
        return PartedRows(parted.parts, rows)

    def _make_ids(self, parts: Sequence[TopicPart], rows: pa.RecordBatch, own: pa.MapArray | None) -> pa.Array:
        columns = {name: rows.column(name) for name in rows.schema.names if name not in _HASHED_OTHERWISE}
        if "bodyEncoding" in rows.schema.names:  # only if one of its bodies is compressed
            encodings = rows.column("bodyEncoding")
            columns["bodyEncoding"] = _set_null(encodings, pc.equal(encodings, _IDENTITY))
        if "keys" in rows.schema.names:
            columns["keys"] = _join_texts(rows.column("keys"))
        if own is not None:
            columns["names"] = _join_texts(pa.ListArray.from_arrays(own.offsets, own.keys))
            columns["values"] = _join_texts(pa.ListArray.from_arrays(own.offsets, own.items))
        sums = self._sum_pieces(pa.RecordBatch.from_pydict(columns))
        topics, row_counts = zip(*parts, strict=True)
        sums += np.repeat(self._hashes.sum_columns({"topic": pa.array(topics)}), row_counts, axis=1)
        counts = self._seen.count(fold(sums).view(np.uint64)[:, 0])
        sums += self._hashes.sum_counts(counts.astype(np.uint64))
        return _encode(fold(sums))

    def _sum_pieces(self, rows: pa.RecordBatch) -> Lanes:
        pieces = split_rows(rows, _PIECE_BYTES, _PIECE_ROWS)
        return np.concatenate(
            [self._hashes.sum_columns(dict(zip(piece.schema.names, piece.columns, strict=True))) for piece in pieces],
            axis=1,
        )


def _encode(hashes: npt.NDArray[np.uint32]) -> pa.Array:
    """Returns the texts of hashes. Each is padded to three bytes, so that base64 of all is base64 of each."""
    count = len(hashes)
    padded = np.zeros((count, _HASH_BYTES + 2), np.uint8)
    padded[:, :_HASH_BYTES] = hashes.view(np.uint8)
    encoded = np.frombuffer(binascii.b2a_base64(padded.tobytes(), newline=False), np.uint8).reshape(count, -1)
    texts = pa.py_buffer(np.ascontiguousarray(encoded[:, :_TEXT_BYTES]))
    offsets = pa.py_buffer(np.arange(0, _TEXT_BYTES * count + 1, _TEXT_BYTES, dtype=np.int32))
    return pa.StringArray.from_buffers(count, offsets, texts)


def _sort_properties(rows: pa.RecordBatch) -> pa.MapArray | None:
    """Sorts the properties of each row by name, because Spark's maps have no order; None without properties."""
    if "properties" not in rows.schema.names:
        return None
    given = _copy(rows.column("properties"))
    if not len(given.keys):
        return None
    counts = np.diff(given.offsets.to_numpy())
    names = find_even(given.keys, int(counts[0])) if counts[0] and (counts == counts[0]).all() else None
    if counts.max() <= 1 or (names is not None and names.is_constant and _is_sorted(given.keys.slice(0, counts[0]))):
        return given
    row = pc.list_parent_indices(pa.ListArray.from_arrays(given.offsets, given.keys))
    order = pc.sort_indices(pa.table({"row": row, "name": given.keys}), [("row", "ascending"), ("name", "ascending")])
    return pa.MapArray.from_arrays(given.offsets, given.keys.take(order), given.items.take(order), wire.PROPERTIES)


def _is_sorted(names: pa.Array) -> bool:
    listed: list[str] = names.to_pylist()
    return listed == sorted(listed)


def _add_entry(own: pa.MapArray | None, ids: pa.Array) -> pa.MapArray:
    """Appends the id to each map."""
    names = pa.repeat(ID, len(ids))
    numbers = _list_numbers(len(ids) + 1)
    if own is None:
        return pa.MapArray.from_arrays(numbers, names, ids, wire.PROPERTIES)
    offsets = pc.add(own.offsets, numbers)
    keys, items = _append_texts(own.offsets, own.keys, names), _append_texts(own.offsets, own.items, ids)
    return pa.MapArray.from_arrays(offsets, keys, items, wire.PROPERTIES)


def _append_texts(offsets: pa.Array, texts: pa.Array, last: pa.Array) -> pa.Array:
    """Appends a text to each list."""
    count, bounds = len(last), offsets.to_numpy()
    per_row = len(texts) // count
    if bounds[0] == 0 and np.array_equal(bounds, np.arange(count + 1) * per_row):
        even, even_last = find_even(texts, per_row), find_even(last)
        if even is not None and even_last is not None:
            joined = join_even([even.data, even_last.data], count)
            return make_texts(EvenTexts(joined, (*even.widths, *even_last.widths)), pa.string())
    order = np.empty(len(texts) + count, np.int64)
    is_last = np.zeros(len(order), np.bool_)
    is_last[bounds[1:] + np.arange(count)] = True
    order[is_last] = np.arange(len(texts), len(order))
    order[~is_last] = np.arange(len(texts))
    return pa.concat_arrays([texts, last]).take(pa.array(order))


@lru_cache(maxsize=2)
def _list_numbers(count: int) -> pa.Array:
    """Returns the numbers from 0 to below ``count``."""
    return pa.array(np.arange(count, dtype=np.int32))


def _join_texts(lists: pa.Array) -> pa.Array:
    """Returns one text for each list, with the lengths of its texts before them. That of no text is null."""
    whole = _copy(lists)
    bounds = whole.offsets.to_numpy()
    per_row = len(whole.values) // max(len(whole), 1)
    if per_row and np.array_equal(bounds, np.arange(len(whole) + 1) * per_row):
        even = find_even(whole.values, per_row)
        if even is not None:
            lengths_text = " ".join(map(str, even.widths)).encode() + b":"
            joined_even = join_even([lengths_text, even.data], len(whole))
            return make_texts(EvenTexts(joined_even, (joined_even.shape[1],)), pa.string())
    texts = pc.fill_null(whole.values, "")
    lengths, whole = (
        pa.ListArray.from_arrays(whole.offsets, each) for each in (pc.binary_length(texts).cast(pa.string()), texts)
    )
    joined = pc.binary_join_element_wise(pc.binary_join(lengths, " "), pc.binary_join(whole, ""), ":")
    return _set_null(joined, pc.equal(pc.list_value_length(whole), 0))


def _set_null(values: pa.Array, where: pa.Array) -> pa.Array:
    # Up to Arrow 21 at least, if_else with a null returns wrong texts for a slice.
    return pc.replace_with_mask(values, where, pa.scalar(None, values.type))


def _copy(lists: pa.Array) -> pa.Array:
    """Copies lists or maps, without values that belong to no entry of a slice or to a null."""
    if lists.null_count:
        return lists.take(_list_numbers(len(lists)))
    return pa.concat_arrays([lists])  # much faster, but keeps the values of nulls
