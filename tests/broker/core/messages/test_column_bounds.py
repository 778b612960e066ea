"""The bounds of columns: they never exclude what a text has."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import limits
from rmqpull_broker.core.messages.column_bounds import (
    NONE,
    find_entry_counts,
    find_lengths,
    find_names,
    find_range,
    find_text_bounds,
)

MAPS = pa.map_(pa.string(), pa.string())
CHARACTERS = [
    " ",
    "!",
    "a",
    "|",
    "}",
    "~",
    "\x7f",
    "\x80",
    "\x9f",
    "\xa0",
    "é",
    "\u3000",
    "京",
    "\U0001f680",
    "\x00",
    "\x1f",
]
TEXTS = st.lists(st.text(st.sampled_from(CHARACTERS), max_size=4) | st.none(), max_size=8)
PLAIN = st.lists(st.text(st.sampled_from("ab{é京"), min_size=1, max_size=4), max_size=8)
MAP_ROWS = st.lists(
    st.lists(st.tuples(st.sampled_from(["a", "b", "bc", "c"]), st.none()), max_size=3) | st.none(), max_size=6
)


def list_nonnull(texts: Sequence[str | None]) -> list[str]:
    return [text for text in texts if text is not None]


@given(TEXTS | PLAIN, st.integers(0, 3), st.integers(0, 8))
def test_bounds_of_a_slice_are_those_of_its_texts(texts: list[str | None], first: int, count: int) -> None:
    bounds = find_text_bounds(pa.array(texts, pa.string()).slice(first, count))
    some = list_nonnull(texts[first : first + count])
    data = "".join(some).encode()
    assert bounds.lengths == find_lengths(pa.array(some, pa.string()))
    assert bounds.bytes == ((min(data), max(data)) if data else NONE)
    assert bounds.may_have_control == bool(re.search(limits.CONTROL_CHARACTERS, "".join(some)))
    assert bounds.may_be_blank or not any(not text.strip() for text in some)
    assert bounds.may_have("|") or "|" not in "".join(some)


@pytest.mark.parametrize("text", ["A1!", "key-1", "~"])
def test_plain_texts_are_known_to_break_no_rule(text: str) -> None:
    bounds = find_text_bounds(pa.array([text, None]))
    assert not bounds.may_be_blank
    assert not bounds.may_have_control


@pytest.mark.parametrize("texts", [[], [None, None]])
def test_a_column_without_texts_has_no_bounds(texts: list[None]) -> None:
    bounds = find_text_bounds(pa.array(texts, pa.string()))
    assert (bounds.lengths, bounds.bytes) == (NONE, NONE)
    assert not bounds.may_have("|")
    assert not bounds.may_be_blank
    assert not bounds.may_have_control


def test_what_lies_under_a_null_widens_the_bounds_of_bytes_only() -> None:
    whole = pa.array(["\n\n\n", "a"])
    _, offsets, data = whole.buffers()
    hidden = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    bounds = find_text_bounds(hidden)
    assert (bounds.lengths, bounds.bytes) == ((1, 1), (ord("\n"), ord("a")))


def test_the_range_of_numbers_leaves_nulls_out() -> None:
    assert find_range(pa.array([3, None, -1])) == (-1, 3)
    assert find_range(pa.array([None], pa.int64())) == NONE


@given(MAP_ROWS, st.integers(0, 3), st.integers(0, 6))
def test_names_are_all_of_those_that_maps_have_and_no_others(
    rows: list[list[tuple[str, None]] | None], first: int, count: int
) -> None:
    maps = pa.array(rows, MAPS).slice(first, count)
    wanted = [[name for name, _ in row or ()] for row in rows[first : first + count]]
    assert set(find_names(maps).to_pylist()) == {name for names in wanted for name in names}
    assert max(find_entry_counts(maps).greatest, 0) == max(map(len, wanted), default=0)


def test_names_that_all_maps_repeat_are_returned_once() -> None:
    maps = pa.array([[("zz", "")], *[[("b", str(row)), ("a", None)] for row in range(100)]], MAPS)
    assert find_names(maps.slice(1)).to_pylist() == ["b", "a"]
    assert len(find_names(maps)) == 201


def test_names_of_the_same_lengths_are_told_apart() -> None:
    maps = pa.array([[("ab", "")], [("ab", "")], [("ac", "")]], MAPS)
    assert find_names(maps).to_pylist() == ["ab", "ab", "ac"]
    empty = pa.array([[("", "1")]] * 3, MAPS)
    assert find_names(empty).to_pylist() == [""]
