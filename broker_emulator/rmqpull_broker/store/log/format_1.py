"""Records of format version 1, which release 0.1.0 wrote: read, and never written.

They differ in four kinds of entries: a topic has one number of queues, a group nothing but a name, messages
have no system properties, and each text of a row has its length before it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator

import pyarrow as pa

from rmqpull_broker.core.messages.columns import STORED_SCHEMA
from rmqpull_broker.core.model import (
    BodyEncoding,
    GroupConfig,
    Message,
    MessageQueue,
    StoredMessage,
    TopicConfig,
    TopicType,
)
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, GroupPut, QueuePart, RowsStored, TopicPut

VERSION = 1

_SCHEMA = STORED_SCHEMA.remove(STORED_SCHEMA.get_field_index("systemProperties"))
_TOPIC, _GROUP, _ROWS, _COLUMNS = range(1, 5)
_FIXED = struct.Struct("<qqqqii")
_LENGTH = struct.Struct("<i")
_NO_TIME = -(1 << 63)


def decode_entry(kind: int, header: bytes, data: memoryview) -> Fact | None:
    """The fact of an entry; None when it is written today as it was then."""
    if kind == _TOPIC:
        form = json.loads(header)
        queues, topic_type = form["queues"], TopicType(form["type"])
        return TopicPut(TopicConfig(form["name"], queues, queues, topic_type, form["creationId"]))
    if kind == _GROUP:
        return GroupPut(GroupConfig(json.loads(header)))
    if kind == _ROWS:
        return RowsStored(MessageQueue(*json.loads(header)), tuple(_rows(bytes(data))))
    if kind == _COLUMNS:
        parts = tuple(QueuePart(MessageQueue(*queue), first, count) for queue, first, count in json.loads(header))
        batch = pa.ipc.read_record_batch(pa.py_buffer(bytes(data)), _SCHEMA)
        none = pa.array([[]] * batch.num_rows, STORED_SCHEMA.field("systemProperties").type)
        return ColumnsStored(parts, pa.RecordBatch.from_arrays([*batch.columns, none], schema=STORED_SCHEMA))
    return None


def _rows(data: bytes) -> Iterator[StoredMessage]:
    reader = _Reader(data)
    while reader.place < len(data):
        yield _row(reader)


def _row(reader: _Reader) -> StoredMessage:
    queue_offset, store_ms, born_ms, delivery_ms, reconsume_times, encoding = reader.unpack(_FIXED)
    msg_id, tags, message_group, trace_context, born_host, store_host = (reader.text() for _ in range(6))
    message = Message(
        body=reader.data() or b"",
        msg_id=msg_id or "",
        tags=tags,
        keys=tuple(reader.text() or "" for _ in range(reader.length())),
        properties={reader.text() or "": reader.text() or "" for _ in range(reader.length())},
        message_group=message_group,
        delivery_timestamp_ms=None if delivery_ms == _NO_TIME else delivery_ms,
        born_timestamp_ms=born_ms,
        born_host=born_host or "",
        body_encoding=BodyEncoding(encoding),
        trace_context=trace_context,
    )
    return StoredMessage(message, queue_offset, store_ms, store_host or "", reconsume_times)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self.place = 0

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self.place)
        self.place += layout.size
        return values

    def length(self) -> int:
        return self.unpack(_LENGTH)[0]

    def data(self) -> bytes | None:
        length = self.length()
        if length < 0:
            return None
        self.place += length
        return self._data[self.place - length : self.place]

    def text(self) -> str | None:
        data = self.data()
        return None if data is None else data.decode()
