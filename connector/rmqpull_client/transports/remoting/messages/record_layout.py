"""The layout of stored messages, and numbers in them as NumPy arrays (rules 4.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

MAGIC = 0xDAA320A7
LONG_TOPIC_MAGIC = 0xDAA320AB
"""Of records whose topic has more than 127 bytes: the length of their topic has two bytes."""
SHORT_TOPIC_BYTES = 127
PROPERTIES_BYTES_MAX = 0x7FFF

# Where the fields of a record begin, with IPv4 hosts. Fields behind an IPv6 host begin 12 bytes later.
MAGIC_AT = 4
BODY_CRC_AT = 8
FLAG_AT = 16
QUEUE_OFFSET_AT = 20
PHYSICAL_OFFSET_AT = 28
SYS_FLAG_AT = 36
BORN_TIMESTAMP_AT = 40
BORN_HOST_AT = 48
STORE_TIMESTAMP_AT = 56
STORE_HOST_AT = 64
RECONSUME_TIMES_AT = 72
HEAD_BYTES = 88
"""The bytes before the body, with IPv4 hosts."""
RECORD_BYTES_MIN = 91
"""The bytes of a record without body, topic and properties, with IPv4 hosts."""
IPV4_HOST_BYTES = 8
IPV6_HOST_BYTES = 20
IPV6_MORE_BYTES = IPV6_HOST_BYTES - IPV4_HOST_BYTES

COMPRESSED = 0x1
BORN_HOST_IPV6 = 0x10
STORE_HOST_IPV6 = 0x20
NEED_UNWRAP = 0x40
INNER_BATCH = 0x80
COMPRESSION_TYPE = 0x700


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
