"""Ranges of bytes of one buffer, gathered into Arrow arrays without a Python object for each (rules 4.7, 4.8)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.remoting.messages.record_numbers import Bytes, Ints, Mask

POOL = pa.system_memory_pool()
"""The default pool of pyarrow returns pages to the system after each batch, which costs more than the decoding."""
DATA_BYTES_MAX = (1 << 31) - 1
_HEX = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)
_INLINE_BYTES = 12
"""A view of up to this many bytes stores them inline."""


def gather(data: Bytes, starts: Ints, ends: Ints) -> pa.Array:
    """Returns the bytes of each range as a binary array. This is fast for ranges that do not overlap, in order."""
    count = len(starts)
    if not count:
        return pa.Array.from_buffers(pa.binary(), 0, [None, pa.py_buffer(bytes(4)), pa.py_buffer(b"")])
    lengths = ends - starts
    if _CAN_CAST_VIEWS and lengths.min() > _INLINE_BYTES:
        return _cast_views(data, starts, lengths)
    if not (starts[1:] >= ends[:-1]).all():
        return pa.array([data[start:end].tobytes() for start, end in zip(starts, ends, strict=True)], pa.binary())
    # Values with even indexes are the ranges, and those with odd indexes the gaps between them; the last gap is empty.
    edges = np.empty(2 * count + 1, np.int32)
    edges[0:-1:2] = starts
    edges[1::2] = ends
    edges[-1] = edges[-2]
    wanted = _wrap_numbers(pa.int32(), np.arange(0, 2 * count, 2, dtype=np.int32))
    return pc.take(_wrap(pa.binary(), 2 * count, edges, data), wanted, boundscheck=False, memory_pool=POOL)


def _cast_views(data: Bytes, starts: Ints, lengths: Ints) -> pa.Array:
    """Gathers ranges of more than ``_INLINE_BYTES`` bytes, faster than ``take`` does."""
    views = np.zeros((len(starts), 4), np.int32)
    views[:, 0] = lengths
    views[:, 3] = starts
    return _wrap(pa.binary_view(), len(starts), views, data).cast(pa.binary(), memory_pool=POOL)


def _can_cast_views() -> bool:
    """Whether this version of pyarrow can make views from buffers and cast them. 18 cannot."""
    try:
        data = np.zeros(16, np.uint8)
        return bool(_cast_views(data, np.zeros(1, np.int64), np.full(1, 16))[0].as_py() == data.tobytes())
    except (AttributeError, ValueError, pa.ArrowNotImplementedError):
        return False


def as_text(values: pa.Array) -> pa.Array:
    """Returns binary values, which must be valid UTF-8, as strings over the same memory."""
    return pa.Array.from_buffers(pa.string(), len(values), values.buffers(), values.null_count)


def get_offsets(values: pa.Array) -> npt.NDArray[np.int32]:
    """Returns where each value of an unsliced binary or string array begins in its bytes, and the end of the last."""
    return np.frombuffer(values.buffers()[1], np.int32, len(values) + 1)


def get_bytes(values: pa.Array) -> Bytes:
    """Returns the bytes of an unsliced binary or string array."""
    content = values.buffers()[2]
    size = int(get_offsets(values)[-1])
    return np.frombuffer(content, np.uint8, size) if size else np.zeros(0, np.uint8)


def make_numbers(data_type: pa.DataType, numbers: npt.NDArray[Any]) -> pa.Array:
    """Returns numbers without nulls as an array of this type, without a copy if they have its width."""
    return _wrap_numbers(data_type, np.ascontiguousarray(numbers))


def make_fixed(values: npt.NDArray[Any]) -> pa.Array:
    """Returns the bytes of each value as a binary array."""
    ends = np.arange(len(values) + 1, dtype=np.int32) * values.itemsize
    return _wrap(pa.binary(), len(values), ends, np.ascontiguousarray(values).view(np.uint8))


def make_hex(raw: Bytes) -> pa.Array:
    """Returns each row of bytes as hexadecimal digits with capital letters."""
    ends = np.arange(len(raw) + 1, dtype=np.int32) * (2 * raw.shape[1])
    return _wrap(pa.string(), len(raw), ends, hex_digits(raw))


def hex_digits(raw: Bytes) -> Bytes:
    """Returns the digits of each row of bytes, two for each byte."""
    return _HEX[raw].view(np.uint8)


def make_bitmap(is_valid: Mask) -> pa.Buffer:
    """Returns the bitmap of an array's valid rows."""
    return pa.py_buffer(np.packbits(is_valid, bitorder="little"))


def place_texts(values: pa.Array, rows: Ints | None, row_count: int) -> pa.Array:
    """Returns a string array with ``values`` in these ascending rows, and nulls in the others. None: in all rows."""
    if rows is None or len(rows) == row_count:
        return as_text(values)
    if not len(rows):
        return pa.nulls(row_count, pa.string())
    lengths = np.zeros(row_count + 1, np.int32)
    lengths[rows + 1] = np.diff(get_offsets(values))
    is_valid = np.zeros(row_count, np.bool_)
    is_valid[rows] = True
    offsets = pa.py_buffer(np.cumsum(lengths, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), row_count, [make_bitmap(is_valid), offsets, values.buffers()[2]])


def repeat_text(text: str, row_count: int) -> pa.Array:
    """Returns the same text in each row."""
    encoded = np.frombuffer(text.encode(), np.uint8)
    offsets = np.arange(row_count + 1, dtype=np.int32) * len(encoded)
    return _wrap(pa.string(), row_count, offsets, np.tile(encoded, row_count))


def _wrap(data_type: pa.DataType, count: int, layout: npt.NDArray[Any], data: Bytes) -> pa.Array:
    return pa.Array.from_buffers(data_type, count, [None, pa.py_buffer(layout), pa.py_buffer(data)])


def _wrap_numbers(data_type: pa.DataType, numbers: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(data_type, len(numbers), [None, pa.py_buffer(numbers)])


_CAN_CAST_VIEWS = _can_cast_views()
