"""Columns whose texts have the same length in each row, as matrices of bytes: NumPy copies and compares whole matrices.

Ids, numbers with leading zeros, and names that all rows have are such columns. Texts are Arrow's ``string`` or
``binary``. Needs NumPy, which the broker does without.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
_BYTES_MAX = (1 << 31) - 1


class EvenTexts(NamedTuple):
    """The texts of rows that have as many texts each, with the same lengths in each row."""

    data: Bytes
    """A line for each row: its texts, one after the other."""
    widths: tuple[int, ...]
    """The length in bytes of each text of a row."""

    @property
    def parts(self) -> list[Bytes]:
        """A matrix for each text of a row."""
        return [
            self.data[:, end - width : end] for width, end in zip(self.widths, accumulate(self.widths), strict=True)
        ]

    @property
    def is_constant(self) -> bool:
        """Whether all rows are equal."""
        width = self.data.shape[1]
        flat = self.data.reshape(-1)
        return not width or np.array_equal(flat[width:], flat[:-width])


def find_even(texts: pa.Array, per_row: int = 1) -> EvenTexts | None:
    """Returns a column with ``per_row`` texts for each row, without a copy. None if lengths differ or a text is null.

    None also for a column without rows, or of another type.
    """
    count, is_text = len(texts), texts.type in (pa.string(), pa.binary())
    if not is_text or not count or texts.null_count or count % per_row:
        return None
    bounds = np.frombuffer(texts.buffers()[1], np.int32, texts.offset + count + 1)[texts.offset :]
    first, last, row_count = int(bounds[0]), int(bounds[-1]), count // per_row
    ends = bounds[1 : per_row + 1] - first
    width = int(ends[-1])
    if width * row_count != last - first:
        return None
    starts = np.arange(first, last + 1, width or 1, dtype=np.int64)[:row_count] if width else np.full(row_count, first)
    if not np.array_equal(
        bounds[1:].reshape(row_count, per_row) - starts[:, np.newaxis], np.tile(ends, (row_count, 1))
    ):
        return None
    content = texts.buffers()[2]
    data = np.frombuffer(content, np.uint8, last)[first:] if width else np.zeros(0, np.uint8)
    return EvenTexts(data.reshape(row_count, width), tuple(np.diff(ends, prepend=0).tolist()))


def join_even(parts: Sequence[Bytes | bytes], row_count: int) -> Bytes:
    """Joins the texts of each row: matrices with a line for each row, and bytes that all rows share."""
    lines = [part if isinstance(part, bytes) else bytes(part.shape[1]) for part in parts]
    template = b"".join(lines)
    joined, end = np.empty((row_count, len(template)), np.uint8), 0
    if any(isinstance(part, bytes) for part in parts):
        joined[:] = np.frombuffer(template, np.uint8)
    for part, line in zip(parts, lines, strict=True):
        end += len(line)
        if not isinstance(part, bytes):
            joined[:, end - len(line) : end] = part
    return joined


def make_texts(even: EvenTexts, data_type: pa.DataType) -> pa.Array:
    """Returns all texts, row by row, as a column of ``string`` or ``binary`` over the same memory.

    Raises ArrowCapacityError for 2 GiB and more.
    """
    row_count, width = even.data.shape
    if row_count * width > _BYTES_MAX:
        raise pa.ArrowCapacityError(f"{row_count} texts of {width} bytes do not fit into one column")
    ends = np.array([0, *accumulate(even.widths)], np.int32)
    bounds = np.empty(row_count * len(even.widths) + 1, np.int32)
    bounds[0] = 0
    starts = np.arange(row_count, dtype=np.int32) * width
    np.add(starts[:, np.newaxis], ends[1:], out=bounds[1:].reshape(row_count, len(even.widths)))
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(np.ascontiguousarray(even.data))]
    return pa.Array.from_buffers(data_type, len(bounds) - 1, buffers)
