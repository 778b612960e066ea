"""Ids for messages without one, in the form of the clients (rules 5.17), made a batch at a time."""

from __future__ import annotations

import struct

import pyarrow as pa

from rmqpull_broker.core.messages.columns import make_offset_column

ID_BYTES = 17
_EPOCH_2021_S = 1_609_459_200
_PREFIX = struct.Struct(">B6sHI")
_SEQUENCE = struct.Struct(">I")


class MessageIds:
    """Makes ids that never repeat if ``node`` (6 random bytes) is new in every process."""

    def __init__(self, node: bytes, process_id: int) -> None:
        self._node = node
        self._process_id = process_id & 0xFFFF
        self._sequence = 0

    def take_one(self, now_ms: int) -> str:
        """Returns one new id, without Arrow."""
        self._sequence += 1
        return (self._make_prefix(now_ms) + _SEQUENCE.pack((self._sequence - 1) & 0xFFFFFFFF)).hex().upper()

    def take(self, count: int, now_ms: int) -> pa.Array:
        """Returns ``count`` new ids as a string column, each of 34 upper-case hex characters.

        An id is version, node, process, seconds since 2021 and sequence. All ids are written into one buffer, so that
        none needs a Python object.
        """
        ids = bytearray(self._make_prefix(now_ms) + bytes(_SEQUENCE.size)) * count
        sequence = make_offset_column(self._sequence, count).buffers()[1].to_pybytes()
        self._sequence += count
        for byte in range(4):  # the low four of each little-endian int64
            ids[ID_BYTES - 1 - byte :: ID_BYTES] = sequence[byte::8]
        text = pa.py_buffer(ids.hex().upper().encode())
        return pa.Array.from_buffers(pa.binary(2 * ID_BYTES), count, [None, text]).cast(pa.string())

    def _make_prefix(self, now_ms: int) -> bytes:
        seconds = (now_ms // 1000 - _EPOCH_2021_S) & 0xFFFFFFFF
        return _PREFIX.pack(1, self._node, self._process_id, seconds)
