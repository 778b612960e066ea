"""The bytes of single messages in a record.

Each row is a fixed part and then texts, each with its length before it (signed 32 bits, -1 for null)::

    queue offset, store time, born time, delivery time   4 x int64, times in ms, -2^63 for no delivery time
    reconsume times, body encoding                       2 x int32
    msg id, tags, message group, trace context, born host, store host, body
    number of keys (int32), keys
    number of properties (int32), name and value of each; the same again for system properties
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence

from rmqpull_broker.core.model import BodyEncoding, Message, StoredMessage

_FIXED = struct.Struct("<qqqqii")
_LENGTH = struct.Struct("<i")
_NO_TIME = -(1 << 63)


def encode_rows(rows: Sequence[StoredMessage]) -> bytes:
    """Stored messages as bytes."""
    out = bytearray()
    for row in rows:
        _encode_row(out, row)
    return bytes(out)


def _encode_row(out: bytearray, row: StoredMessage) -> None:
    message = row.message
    delivery_ms = _NO_TIME if message.delivery_timestamp_ms is None else message.delivery_timestamp_ms
    out += _FIXED.pack(
        row.queue_offset,
        row.store_timestamp_ms,
        message.born_timestamp_ms,
        delivery_ms,
        row.reconsume_times,
        message.body_encoding,
    )
    texts = (message.msg_id, message.tags, message.message_group, message.trace_context)
    for text in (*texts, message.born_host, row.store_host):
        _put(out, None if text is None else text.encode())
    _put(out, message.body)
    out += _LENGTH.pack(len(message.keys))
    for key in message.keys:
        _put(out, key.encode())
    for properties in (message.properties, message.system_properties):
        out += _LENGTH.pack(len(properties))
        for name, value in properties.items():
            _put(out, name.encode())
            _put(out, value.encode())


def _put(out: bytearray, data: bytes | None) -> None:
    out += _LENGTH.pack(-1 if data is None else len(data))
    out += data or b""


def decode_rows(data: memoryview) -> Iterator[StoredMessage]:
    """The stored messages in ``data``, which passed its record's checksum."""
    reader = _Reader(data)
    while not reader.at_end:
        yield _decode_row(reader)


def _decode_row(reader: _Reader) -> StoredMessage:
    queue_offset, store_ms, born_ms, delivery_ms, reconsume_times, body_encoding = reader.fixed()
    msg_id, tags, message_group, trace_context, born_host, store_host = (reader.text() for _ in range(6))
    body = reader.data() or b""
    message = Message(
        body=body,
        msg_id=msg_id or "",
        tags=tags,
        keys=tuple(reader.text() or "" for _ in range(reader.length())),
        properties=reader.properties(),
        system_properties=reader.properties(),
        message_group=message_group,
        delivery_timestamp_ms=None if delivery_ms == _NO_TIME else delivery_ms,
        born_timestamp_ms=born_ms,
        born_host=born_host or "",
        body_encoding=BodyEncoding(body_encoding),
        trace_context=trace_context,
    )
    return StoredMessage(message, queue_offset, store_ms, store_host or "", reconsume_times)


class _Reader:
    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._place >= len(self._data)

    def fixed(self) -> tuple[int, ...]:
        values = _FIXED.unpack_from(self._data, self._place)
        self._place += _FIXED.size
        return values

    def length(self) -> int:
        (value,) = _LENGTH.unpack_from(self._data, self._place)
        self._place += _LENGTH.size
        return int(value)

    def data(self) -> bytes | None:
        length = self.length()
        if length < 0:
            return None
        self._place += length
        return bytes(self._data[self._place - length : self._place])

    def text(self) -> str | None:
        data = self.data()
        return None if data is None else data.decode()

    def properties(self) -> dict[str, str]:
        return {self.text() or "": self.text() or "" for _ in range(self.length())}
