"""Numbers in stored messages as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def read_numbers(data: Bytes, at: Ints, number_type: str) -> npt.NDArray[Any]:
    """Returns the numbers that begin at the positions ``at``. ``number_type`` is big-endian, such as ``>i8``.

    The positions need no alignment. Raises IndexError for a number that ends outside the data.
    """
    wanted = np.dtype(number_type)
    found = read_fixed(data, at, wanted.itemsize)
    return found.view(wanted).astype(wanted.newbyteorder("="))


def read_fixed(data: Bytes, at: Ints, width: int) -> npt.NDArray[Any]:
    """Returns the ``width`` bytes at each position, as an array of that many opaque bytes."""
    places = max(0, len(data) - width + 1)
    every: npt.NDArray[Any] = np.ndarray((places,), f"V{width}", data, strides=(1,))
    return every[at]
