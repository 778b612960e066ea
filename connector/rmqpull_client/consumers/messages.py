"""Messages as objects, made only for what a poll returns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pyarrow as pa

from rmqpull_client.model import MessageQueue


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message from a queue. What was not read, or what the message does not have, is None or empty.

    ``body_encoding`` is 1 for a body that is not compressed: see ``rmqpull_proto.columns.BODY_ENCODINGS``.
    """

    queue: MessageQueue
    queue_offset: int
    body: bytes = b""
    msg_id: str | None = None
    tags: str | None = None
    keys: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    born_timestamp: datetime | None = None
    born_host: str | None = None
    store_timestamp: datetime | None = None
    store_host: str | None = None
    reconsume_times: int | None = None
    message_group: str | None = None
    delivery_timestamp: datetime | None = None
    body_encoding: int | None = None
    system_properties: Mapping[str, str] = field(default_factory=dict)


_FIELDS = {
    "queueOffset": "queue_offset",
    "body": "body",
    "msgId": "msg_id",
    "tags": "tags",
    "keys": "keys",
    "properties": "properties",
    "bornTimestamp": "born_timestamp",
    "bornHost": "born_host",
    "storeTimestamp": "store_timestamp",
    "storeHost": "store_host",
    "reconsumeTimes": "reconsume_times",
    "messageGroup": "message_group",
    "deliveryTimestamp": "delivery_timestamp",
    "bodyEncoding": "body_encoding",
    "systemProperties": "system_properties",
}


def make_messages(queue: MessageQueue, batch: pa.RecordBatch) -> list[ReceivedMessage]:
    """Makes an object of each row."""
    names = [_FIELDS[name] for name in batch.schema.names]
    columns = [_to_values(name, column) for name, column in zip(names, batch.columns, strict=True)]
    return [ReceivedMessage(queue, **dict(zip(names, row, strict=True))) for row in zip(*columns, strict=True)]


def _to_values(name: str, column: pa.Array) -> list[Any]:
    values: list[Any] = column.to_pylist()
    if name in ("properties", "system_properties"):
        return [dict(value or ()) for value in values]
    if name == "keys":
        return [value or () for value in values]
    return values
