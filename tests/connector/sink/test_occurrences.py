"""Occurrences are counted as a dictionary would count them."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.sink.occurrences import Occurrences

# Few different keys, and keys that want the same slot of a small table.
KEYS = st.integers(0, 5) | st.integers(0, 3).map(lambda high: high << 40) | st.integers(0, (1 << 64) - 1)


def count(occurrences: Occurrences, keys: list[int]) -> list[int]:
    counted: list[int] = occurrences.count(np.array(keys, np.uint64)).tolist()
    return counted


@given(st.lists(st.lists(KEYS, max_size=20), max_size=5))
def test_each_key_is_counted(batches: list[list[int]]) -> None:
    occurrences, seen = Occurrences(), Counter[int]()
    for keys in batches:
        expected = []
        for key in (max(key, 1) for key in keys):  # 0 counts as 1
            seen[key] += 1
            expected.append(seen[key])
        assert count(occurrences, keys) == expected


def test_the_table_grows() -> None:
    occurrences, random = Occurrences(), np.random.default_rng(1)
    batches = [random.integers(1, 1 << 64, 10_000, np.uint64) for _ in range(5)]
    for number in (1, 2):
        for keys in batches:
            assert (occurrences.count(keys) == number).all()


def test_many_equal_rows_are_counted_in_order() -> None:
    assert count(Occurrences(), [7] * 10_000) == list(range(1, 10_001))
