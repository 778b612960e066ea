"""Ranges of bytes as Arrow arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.byte_ranges import gather, place_texts, repeat_text
from rmqpull_client.transports.remoting.messages.record_numbers import Bytes, Ints

DATA = bytes(range(97, 123)) * 4


def as_data(data: bytes) -> Bytes:
    return np.frombuffer(data, np.uint8)


def as_ints(*numbers: int) -> Ints:
    return np.array(numbers, np.int64)


@given(gaps=st.lists(st.tuples(st.integers(0, 3), st.sampled_from((0, 1, 12, 13, 20))), max_size=8))
def test_ranges_are_gathered_in_order(gaps: list[tuple[int, int]]) -> None:
    """Short values, long ones and both together; with and without bytes between them."""
    starts, ends, at = [], [], 0
    for gap, length in gaps:
        starts.append(at + gap)
        at += gap + length
        ends.append(at)
    data = (DATA * 2)[:at]
    found = gather(as_data(data), as_ints(*starts), as_ints(*ends))
    found.validate(full=True)
    assert found.to_pylist() == [data[start:end] for start, end in zip(starts, ends, strict=True)]


@pytest.mark.parametrize("length", [2, 20])
@pytest.mark.parametrize("starts", [[40, 0, 80, 20], [0, 0], [0, 1, 3]])
def test_ranges_in_any_order_and_overlapping_ones(starts: list[int], length: int) -> None:
    found = gather(as_data(DATA), as_ints(*starts), as_ints(*starts) + length)
    assert found.to_pylist() == [DATA[start : start + length] for start in starts]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (None, ["ab", "c"]),
        (as_ints(0, 1), ["ab", "c"]),
        (as_ints(1, 4), [None, "ab", None, None, "c"]),
        (as_ints(0, 9), ["ab", *[None] * 8, "c"]),
    ],
)
def test_texts_are_placed_into_rows(rows: Ints | None, expected: list[str | None]) -> None:
    found = place_texts(gather(as_data(b"abc"), as_ints(0, 2), as_ints(2, 3)), rows, len(expected))
    found.validate(full=True)
    assert found.to_pylist() == expected


def test_a_text_is_repeated() -> None:
    assert repeat_text("ü", 3).to_pylist() == ["ü"] * 3
    assert repeat_text("ü", 0).to_pylist() == []
