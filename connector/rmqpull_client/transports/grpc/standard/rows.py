"""Converts messages of the standard protocol to columns of ``PULLABLE_SCHEMA``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.remoting import properties as names

_OWN_AMONG_USERS = names.OWN - {names.SHARDING_KEY}
"""RocketMQ's own properties that arrive among the user's (rules 5.11, 5.12.1). The message group has a column."""


def make_batch(messages: Sequence[v2.Message], columns: Sequence[str]) -> pa.RecordBatch:
    """Returns one row per message, with the named columns, or those of the pull schema if none is named."""
    schema = wire.select_pulled(columns)
    arrays = [pa.array([_READERS[field.name](message) for message in messages], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _read_optional(field: str) -> Callable[[v2.Message], Any]:
    def value(message: v2.Message) -> Any:
        system = message.system_properties
        return getattr(system, field) if system.HasField(field) else None

    return value


def _read_time(field: str) -> Callable[[v2.Message], int | None]:
    def value(message: v2.Message) -> int | None:
        system = message.system_properties
        return getattr(system, field).ToMicroseconds() if system.HasField(field) else None

    return value


def _read_keys(message: v2.Message) -> list[str] | None:
    return list(message.system_properties.keys) or None


def _read_properties(message: v2.Message) -> list[tuple[str, str]]:
    # The proxy puts RocketMQ's own properties, such as the message group, among the user's (rules 6.2).
    return [(name, value) for name, value in message.user_properties.items() if name not in names.OWN]


def _read_system_properties(message: v2.Message) -> list[tuple[str, str]]:
    """Returns the system properties that the protocol has. It does not carry other reserved ones (rules 5.12.1)."""
    system = message.system_properties
    own = {name: value for name, value in message.user_properties.items() if name in _OWN_AMONG_USERS}
    if system.HasField("trace_context"):
        own[names.TRACE_CONTEXT] = system.trace_context
    if system.HasField("priority"):
        own[names.PRIORITY] = str(system.priority)
    if system.HasField("lite_topic"):
        own[names.LITE_TOPIC] = system.lite_topic
    if system.HasField("dead_letter_queue"):
        own[names.DLQ_ORIGIN_TOPIC] = system.dead_letter_queue.topic
        own[names.DLQ_ORIGIN_MESSAGE_ID] = system.dead_letter_queue.message_id
    return list(own.items())


def _read_reconsume_times(message: v2.Message) -> int:
    # The proxy counts deliveries from 1, brokers count retries (rules 5.12.1).
    return max(0, message.system_properties.delivery_attempt - 1)


_READERS: Mapping[str, Callable[[v2.Message], Any]] = {
    "queueOffset": lambda message: message.system_properties.queue_offset,
    "msgId": lambda message: message.system_properties.message_id,
    "tags": _read_optional("tag"),
    "keys": _read_keys,
    "body": lambda message: message.body,
    "properties": _read_properties,
    "systemProperties": _read_system_properties,
    "bornTimestamp": _read_time("born_timestamp"),
    "bornHost": lambda message: message.system_properties.born_host,
    "storeTimestamp": _read_time("store_timestamp"),
    "storeHost": lambda message: message.system_properties.store_host,
    "reconsumeTimes": _read_reconsume_times,
    "messageGroup": _read_optional("message_group"),
    "deliveryTimestamp": _read_time("delivery_timestamp"),
    "bodyEncoding": lambda message: message.system_properties.body_encoding,
}
