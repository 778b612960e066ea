"""A digest of the rows of a micro-batch that does not depend on their order or on how they are cut into batches.

Each row gets a 64-bit hash of all its values, and the digest is two sums of numbers made of these hashes. With it the
broker recognizes a repeated micro-batch (see ``commit_record``). It does not protect against rows that are crafted to
collide.

Everything is computed over whole columns with NumPy: texts are padded to words of eight bytes, and each word is
multiplied by a number that depends on its index. The upper half of a word is mixed into the lower one before, because
a product carries no bit downwards. Handling single rows in Python would cost more than the write.
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

_PIECE_BYTES, _PIECE_ROWS = 2 << 20, 10_000
"""How much is hashed at a time: it fits into the processor's cache, and takes little memory."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_WORD_BYTES = 8
_SHORT_TEXT_WORDS = 6
"""Up to this length, looking at each word of all texts, also of shorter ones, is faster than copying the texts."""
_KEPT_BYTES = np.array([(1 << 8 * count) - 1 for count in range(_WORD_BYTES + 1)], np.uint64)
"""Masks of the first bytes of a word."""
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
        if column.null_count == len(column):
            continue
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
    column = column.cast(pa.large_binary() if is_large else pa.binary())
    starts, lengths = _find_places(column, np.dtype(np.int64 if is_large else np.int32))
    longest = int(lengths.max(initial=0))
    word_count = -(-longest // _WORD_BYTES)
    if not word_count:
        sums = np.zeros(len(lengths), np.uint64)
    elif int(lengths.min()) == longest and not column.null_count:
        sums = _sum_equal_texts(column.buffers()[2], int(starts[0]), len(starts), longest)
    elif word_count <= _SHORT_TEXT_WORDS:
        sums = _sum_short_texts(column.buffers()[2], starts, lengths, word_count)
    else:
        sums = _sum_long_texts(column, lengths)
    return _combine(sums, lengths)


def _find_places(column: pa.Array, offset_type: np.dtype[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Returns where each text begins in the buffer of texts, and its length; 0 for a null."""
    if not len(column):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    position = column.offset * offset_type.itemsize
    offsets = np.frombuffer(column.buffers()[1], offset_type, len(column) + 1, position).astype(np.int64)
    lengths = np.diff(offsets)
    if column.null_count:
        lengths *= _to_numpy(column.is_valid())
    return offsets[:-1], lengths


def _sum_equal_texts(data: pa.Buffer, start: int, count: int, length: int) -> Hashes:
    """Sums the products of texts of one length."""
    word_count = -(-length // _WORD_BYTES)
    padded = np.zeros((count, word_count * _WORD_BYTES), np.uint8)
    padded[:, :length] = np.frombuffer(data, np.uint8, count * length, start).reshape(count, length)
    words = padded.view(np.uint64)
    words ^= words >> np.uint64(32)
    sums: Hashes = words @ _get_weights(word_count)[:word_count]
    return sums


def _sum_short_texts(
    data: pa.Buffer, starts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64], word_count: int
) -> Hashes:
    """Sums the products of texts of at most ``word_count`` words, word by word over all texts."""
    first, end = int(starts.min()), int((starts + lengths).max())
    # A word of a text lies in two words of the buffer, of which the second may lie behind its end.
    spare = np.zeros((end - first) // _WORD_BYTES + word_count + 2, np.uint64)
    spare.view(np.uint8)[: end - first] = np.frombuffer(data, np.uint8, end - first, first)
    offsets = starts - first
    places, down = offsets >> 3, ((offsets & (_WORD_BYTES - 1)) << 3).astype(np.uint64)
    up = np.uint64(63) - down
    sums = np.zeros(len(starts), np.uint64)
    following = spare.take(places)
    for index, weight in enumerate(_get_weights(word_count)[:word_count]):
        words = following >> down
        following = spare.take(places + (index + 1))
        words |= following << up << np.uint64(1)
        words &= _KEPT_BYTES[np.clip(lengths - index * _WORD_BYTES, 0, _WORD_BYTES)]
        words ^= words >> np.uint64(32)
        words *= weight
        sums += words
    return sums


def _sum_long_texts(column: pa.Array, lengths: npt.NDArray[np.int64]) -> Hashes:
    """Sums the products of texts of any lengths, which are copied behind each other with their padding."""
    padding = _PADDING.take(pa.array(lengths & (_WORD_BYTES - 1))).cast(column.type)
    nothing = pa.scalar(b"", column.type)
    padded = pc.binary_join_element_wise(pc.fill_null(column, nothing), padding, nothing)
    counts = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    ends = np.cumsum(counts)
    words = np.frombuffer(padded.buffers()[2], np.uint64, int(ends[-1]))
    indexes = np.arange(len(words))
    indexes -= np.repeat(ends - counts, counts)
    products = words >> np.uint64(32)
    products ^= words
    products *= _get_weights(int(counts.max()))[indexes]
    return _sum_slices(products, ends - counts, ends)


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
