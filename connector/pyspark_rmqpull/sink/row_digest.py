"""A digest of the rows of a micro-batch that depends neither on their order nor on how they are cut into batches.

Each row gets a 64-bit hash of all its values, and the digest is two sums of numbers made of these hashes. It tells a
micro-batch that comes again from another one (see ``commit_record``), and is no protection from rows that somebody
makes to collide.

Everything is computed over whole columns with NumPy: texts are padded to words of eight bytes, and each word is
multiplied by a number of its place. Python sees no row, since that would cost more than the write itself.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyspark_rmqpull.options.sending import EXPLICIT
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.topic_parts import pieces

Hashes = npt.NDArray[np.uint64]
"""One 64-bit number for each row or entry; they wrap around."""

_PIECE_BYTES, _PIECE_ROWS = 512 << 10, 10_000
"""How much is looked at together: it stays in the processor's cache, and takes little memory."""
_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_WORD_BYTES = 8
_PADDING = pa.array([bytes(-size % _WORD_BYTES) for size in range(_WORD_BYTES)], pa.binary())


class RowDigest:
    """Takes in the rows of one attempt of a task."""

    def __init__(self, options: SinkOptions) -> None:
        self._topic = options.topic
        self._names = ["body", "tags", "keys", "properties", "messageGroup", "deliveryTimestamp"]
        self._names += [] if options.topic is not None else ["topic"]
        self._names += ["brokerName", "queueId"] if options.queue_selector == EXPLICIT else []
        self._topics: set[str] = set()
        self._row_count = 0
        self._sums = 0, 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Counts rows as Spark gives them."""
        for piece in pieces(rows, _PIECE_BYTES, _PIECE_ROWS):
            columns = [(name, piece.column(name)) for name in self._names if name in piece.schema.names]
            first, second = sums(row_hashes(columns))
            self._sums = (self._sums[0] + first) & _MASK, (self._sums[1] + second) & _MASK
            self._row_count += piece.num_rows
            self._topics.update([self._topic] if self._topic is not None else _texts_of(piece.column("topic")))

    @property
    def rows(self) -> WrittenRows:
        """What was taken in."""
        return WrittenRows(frozenset(self._topics), self._row_count, self._sums)


def _texts_of(column: pa.Array) -> list[str]:
    """The different texts of a column, whether or not they are UTF-8; without null."""
    return [text.decode(errors="replace") for text in pc.unique(column.cast(pa.binary())).to_pylist() if text]


def row_hashes(columns: Sequence[tuple[str, pa.Array]]) -> Hashes:
    """A hash of each row over its named columns; a null counts as a column that is not there.

    Columns are binary, text, numbers, times, lists of text, or maps of text, whose entries have no order.
    """
    total = np.zeros(len(columns[0][1]), np.uint64)
    for name, column in columns:
        total += _where_valid(column, _mixed(_hashes(column) ^ _number_of(name)))
    return _mixed(total)


def sums(hashes: Hashes) -> tuple[int, int]:
    """Two sums over all rows, which may be added up further modulo 2^64."""
    first = int(np.add.reduce(hashes, dtype=np.uint64))
    return first, int(np.add.reduce(_mixed(hashes ^ np.uint64(_GOLDEN)), dtype=np.uint64))


def _hashes(column: pa.Array) -> Hashes:
    """The hash of each value; what it is for a null means nothing."""
    kind = column.type
    if pa.types.is_map(kind):
        return _of_map(column)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _of_list(column)
    if pa.types.is_timestamp(kind) or pa.types.is_integer(kind):
        numbers: Hashes = _array(pc.fill_null(column.cast(pa.int64()), 0)).view(np.uint64)
        return numbers
    return _of_text(column)


def _of_text(column: pa.Array) -> Hashes:
    is_large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    kind = pa.large_binary() if is_large else pa.binary()
    column = pc.fill_null(column.cast(kind), b"")
    lengths = _array(pc.binary_length(column)).astype(np.int64, copy=False)
    padding = _PADDING.take(pa.array(lengths & (_WORD_BYTES - 1))).cast(kind)
    padded = pc.binary_join_element_wise(column, padding, pa.scalar(b"", kind))
    counts = (lengths + (_WORD_BYTES - 1)) // _WORD_BYTES
    ends = np.cumsum(counts)
    word_count = int(ends[-1]) if len(ends) else 0
    if not word_count:
        return _of_words(np.zeros(len(lengths), np.uint64), lengths)
    words = np.frombuffer(padded.buffers()[2], np.uint64, word_count)
    places = np.arange(word_count)
    places -= np.repeat(ends - counts, counts)
    # The upper half is taken into the lower one, since a product carries no bit downwards.
    products = words >> np.uint64(32)
    products ^= words
    products *= _weights(int(counts.max()))[places]
    return _of_words(_summed(products, ends - counts, ends), lengths)


def _of_words(sums_of_words: Hashes, lengths: npt.NDArray[np.int64]) -> Hashes:
    """Texts that differ only in the zeros at their end differ in their length."""
    hashes: Hashes = (lengths.astype(np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN)
    return hashes + sums_of_words


def _of_list(column: pa.Array) -> Hashes:
    """The place of an entry counts."""
    starts, ends, first = _bounds(column)
    entries = column.values.slice(first, int(ends[-1]) if len(ends) else 0)
    places = np.arange(len(entries)) - np.repeat(starts, ends - starts)
    hashes = _mixed(_hashes(entries) ^ _weights(int(places.max()) + 1 if len(places) else 1)[places])
    return _of_words(_summed(_where_valid(entries, hashes), starts, ends), ends - starts)


def _of_map(column: pa.MapArray) -> Hashes:
    """The place of an entry does not count, for Spark keeps no order in a map."""
    starts, ends, first = _bounds(column)
    count = int(ends[-1]) if len(ends) else 0
    keys, items = column.keys.slice(first, count), column.items.slice(first, count)
    hashes = _mixed(_hashes(keys) + _where_valid(items, _mixed(_hashes(items))))
    return _of_words(_summed(hashes, starts, ends), ends - starts)


def _bounds(lists: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], int]:
    """Where the entries of each list begin and end, counted from the first entry that a slice may have, and that."""
    offsets = _array(lists.offsets).astype(np.int64)
    first = int(offsets[0]) if len(offsets) else 0
    return offsets[:-1] - first, offsets[1:] - first, first


def _summed(values: Hashes, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> Hashes:
    """The sum of ``values[start:end]`` for each pair, which may be empty."""
    until = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=until[1:])
    return until[ends] - until[starts]


def _array(column: pa.Array) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values


def _where_valid(column: pa.Array, hashes: Hashes) -> Hashes:
    if not column.null_count:
        return hashes
    return hashes * _array(column.is_valid()).astype(np.uint64)


def _mixed(values: Hashes) -> Hashes:
    """Different numbers for different ones, each bit of which depends on all bits (the end of splitmix64)."""
    mixed: Hashes = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _made_weights(count: int) -> Hashes:
    weights = _mixed((np.arange(count, dtype=np.uint64) + np.uint64(1)) * np.uint64(_GOLDEN))
    weights |= np.uint64(1)
    return weights


_KEPT_WEIGHTS = _made_weights(8_192)


def _weights(count: int) -> Hashes:
    """An odd number for each of the first places; those of bodies above 64 KiB are made each time."""
    return _KEPT_WEIGHTS if count <= len(_KEPT_WEIGHTS) else _made_weights(count)


def _number_of(name: str) -> Any:
    """A number for a column, from its name."""
    return np.uint64(zlib.crc32(name.encode()) * _GOLDEN & _MASK)
