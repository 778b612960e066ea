"""Counts how often each row of a task has occurred, with a few bytes and no Python object for each row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Counts = npt.NDArray[np.int64]

_SIZE_MIN = 1 << 12
_FREE = np.uint64(0)


class Occurrences:
    """A hash table of keys of 64 bits, at most half full, which takes 24 to 48 bytes for each different key.

    The keys are hashes already. Two rows with the same key, which are very rare, count as one row. The ids of both
    stay different, but depend on which of them comes first.
    """

    def __init__(self) -> None:
        self._keys = np.zeros(_SIZE_MIN, np.uint64)
        self._counts = np.zeros(_SIZE_MIN, np.int32)
        self._used = 0

    def count(self, keys: Keys) -> Counts:
        """Returns how often each key has occurred by now: 1 for a new one."""
        keys = np.where(keys == _FREE, np.uint64(1), keys)
        in_order = np.sort(keys)
        if len(keys) < 2 or not (in_order[1:] == in_order[:-1]).any():
            return self._add(keys, np.ones(len(keys), np.int32)) + 1
        different, numbers, counts = np.unique(keys, return_inverse=True, return_counts=True)
        order = np.argsort(numbers, kind="stable")
        ranks = np.empty(len(keys), np.int64)
        ranks[order] = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts)
        return self._add(different, counts.astype(np.int32))[numbers] + ranks + 1

    def _add(self, keys: Keys, counts: npt.NDArray[np.int32]) -> Counts:
        """Adds different keys. Returns their counts before."""
        if 2 * (self._used + len(keys)) > len(self._keys):
            self._grow(len(keys))
        slots = self._find_slots(keys)
        before: Counts = self._counts[slots].astype(np.int64)
        self._counts[slots] += counts
        self._used += int(np.count_nonzero(before == 0))
        return before

    def _find_slots(self, keys: Keys) -> npt.NDArray[np.int64]:
        """Returns the slot of each key, and occupies one for a new key: the first free one from its place on."""
        mask = len(self._keys) - 1
        slots: npt.NDArray[np.int64] = (keys & np.uint64(mask)).astype(np.int64)
        rest, at, wanted = np.arange(len(keys)), slots, keys
        while len(rest):
            is_free = self._keys[at] == _FREE
            self._keys[at[is_free]] = wanted[is_free]  # of several keys, the last one gets the slot
            rest = rest[self._keys[at] != wanted]
            slots[rest] = at = (slots[rest] + 1) & mask
            wanted = keys[rest]
        return slots

    def _grow(self, added: int) -> None:
        known = np.flatnonzero(self._counts)
        keys, counts = self._keys[known], self._counts[known]
        size = 1 << (2 * (self._used + added)).bit_length()
        self._keys, self._counts = np.zeros(size, np.uint64), np.zeros(size, np.int32)
        self._counts[self._find_slots(keys)] = counts
