"""Keyed hashes of rows: 128 bits for each row, over whole columns, without a Python object for each row.

A text is padded to words of eight bytes, and each word is hashed with a key of its own, by its column and its index. A
lane adds up the products ``(low half + low key) * (high half + high key)`` of all words of a row, as the hash NH of
UMAC (RFC 4418) does. Two different rows collide in a lane with a probability of about 2^-31, and each of the four
lanes has other keys: so they collide in all with one of about 2^-124, whatever the rows are, unless their author knows
the keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto.even_texts import EvenTexts, find_even, join_even

Lanes = npt.NDArray[np.uint64]
"""The four sums of each row, by lane and row."""

Numbers = npt.NDArray[np.int64]

LANES = 4
_WORD_BYTES = 8
_END = 0x80
_WASTE_MAX = 3
"""Texts are padded to the longest if that makes at most so many times as many words."""
_HALF, _LOW = np.uint64(32), np.uint64(0xFFFFFFFF)
_PADDING = pa.array([b"\x80".ljust(_WORD_BYTES - size, b"\0") for size in range(_WORD_BYTES)], pa.binary())
"""What follows a text, by its length modulo 8. The first byte says where the text ends."""


class RowHashes:
    """Hashes rows with keys that a seed determines."""

    def __init__(self, seed: bytes) -> None:
        self._seed = seed
        self._keys: dict[str, Lanes] = {}

    def sum_columns(self, columns: Mapping[str, pa.Array]) -> Lanes:
        """Returns the sums of each row over its columns: binary, text, numbers or times, all of one length.

        A null counts like a missing column, so a batch need not have a column in which all its rows are null.
        """
        total = np.zeros((LANES, len(next(iter(columns.values())))), np.uint64)
        for name, column in columns.items():
            if column.null_count == len(column):
                continue
            is_number = pa.types.is_integer(column.type) or pa.types.is_timestamp(column.type)
            sums = self._sum_numbers(name, column) if is_number else self._sum_texts(name, column)
            if column.null_count:
                sums *= column.is_valid().to_numpy(zero_copy_only=False)
            total += sums
        return total

    def sum_counts(self, counts: npt.NDArray[np.uint64]) -> Lanes:
        """Returns sums that differ for different numbers of occurrences."""
        sums: Lanes = counts * (self._get_keys("", 1) | np.uint64(1))
        return sums

    def _sum_texts(self, name: str, column: pa.Array) -> Lanes:
        texts = column.cast(pa.binary())
        if texts.null_count:
            texts = pc.fill_null(texts, b"")
        row_count, even = len(texts), find_even(texts)
        if even is not None:
            if row_count > 1 and even.is_constant:
                return np.repeat(self._sum_texts(name, texts.slice(0, 1)), row_count, axis=1)
            lengths = np.full(row_count, even.data.shape[1])
        else:
            lengths = pc.binary_length(texts).to_numpy().astype(np.int64)
        counts = lengths // _WORD_BYTES + 1
        word_count = int(counts.max())
        if word_count > row_count or word_count * row_count > _WASTE_MAX * int(counts.sum()):
            return self._sum_one_by_one(name, texts, lengths)
        return self._sum_padded(name, _pad(texts, even, lengths, word_count), counts)

    def _sum_padded(self, name: str, words: Lanes, counts: Numbers) -> Lanes:
        """Sums ``words``, by word and row: ``counts`` for each text, and then zeros.

        One word of all rows at a time, because NumPy is fast where its inner loop is long. What the zeros add depends
        on the keys alone, so it is taken off again.
        """
        width, row_count = words.shape
        keys = self._get_keys(name, width)
        low_keys, high_keys = (part.T[:, :, np.newaxis] for part in (keys & _LOW, keys >> _HALF))
        total = np.zeros((LANES, row_count), np.uint64)
        low, high = np.empty_like(total), np.empty_like(total)
        for word, low_key, high_key in zip(words, low_keys, high_keys, strict=True):
            np.add(word & _LOW, low_key, out=low)
            np.add(word >> _HALF, high_key, out=high)
            low &= _LOW
            high &= _LOW
            low *= high
            total += low
        if counts.min() < width:
            of_zeros = np.zeros((LANES, width + 1), np.uint64)
            np.cumsum(_multiply(np.zeros_like(keys), keys), axis=1, out=of_zeros[:, 1:])
            total -= of_zeros[:, -1:] - of_zeros[:, counts]
        return total

    def _sum_one_by_one(self, name: str, texts: pa.Array, lengths: Numbers) -> Lanes:
        """Sums few texts, or texts of very different lengths, which would take much padding."""
        padded = pc.binary_join_element_wise(texts, _PADDING.take(pa.array(lengths & (_WORD_BYTES - 1))), b"")
        counts = lengths // _WORD_BYTES + 1
        ends = np.cumsum(counts)
        words = np.frombuffer(padded.buffers()[2], np.uint64, int(ends[-1]))
        starts = ends - counts
        indexes = np.arange(len(words))
        indexes -= np.repeat(starts, counts)
        own = self._get_keys(name, int(counts.max()))
        return np.stack([np.add.reduceat(_multiply(words, keys.take(indexes)), starts) for keys in own])

    def _sum_numbers(self, name: str, column: pa.Array) -> Lanes:
        words = pc.fill_null(column.cast(pa.int64()), 0).to_numpy().view(np.uint64)
        return self._sum_padded(name, words[np.newaxis], np.ones(len(words), np.int64))

    def _get_keys(self, name: str, count: int) -> Lanes:
        """Returns a key for each lane and word of a column. More words do not change the keys of the first ones."""
        known = self._keys.get(name)
        if known is None or known.shape[1] < count:
            size = 1 << (count - 1).bit_length()
            stream = hashlib.shake_256(self._seed + name.encode()).digest(size * LANES * _WORD_BYTES)
            known = self._keys[name] = np.frombuffer(stream, np.uint64).reshape(size, LANES).T.copy()
        return known[:, :count]


def fold(sums: Lanes) -> npt.NDArray[np.uint32]:
    """Returns the hash of each row as four numbers: the upper half of each lane, after its bits are mixed."""
    return np.ascontiguousarray((mix(sums) >> _HALF).astype(np.uint32).T)


def mix(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Mixes numbers so that each bit depends on all bits; different numbers stay different (the end of splitmix64)."""
    mixed: npt.NDArray[np.uint64] = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def _pad(texts: pa.Array, even: EvenTexts | None, lengths: Numbers, word_count: int) -> Lanes:
    """Returns texts as words, by word and row: each text, the byte that ends it, and zeros."""
    width = word_count * _WORD_BYTES
    if even is not None:
        padded = join_even([even.data, bytes(width - even.data.shape[1])], len(texts)).reshape(-1)
    else:
        # Arrow pads bytes, whatever they mean, and only texts.
        as_text = pa.Array.from_buffers(pa.string(), len(texts), [None, *texts.buffers()[1:]], offset=texts.offset)
        padded = np.frombuffer(pc.ascii_rpad(as_text, width, "\0").buffers()[2], np.uint8, width * len(texts))
    words = np.ascontiguousarray(padded.view(np.uint64).reshape(len(texts), word_count).T)
    ends = np.zeros((len(texts), _WORD_BYTES), np.uint8)
    rows = np.arange(len(texts))
    ends[rows, lengths % _WORD_BYTES] = _END
    words[lengths // _WORD_BYTES, rows] |= ends.view(np.uint64)[:, 0]
    return words


def _multiply(words: Lanes, keys: Lanes) -> Lanes:
    """Adds the key to both halves of each word, and multiplies them."""
    halves = (words.view(np.uint32) + np.ascontiguousarray(keys).view(np.uint32)).view(np.uint64)
    products: Lanes = halves >> _HALF
    halves &= _LOW
    products *= halves
    return products
