"""A digest of the rows of a micro-batch that does not depend on their order or on how they are cut into batches.

Each row gets a 64-bit hash of all its values, and the digest is two sums of numbers made of these hashes. With it the
broker recognizes a repeated micro-batch (see ``commit_record``). It does not protect against rows that are crafted to
collide.

Everything is computed over whole columns with NumPy: texts are padded to words of eight bytes, and each word is
multiplied by a number that depends on its index. Handling single rows in Python would cost more than the write.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.row_hashes import mix
from pyspark_rmqpull.sink.schema import list_written_columns
from pyspark_rmqpull.sink.topic_parts import split_rows

Hashes = npt.NDArray[np.uint64]
"""A 64-bit number for each row or entry. Sums and products wrap around."""

_PIECE_BYTES, _PIECE_ROWS = 512 << 10, 10_000
"""How much is hashed at a time: it fits into the processor's cache, and takes little memory."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_WORD_BYTES = 8
_PADDING = pa.array([bytes(-size % _WORD_BYTES) for size in range(_WORD_BYTES)], pa.binary())


class RowDigest:
    """The digest of the rows of one attempt of a task."""

    def __init__(self, options: SinkOptions) -> None:
        self._topic = options.topic
        self._names = list_written_columns(options)
        self._topics: set[str] = set()
        self._row_count = 0
        self._sums = 0, 0

    def digest_rows(self, rows: pa.RecordBatch) -> None:
        """Adds rows as Spark gives them to the task."""
        for piece in split_rows(rows, _PIECE_BYTES, _PIECE_ROWS):
            columns = [(name, piece.column(name)) for name in self._names if name in piece.schema.names]
            first, second = sum_hashes(hash_rows(columns))
            self._sums = (self._sums[0] + first) & _MASK, (self._sums[1] + second) & _MASK
            self._row_count += piece.num_rows
            self._topics.update([self._topic] if self._topic is not None else _list_texts(piece.column("topic")))

    @property
    def written_rows(self) -> WrittenRows:
        """All rows that were added."""
        return WrittenRows(frozenset(self._topics), self._row_count, self._sums)


def _list_texts(column: pa.Array) -> list[str]:
    """The different texts of a column, which need not be UTF-8; without null."""
    return [text.decode(errors="replace") for text in pc.unique(column.cast(pa.binary())).to_pylist() if text]


def hash_rows(columns: Sequence[tuple[str, pa.Array]]) -> Hashes:
    """Hashes each row over its named columns. A null counts like a missing column.

    Columns are binary, text, numbers, times, lists of text, or maps of text, whose entries have no order.
    """
    total = np.zeros(len(columns[0][1]), np.uint64)
    for name, column in columns:
        total += _zero_nulls(column, mix(_hash_values(column) ^ _number_column(name)))
    return mix(total)


def sum_hashes(hashes: Hashes) -> tuple[int, int]:
    """Two sums over all rows. The sums of several batches may be added up, modulo 2^64."""
    first = int(np.add.reduce(hashes, dtype=np.uint64))
    return first, int(np.add.reduce(mix(hashes ^ np.uint64(_GOLDEN)), dtype=np.uint64))


def _hash_values(column: pa.Array) -> Hashes:
    """Hashes each value. The hash of a null has no meaning."""
    kind = column.type
    if pa.types.is_map(kind):
        return _hash_maps(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_lists(column)
    if pa.types.is_timestamp(kind) or pa.types.is_integer(kind):
        numbers: Hashes = _to_numpy(pc.fill_null(column.cast(pa.int64()), 0)).view(np.uint64)
        return numbers
    return _hash_texts(column)


def _hash_texts(column: pa.Array) -> Hashes:
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    kind = pa.large_binary() if is_large else pa.binary()
    column = pc.fill_null(column.cast(kind), b"")
    lengths = _to_numpy(pc.binary_length(column)).astype(np.int64, copy=False)
    padding = _PADDING.take(pa.array(lengths & (_WORD_BYTES - 1))).cast(kind)
    padded = pc.binary_join_element_wise(column, padding, pa.scalar(b"", kind))
    counts = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    ends = np.cumsum(counts)
    word_count = int(ends[-1]) if len(ends) else 0
    if not word_count:
        return _combine(np.zeros(len(lengths), np.uint64), lengths)
    words = np.frombuffer(padded.buffers()[2], np.uint64, word_count)
    indexes = np.arange(word_count)
    indexes -= np.repeat(ends - counts, counts)
    # Mixes the upper half of each word into the lower one, because a product carries no bit downwards.
    products = words >> np.uint64(32)
    products ^= words
    products *= _get_weights(int(counts.max()))[indexes]
    return _combine(_sum_slices(products, ends - counts, ends), lengths)


def _combine(sums: Hashes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """Combines the sum of each text, list or map with its length: texts may differ only in zeros at their end."""
    hashes: Hashes = (lengths.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return hashes + sums


def _hash_lists(column: pa.Array) -> Hashes:
    """Hashes lists. The index of an entry matters."""
    starts, ends, first = _find_bounds(column)
    entries = column.values.slice(first, int(ends[-1]) if len(ends) else 0)
    indexes = np.arange(len(entries)) - np.repeat(starts, ends - starts)
    weights = _get_weights(int(indexes.max()) + 1 if len(indexes) else 1)[indexes]
    hashes = mix(_hash_values(entries) ^ weights)
    return _combine(_sum_slices(_zero_nulls(entries, hashes), starts, ends), ends - starts)


def _hash_maps(column: pa.MapArray) -> Hashes:
    """Hashes maps. The index of an entry does not matter, because Spark's maps have no order."""
    starts, ends, first = _find_bounds(column)
    count = int(ends[-1]) if len(ends) else 0
    keys, items = column.keys.slice(first, count), column.items.slice(first, count)
    hashes = mix(_hash_values(keys) + _zero_nulls(items, mix(_hash_values(items))))
    return _combine(_sum_slices(hashes, starts, ends), ends - starts)


def _find_bounds(lists: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """The start and end of each list among the entries of the column, and the index of the first of these entries."""
    offsets = _to_numpy(lists.offsets).astype(np.int64)
    first = int(offsets[0]) if len(offsets) else 0
    return offsets[:-1] - first, offsets[1:] - first, first


def _sum_slices(values: Hashes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Hashes:
    """Sums ``values[start:end]`` for each start and end. A slice may be empty."""
    until = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=until[1:])
    return until[ends] - until[starts]


def _to_numpy(column: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _zero_nulls(column: pa.Array, hashes: Hashes) -> Hashes:
    if not column.null_count:
        return hashes
    return hashes * _to_numpy(column.is_valid()).astype(np.uint64)


def _make_weights(count: int) -> Hashes:
    weights = mix((np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))
    weights |= np.uint64(1)
    return weights


_KEPT_WEIGHTS = _make_weights(8_192)


def _get_weights(count: int) -> Hashes:
    """An odd number for each of the first indexes. Those for bodies above 64 KiB are not kept."""
    return _KEPT_WEIGHTS if count <= len(_KEPT_WEIGHTS) else _make_weights(count)


def _number_column(name: str) -> Any:
    """A number for a column, from its name."""
    return np.uint64(zlib.crc32(name.encode()) * _GOLDEN & _MASK)
