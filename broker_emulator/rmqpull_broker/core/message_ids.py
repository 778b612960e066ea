"""Ids for messages that come without one: the clients' own form (rocketmq-semantics 5.17), made a batch at a time."""

from __future__ import annotations

import struct
from array import array

import pyarrow as pa

ID_BYTES = 17
_EPOCH_2021_S = 1_609_459_200
_PREFIX = struct.Struct(">B6sHI")


class MessageIds:
    """Hands out ids that never repeat, as long as ``node`` (6 random bytes) is new with every process."""

    def __init__(self, node: bytes, process_id: int) -> None:
        self._node = node
        self._process_id = process_id & 0xFFFF
        self._sequence = 0

    def take(self, count: int, now_ms: int) -> pa.Array:
        """``count`` new ids as a string column of 34 upper-case hex characters each.

        Bytes are laid out in strides, version, node, process, seconds since 2021 and sequence, so that no id is ever
        a Python object of its own.
        """
        seconds = (now_ms // 1000 - _EPOCH_2021_S) & 0xFFFFFFFF
        ids = bytearray(_PREFIX.pack(1, self._node, self._process_id, seconds) + bytes(4)) * count
        sequence = array("I", (number & 0xFFFFFFFF for number in range(self._sequence, self._sequence + count)))
        self._sequence += count
        little_endian = sequence.tobytes()
        for place in range(4):
            ids[ID_BYTES - 1 - place :: ID_BYTES] = little_endian[place::4]
        text = ids.hex().upper().encode()
        ends = array("i", range(0, 2 * ID_BYTES * (count + 1), 2 * ID_BYTES))
        return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(text))
