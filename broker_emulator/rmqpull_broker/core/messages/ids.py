"""Ids for messages without one, in the form of the clients (rules 5.17), made a batch at a time."""

from __future__ import annotations

import struct
from functools import cache

import pyarrow as pa

from rmqpull_broker.core.messages.columns import share_offset_column

ID_BYTES = 17
_EPOCH_2021_S = 1_609_459_200
_PREFIX = struct.Struct(">B6sHI")
_SEQUENCE = struct.Struct(">I")
_HEX = b"0123456789ABCDEF"
_RUN_DIGITS = 4
_RUN = 1 << 4 * _RUN_DIGITS
"""How many ids differ only in their last digits."""


@cache
def _list_digits(place: int) -> bytes:
    """Returns one hex digit of each number below ``_RUN``: the last one for place 0."""
    repeats = 1 << 4 * place
    return b"".join(_HEX[digit : digit + 1] * repeats for digit in range(16)) * (_RUN // (16 * repeats))


def _write_run(prefix: bytes, begin: int, end: int) -> bytearray:
    """Writes the ids of consecutive sequence numbers, of which only the last digits differ."""
    texts = bytearray((prefix + _SEQUENCE.pack(begin & 0xFFFFFFFF)).hex().upper().encode()) * (end - begin)
    first = begin % _RUN
    for place in range(_RUN_DIGITS):
        texts[2 * ID_BYTES - 1 - place :: 2 * ID_BYTES] = _list_digits(place)[first : first + end - begin]
    return texts


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
        begin, self._sequence = self._sequence, self._sequence + count
        prefix, runs = self._make_prefix(now_ms), []
        while begin < self._sequence:
            end = min(self._sequence, (begin // _RUN + 1) * _RUN)
            runs.append(_write_run(prefix, begin, end))
            begin = end
        text = pa.py_buffer(runs[0] if len(runs) == 1 else b"".join(runs))
        offsets = share_offset_column(count + 1, 2 * ID_BYTES, pa.int32())
        return pa.Array.from_buffers(pa.string(), count, [None, offsets.buffers()[1], text], 0)

    def _make_prefix(self, now_ms: int) -> bytes:
        seconds = (now_ms // 1000 - _EPOCH_2021_S) & 0xFFFFFFFF
        return _PREFIX.pack(1, self._node, self._process_id, seconds)
