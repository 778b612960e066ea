"""Joins columns of texts row by row. Parts that have the same length in all rows are joined as matrices by NumPy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto.even_texts import Bytes, EvenTexts, find_even, join_even, make_texts

Part: TypeAlias = pa.Array | Bytes | bytes
"""The texts of a column, a matrix of bytes with a line for each row, or bytes that all rows share."""


def join_texts(parts: Sequence[Part], row_count: int, data_type: pa.DataType) -> pa.Array:
    """Returns the parts of each row as one text of ``data_type``: ``string`` or ``binary``. Nulls have no bytes.

    Raises ArrowCapacityError for 2 GiB and more.
    """
    joined, waiting = list[Any](), list[Bytes | bytes]()
    for part in parts:
        even = find_even(part) if isinstance(part, pa.Array) else None
        if even is not None:
            waiting.append(even.data)
        elif isinstance(part, pa.Array):
            joined += [*_join_waiting(waiting, row_count, data_type), part.cast(data_type)]
            waiting = []
        else:
            waiting.append(part)
    joined += _join_waiting(waiting, row_count, data_type)
    nothing = pa.scalar(b"", pa.binary()).cast(data_type)
    if len(joined) > 1:
        return pc.binary_join_element_wise(*joined, nothing, null_handling="replace", null_replacement=b"")
    (text,) = joined or [nothing]
    return pa.repeat(text, row_count) if isinstance(text, pa.Scalar) else pc.fill_null(text, b"")


def _join_waiting(parts: Sequence[Bytes | bytes], row_count: int, data_type: pa.DataType) -> Iterator[Any]:
    """Yields a column; or a scalar if all rows have the same text; or nothing without parts."""
    shared = [part for part in parts if isinstance(part, bytes)]
    if len(shared) < len(parts):
        data = join_even(parts, row_count)
        yield make_texts(EvenTexts(data, (data.shape[1],)), data_type)
    elif shared:
        yield pa.scalar(b"".join(shared), pa.binary()).cast(data_type)
