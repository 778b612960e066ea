"""Texts joined row by row, whichever of their parts have the same length in all rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.messages.joined_texts import Part, join_texts


def make_columns(row_count: int) -> st.SearchStrategy[list[Any]]:
    """Lists of parts: a text that all rows share, or the texts of the rows, even or not."""

    def of_rows(texts: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
        return st.lists(texts, min_size=row_count, max_size=row_count)

    even = st.integers(0, 3).flatmap(lambda width: of_rows(st.binary(min_size=width, max_size=width)))
    return st.lists(st.binary(max_size=3) | even | of_rows(st.none() | st.binary(max_size=3)), max_size=5)


@given(st.integers(0, 4).flatmap(lambda count: st.tuples(st.just(count), make_columns(count))))
def test_joined_texts_are_those_of_each_row(drawn: tuple[int, list[Any]]) -> None:
    count, columns = drawn
    parts: list[Part] = [each if isinstance(each, bytes) else pa.array(each, pa.binary()) for each in columns]
    joined = join_texts(parts, count, pa.binary())
    joined.validate(full=True)
    texts = [[each] * count if isinstance(each, bytes) else each for each in columns]
    assert joined.to_pylist() == [b"".join(each[row] or b"" for each in texts) for row in range(count)]


def test_matrices_and_texts_become_strings() -> None:
    digits = np.frombuffer(b"12", np.uint8).reshape(2, 1)
    joined = join_texts([pa.array(["a", "ü"]), b"=", digits, pa.array([None, "bc"])], 2, pa.string())
    assert joined.equals(pa.array(["a=1", "ü=2bc"]))
