"""Messages of the standard protocol as columns of ``PULLABLE_SCHEMA``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

_ROCKETMQS_OWN = frozenset(
    ("CHECK_IMMUNITY_TIME_IN_SECONDS", "TRANSACTION_CHECK_TIMES", "__transactionId__", "TRACE_CONTEXT")
)
"""Properties that RocketMQ writes but does not reserve. They come among the user's properties (rules 5.11, 5.12.1)."""


def make_batch(messages: Sequence[v2.Message], columns: Sequence[str]) -> pa.RecordBatch:
    """One row per message with the named columns; the pull schema when none is named."""
    schema = wire.pulled_schema(columns)
    arrays = [pa.array([_VALUES[field.name](message) for message in messages], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _optional(field: str) -> Callable[[v2.Message], Any]:
    def value(message: v2.Message) -> Any:
        system = message.system_properties
        return getattr(system, field) if system.HasField(field) else None

    return value


def _time(field: str) -> Callable[[v2.Message], int | None]:
    def value(message: v2.Message) -> int | None:
        system = message.system_properties
        return getattr(system, field).ToMicroseconds() if system.HasField(field) else None

    return value


def _keys(message: v2.Message) -> list[str] | None:
    return list(message.system_properties.keys) or None


def _properties(message: v2.Message) -> list[tuple[str, str]]:
    # A message group comes among the user's properties as well (rules 6.2); it has a column of its own.
    foreign = _ROCKETMQS_OWN | {"__SHARDINGKEY"}
    return [(name, value) for name, value in message.user_properties.items() if name not in foreign]


def _system_properties(message: v2.Message) -> list[tuple[str, str]]:
    """Those that the protocol has: it withholds the reserved ones that have no field (rules 5.12.1)."""
    system = message.system_properties
    own = {name: value for name, value in message.user_properties.items() if name in _ROCKETMQS_OWN}
    if system.HasField("trace_context"):
        own["TRACE_CONTEXT"] = system.trace_context
    if system.HasField("dead_letter_queue"):
        own["DLQ_ORIGIN_TOPIC"] = system.dead_letter_queue.topic
        own["DLQ_ORIGIN_MESSAGE_ID"] = system.dead_letter_queue.message_id
    return list(own.items())


def _reconsume_times(message: v2.Message) -> int:
    # The first delivery is attempt 1 (rules 5.12.1).
    return max(0, message.system_properties.delivery_attempt - 1)


_VALUES: Mapping[str, Callable[[v2.Message], Any]] = {
    "queueOffset": lambda message: message.system_properties.queue_offset,
    "msgId": lambda message: message.system_properties.message_id,
    "tags": _optional("tag"),
    "keys": _keys,
    "body": lambda message: message.body,
    "properties": _properties,
    "systemProperties": _system_properties,
    "bornTimestamp": _time("born_timestamp"),
    "bornHost": lambda message: message.system_properties.born_host,
    "storeTimestamp": _time("store_timestamp"),
    "storeHost": lambda message: message.system_properties.store_host,
    "reconsumeTimes": _reconsume_times,
    "messageGroup": _optional("message_group"),
    "deliveryTimestamp": _time("delivery_timestamp"),
    "bodyEncoding": lambda message: message.system_properties.body_encoding,
}
