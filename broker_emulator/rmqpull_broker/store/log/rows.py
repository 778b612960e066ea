"""The bytes of single messages in a record: their number (int64), and then a row for each message.

A row is a fixed part and its texts. The fixed part has the lengths of the texts (-1 for null)::

    queue offset, store time, born time, delivery time   4 x int64, times in ms, -2^63 for no delivery time
    reconsume times, body encoding                       2 x int32
    lengths of: msg id, tags, message group, trace context, born host, store host, body   7 x int32
    numbers of: keys, properties, system properties      3 x int32
    those seven texts
    each key, and name and value of each property, with its length (int32) before it

A replay of the log turns rows into columns, without a Python object for each, and spends most of its time doing so.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.columns import STORED_SCHEMA
from rmqpull_broker.core.model import BodyEncoding, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import RowsStored

_COUNT = struct.Struct("<q")
_FIXED = struct.Struct("<qqqqii7i3i")
_FIRST = struct.Struct("<qq")
_LENGTH = struct.Struct("<i")
_NO_TIME = -(1 << 63)

Pairs = list[tuple[bytes, bytes]]
_NO_PAIRS: Pairs = []


# In the order of ``STORED_SCHEMA``. Texts are not decoded, times are in milliseconds.
RawRow = tuple[
    int, bytes, bytes | None, list[bytes] | None, bytes, Pairs, int, bytes,
    int, bytes, int, bytes | None, int | None, int, bytes | None, Pairs,
]  # fmt: skip


def encode_rows(rows: Sequence[StoredMessage]) -> bytes:
    """Encodes stored messages."""
    parts = [_COUNT.pack(len(rows))]
    for row in rows:
        _encode_row(parts, row)
    return b"".join(parts)


def _encode_row(parts: list[bytes], row: StoredMessage) -> None:
    message = row.message
    texts = (message.msg_id, message.tags, message.message_group, message.trace_context)
    encoded = [None if text is None else text.encode() for text in (*texts, message.born_host, row.store_host)]
    encoded.append(message.body)
    fixed = _FIXED.pack(
        row.queue_offset,
        row.store_timestamp_ms,
        message.born_timestamp_ms,
        _NO_TIME if message.delivery_timestamp_ms is None else message.delivery_timestamp_ms,
        row.reconsume_times,
        message.body_encoding,
        *(-1 if data is None else len(data) for data in encoded),
        len(message.keys),
        len(message.properties),
        len(message.system_properties),
    )
    parts.append(fixed)
    parts += [data for data in encoded if data]
    listed = [*message.keys]
    for properties in (message.properties, message.system_properties):
        for name, value in properties.items():
            listed += [name, value]
    for data in map(str.encode, listed):
        parts += [_LENGTH.pack(len(data)), data]


def _decode_raw(data: bytes) -> Iterator[RawRow]:
    """Yields the rows in ``data``. Long and without calls, because a replay spends most of its time here."""
    at, end = _COUNT.size, len(data)
    unpack, size = _FIXED.unpack_from, _FIXED.size
    while at < end:
        (
            offset, store_ms, born_ms, delivery_ms, reconsume, encoding,
            msg_id_size, tags_size, group_size, trace_size, born_host_size, store_host_size, body_size,
            key_count, property_count, system_count,
        ) = unpack(data, at)  # fmt: skip
        at += size
        msg_id = data[at : (at := at + msg_id_size)]
        tags = None if tags_size < 0 else data[at : (at := at + tags_size)]
        group = None if group_size < 0 else data[at : (at := at + group_size)]
        trace = None if trace_size < 0 else data[at : (at := at + trace_size)]
        born_host = data[at : (at := at + born_host_size)]
        store_host = data[at : (at := at + store_host_size)]
        body = data[at : (at := at + body_size)]
        keys: list[bytes] | None = None
        properties: Pairs = _NO_PAIRS
        system: Pairs = _NO_PAIRS
        if key_count:
            keys, at = _decode_texts(data, at, key_count)
        if property_count:
            properties, at = _decode_pairs(data, at, property_count)
        if system_count:
            system, at = _decode_pairs(data, at, system_count)
        delivery = None if delivery_ms == _NO_TIME else delivery_ms
        yield (
            offset, msg_id, tags, keys, body, properties, born_ms, born_host,
            store_ms, store_host, reconsume, group, delivery, encoding, trace, system,
        )  # fmt: skip


def _decode_texts(data: bytes, at: int, count: int) -> tuple[list[bytes], int]:
    values = []
    for _ in range(count):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size + length
        values.append(data[at - length : at])
    return values, at


def _decode_pairs(data: bytes, at: int, count: int) -> tuple[Pairs, int]:
    pairs, unpack = [], _LENGTH.unpack_from
    for _ in range(count):
        (size,) = unpack(data, at)
        name = data[at + 4 : (at := at + 4 + size)]
        (size,) = unpack(data, at)
        pairs.append((name, data[at + 4 : (at := at + 4 + size)]))
    return pairs, at


def decode_rows(data: bytes) -> list[StoredMessage]:
    """Decodes stored messages."""
    return [_stored(row) for row in _decode_raw(data)]


def _stored(row: RawRow) -> StoredMessage:
    (
        offset, msg_id, tags, keys, body, properties, born_ms, born_host,
        store_ms, store_host, reconsume_times, group, delivery_ms, encoding, trace, system,
    ) = row  # fmt: skip
    message = Message(
        body=body,
        msg_id=msg_id.decode(),
        tags=_text(tags),
        keys=tuple(key.decode() for key in keys or ()),
        properties={name.decode(): value.decode() for name, value in properties},
        system_properties={name.decode(): value.decode() for name, value in system},
        message_group=_text(group),
        delivery_timestamp_ms=delivery_ms,
        born_timestamp_ms=born_ms,
        born_host=born_host.decode(),
        body_encoding=BodyEncoding(encoding),
        trace_context=_text(trace),
    )
    return StoredMessage(message, offset, store_ms, store_host.decode(), reconsume_times)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def decode_columns(encoded: Iterable[bytes]) -> pa.RecordBatch:
    """Decodes stored messages into columns (``STORED_SCHEMA``)."""
    values = zip(*(row for data in encoded for row in _decode_raw(data)), strict=True)
    arrays = [_column(column, field.type) for column, field in zip(values, STORED_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=STORED_SCHEMA)


def _column(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(data_type):
        return pc.multiply(pa.array(values, pa.int64()), 1000).view(data_type)
    return pa.array(values, data_type)


class LoggedRows(RowsStored):
    """Messages of one or more sends as the log stores them. Objects are made only when ``rows`` is read.

    ``sends`` has the result of :func:`encode_rows` for each send.
    """

    sends: tuple[bytes, ...]

    def __init__(self, queue: MessageQueue, *sends: bytes) -> None:
        vars(self).update(queue=queue, sends=sends)

    @property
    def data(self) -> bytes:
        """All sends as one."""
        if len(self.sends) == 1:
            return self.sends[0]
        return b"".join([_COUNT.pack(self.row_count), *[send[_COUNT.size :] for send in self.sends]])

    @functools.cached_property
    def rows(self) -> tuple[StoredMessage, ...]:
        """The messages as objects."""
        return tuple(decode_rows(self.data))

    @property
    def row_count(self) -> int:
        """The number of messages."""
        return sum(int(_COUNT.unpack_from(send)[0]) for send in self.sends)

    @property
    def first_offset(self) -> int:
        """The queue offset of the first message."""
        return int(_FIRST.unpack_from(self.sends[0], _COUNT.size)[0])

    @property
    def store_timestamp_ms(self) -> int:
        """The store time of the last send."""
        return int(_FIRST.unpack_from(self.sends[-1], _COUNT.size)[1])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowsStored) and (self.queue, self.rows) == (other.queue, other.rows)

    __hash__ = None  # type: ignore[assignment]
