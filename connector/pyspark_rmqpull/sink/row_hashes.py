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

Lanes = npt.NDArray[np.uint64]
"""The four sums of each row, by lane and row."""

LANES = 4
_WORD_BYTES = 8
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
        texts = pc.fill_null(column.cast(pa.binary()), b"")
        lengths = pc.binary_length(texts).to_numpy()
        padded = pc.binary_join_element_wise(texts, _PADDING.take(pa.array(lengths & (_WORD_BYTES - 1))), b"")
        counts = lengths // _WORD_BYTES + 1
        ends = np.cumsum(counts, dtype=np.int64)
        words = np.frombuffer(padded.buffers()[2], np.uint64, int(ends[-1]))
        starts = ends - counts
        if counts.min() == counts.max():
            rows = words.reshape(len(counts), -1)
            return np.stack([_multiply(rows, keys).sum(axis=1) for keys in self._get_keys(name, rows.shape[1])])
        indexes = np.arange(len(words))
        indexes -= np.repeat(starts, counts)
        own = self._get_keys(name, int(counts.max()))
        return np.stack([np.add.reduceat(_multiply(words, keys.take(indexes)), starts) for keys in own])

    def _sum_numbers(self, name: str, column: pa.Array) -> Lanes:
        words = pc.fill_null(column.cast(pa.int64()), 0).to_numpy().view(np.uint64)
        return np.stack([_multiply(words, np.repeat(keys, len(words))) for keys in self._get_keys(name, 1)])

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


def _multiply(words: Lanes, keys: Lanes) -> Lanes:
    """Adds the key to both halves of each word, and multiplies them."""
    halves = (words.view(np.uint32) + np.ascontiguousarray(keys).view(np.uint32)).view(np.uint64)
    products: Lanes = halves >> _HALF
    halves &= _LOW
    products *= halves
    return products
