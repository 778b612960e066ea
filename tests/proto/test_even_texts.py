"""Columns with texts of equal lengths, as matrices and back."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.even_texts import EvenTexts, find_even, join_even, make_texts

ROWS = st.lists(st.integers(0, 3), min_size=1, max_size=3).flatmap(
    lambda widths: st.lists(
        st.tuples(*(st.binary(min_size=width, max_size=width) for width in widths)), min_size=1, max_size=5
    )
)


@given(ROWS, st.data())
def test_even_texts_are_found_in_any_slice(rows: list[tuple[bytes, ...]], data: st.DataObject) -> None:
    per_row, first = len(rows[0]), data.draw(st.integers(0, len(rows) - 1))
    texts = pa.array([text for row in rows for text in row], pa.binary())
    rows, texts = rows[first:], texts.slice(first * per_row)
    even = find_even(texts, per_row)
    assert even is not None
    assert even.widths == tuple(len(text) for text in rows[0])
    assert [line.tobytes() for line in even.data] == [b"".join(row) for row in rows]
    assert [[line.tobytes() for line in part] for part in even.parts] == [
        list(each) for each in zip(*rows, strict=True)
    ]
    assert even.is_constant == (len(set(rows)) == 1)
    made = make_texts(even, pa.binary())
    made.validate(full=True)
    assert made.equals(texts)


@given(st.lists(st.none() | st.binary(max_size=2), max_size=6), st.integers(1, 3))
def test_other_columns_are_not_even(texts: list[bytes | None], per_row: int) -> None:
    rows = [texts[start : start + per_row] for start in range(0, len(texts), per_row)]
    lengths = {tuple(-1 if text is None else len(text) for text in row) for row in rows}
    is_even = len(lengths) == 1 and None not in texts and not len(texts) % per_row
    assert (find_even(pa.array(texts, pa.binary()), per_row) is not None) == is_even


def test_texts_of_any_type_of_characters() -> None:
    even = find_even(pa.array(["ü", "ab"]))
    assert even is not None
    assert make_texts(even, pa.string()).to_pylist() == ["ü", "ab"]


@pytest.mark.parametrize("data_type", [pa.large_string(), pa.large_binary(), pa.int32()])
def test_columns_of_other_types_are_not_even(data_type: pa.DataType) -> None:
    """Their layout in memory is another one."""
    assert find_even(pa.nulls(2, data_type).fill_null(pa.array(["12"]).cast(data_type)[0])) is None


@given(ROWS, st.binary(max_size=3))
def test_rows_are_joined_with_what_all_share(rows: list[tuple[bytes, ...]], shared: bytes) -> None:
    columns = [
        np.array([list(text) for text in each], np.uint8).reshape(len(rows), -1) for each in zip(*rows, strict=True)
    ]
    joined = join_even([shared, *columns, shared], len(rows))
    assert [line.tobytes() for line in joined] == [shared + b"".join(row) + shared for row in rows]


def test_nothing_is_joined_to_empty_texts() -> None:
    assert join_even([], 2).shape == (2, 0)
    assert make_texts(EvenTexts(join_even([], 2), (0,)), pa.string()).to_pylist() == ["", ""]
    assert make_texts(EvenTexts(join_even([b"ab"], 0), (2,)), pa.string()).to_pylist() == []


def test_more_than_a_column_can_hold_is_refused() -> None:
    wide = np.broadcast_to(np.zeros(1, np.uint8), (3, 1 << 30))
    with pytest.raises(pa.ArrowCapacityError, match="3 texts of 1073741824 bytes"):
        make_texts(EvenTexts(wide, (1 << 30,)), pa.binary())
