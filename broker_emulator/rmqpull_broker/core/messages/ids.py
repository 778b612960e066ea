"""Ids for messages that come without one: the clients' own form (rules 5.17), made a batch at a time."""

from __future__ import annotations

import struct

import pyarrow as pa

from rmqpull_broker.core.messages.columns import make_offset_column

ID_BYTES = 17
_EPOCH_2021_S = 1_609_459_200
_PREFIX = struct.Struct(">B6sHI")


class MessageIds:
    """Hands out ids that never repeat, as long as ``node`` (6 random bytes) is new with every process."""

    def __init__(self, node: bytes, process_id: int) -> None:
        self._node = node
        self._process_id = process_id & 0xFFFF
        self._sequence = 0

    def take_one(self, now_ms: int) -> str:
        """One new id."""
        return str(self.take(1, now_ms)[0])

    def take(self, count: int, now_ms: int) -> pa.Array:
        """``count`` new ids as a string column of 34 upper-case hex characters each.

        Bytes are laid out in strides, version, node, process, seconds since 2021 and sequence, so that no id is ever
        a Python object of its own.
        """
        seconds = (now_ms // 1000 - _EPOCH_2021_S) & 0xFFFFFFFF
        ids = bytearray(_PREFIX.pack(1, self._node, self._process_id, seconds) + bytes(4)) * count
        sequence = make_offset_column(self._sequence, count).buffers()[1].to_pybytes()
        self._sequence += count
        for place in range(4):
            ids[ID_BYTES - 1 - place :: ID_BYTES] = sequence[
                place::8
            ]  # little-endian, eight bytes each, of which an id takes the low four
        text = pa.py_buffer(ids.hex().upper().encode())
        return pa.Array.from_buffers(pa.binary(2 * ID_BYTES), count, [None, text]).cast(pa.string())
