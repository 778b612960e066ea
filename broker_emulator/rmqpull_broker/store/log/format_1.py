"""Records of format version 1, which release 0.1.0 wrote. They are read, but never written.

Four kinds of entries differ: a topic has one number of queues, a group has only a name, messages have no system
properties, and each text of a row follows its length.
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
    """Returns the fact of an entry; None if the current format is the same."""
    if kind == _TOPIC:
        form = json.loads(header)
        queues, topic_type = form["queues"], TopicType(form["type"])
        return TopicPut(TopicConfig(form["name"], queues, queues, topic_type, form["creationId"]))
    if kind == _GROUP:
        return GroupPut(GroupConfig(json.loads(header)))
    if kind == _ROWS:
        return RowsStored(MessageQueue(*json.loads(header)), tuple(_decode_rows(bytes(data))))
    if kind == _COLUMNS:
        parts = tuple(QueuePart(MessageQueue(*queue), first, count) for queue, first, count in json.loads(header))
        batch = pa.ipc.read_record_batch(pa.py_buffer(bytes(data)), _SCHEMA)
        none = pa.array([[]] * batch.num_rows, STORED_SCHEMA.field("systemProperties").type)
        return ColumnsStored(parts, pa.RecordBatch.from_arrays([*batch.columns, none], schema=STORED_SCHEMA))
    return None


def _decode_rows(data: bytes) -> Iterator[StoredMessage]:
    reader = _Reader(data)
    while reader.at < len(data):
        yield _decode_row(reader)


def _decode_row(reader: _Reader) -> StoredMessage:
    queue_offset, store_ms, born_ms, delivery_ms, reconsume_times, encoding = reader.read_struct(_FIXED)
    msg_id, tags, message_group, trace_context, born_host, store_host = (reader.read_text() for _ in range(6))
    message = Message(
        body=reader.read_data() or b"",
        msg_id=msg_id or "",
        tags=tags,
        keys=tuple(reader.read_text() or "" for _ in range(reader.read_length())),
        properties={reader.read_text() or "": reader.read_text() or "" for _ in range(reader.read_length())},
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
        self.at = 0

    def read_struct(self, layout: struct.Struct) -> tuple[int, ...]:
        values = layout.unpack_from(self._data, self.at)
        self.at += layout.size
        return values

    def read_length(self) -> int:
        return self.read_struct(_LENGTH)[0]

    def read_data(self) -> bytes | None:
        length = self.read_length()
        if length < 0:
            return None
        self.at += length
        return self._data[self.at - length : self.at]

    def read_text(self) -> str | None:
        data = self.read_data()
        return None if data is None else data.decode()
