"""A message as RocketMQ stores it: all its properties in one map (rules 3.10.1, 4.8, 6.1), and the size of
its record (rules 4.7), which the byte limit of a pull counts (rules 3.2.2).
"""

from __future__ import annotations

from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import SHARDING_KEY, Message
from rmqpull_broker.core.properties import BrokerProperties

RECORD_BYTES = 91
"""A stored record without body, topic and properties, both hosts being IPv4 and the topic's length one byte."""
_IPV6_BYTES = 12
_SHORT_TOPIC_BYTES = 127
_SEPARATORS = 2
_NOT_RESERVED = {SHARDING_KEY: "messageGroup", "TRACE_CONTEXT": "traceContext"}
"""RocketMQ's own properties, with their columns, that a user may set as well; then the user's value is not stored."""


def same_in_all(broker: BrokerProperties) -> dict[str, str]:
    """What every message of a broker has, so that it is not kept in each."""
    return {
        "MSG_REGION": broker.region_id,
        "TRACE_ON": str(broker.trace_on).lower(),
        "CLUSTER": broker.broker_cluster_name,
    }


def stored_properties(message: Message, broker: BrokerProperties) -> dict[str, str]:
    """Everything that a remoting consumer finds among the properties of a stored message."""
    fields = {
        "TAGS": message.tags,
        "KEYS": " ".join(message.keys) or None,
        "UNIQ_KEY": message.msg_id or None,
        SHARDING_KEY: message.message_group,
        "TRACE_CONTEXT": message.trace_context,
        "TIMER_DELIVER_MS": None if message.delivery_timestamp_ms is None else str(message.delivery_timestamp_ms),
        **same_in_all(broker),
    }
    own = {name: value for name, value in fields.items() if value is not None}
    return {**message.properties, **message.system_properties, **own}


def stored_properties_bytes(message: Message, broker: BrokerProperties) -> int:
    """Length of the properties string: each name and value ends with one byte (rules 4.8)."""
    return sum(_entry_bytes(name, value) for name, value in stored_properties(message, broker).items())


def record_bytes(batch: pa.RecordBatch, topic: str, broker: BrokerProperties) -> pa.Array:
    """Bytes that each message takes as a record in the commit log of Apache's broker (int64).

    ``batch`` has the columns of ``columns.STORED_SCHEMA``; its messages are stored in a queue of ``topic``. This is
    what ``storeSize`` would be, not what a message takes in the commit log of this broker.
    """
    topic_bytes = len(topic.encode())
    fixed = RECORD_BYTES + topic_bytes + (1 if topic_bytes > _SHORT_TOPIC_BYTES else 0)
    fixed += sum(_entry_bytes(name, value) for name, value in same_in_all(broker).items())
    parts = [
        columns.text_bytes(batch, ["body"]),
        *(pc.multiply(_is_ipv6(batch.column(name)), _IPV6_BYTES) for name in ("bornHost", "storeHost")),
        *(columns.map_bytes(batch.column(name), _SEPARATORS) for name in ("properties", "systemProperties")),
        *(_own_bytes(name, batch.column(column)) for name, column in {"TAGS": "tags", **_NOT_RESERVED}.items()),
        _own_bytes("UNIQ_KEY", _filled(batch.column("msgId"))),
        _own_bytes("KEYS", _filled(pc.binary_join(batch.column("keys"), " "))),
        _own_bytes("TIMER_DELIVER_MS", columns.milliseconds_text(batch.column("deliveryTimestamp"))),
    ]
    hidden = [_hidden_bytes(batch, name, column) for name, column in _NOT_RESERVED.items()]
    return reduce(pc.subtract, hidden, pc.add(reduce(pc.add, parts), fixed))


def _entry_bytes(name: str, value: str) -> int:
    return len(name.encode()) + len(value.encode()) + _SEPARATORS


def _own_bytes(name: str, texts: pa.Array) -> pa.Array:
    """What a property takes in each row; nothing where it is missing."""
    return pc.cast(pc.fill_null(pc.add(pc.binary_length(texts), len(name) + _SEPARATORS), 0), pa.int64())


def _is_ipv6(hosts: pa.Array) -> pa.Array:
    """1 for each address, with or without a port, that is IPv6; else 0."""
    return pc.cast(pc.greater(pc.fill_null(pc.count_substring(hosts, ":"), 0), 1), pa.int64())


def _filled(texts: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


def _hidden_bytes(batch: pa.RecordBatch, name: str, column: str) -> pa.Array:
    """What a user's property would take where RocketMQ's own of the same name, in ``column``, is stored instead."""
    users = pc.map_lookup(batch.column("properties"), name, "first")
    is_hidden = pc.is_valid(batch.column(column))
    return pc.if_else(is_hidden, _own_bytes(name, users), pa.scalar(0, pa.int64()))
