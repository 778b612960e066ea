"""A message's properties as RocketMQ keeps them, all in one map (rocketmq-semantics 3.10.1, 4.8, 6.1)."""

from __future__ import annotations

from rmqpull_broker.core.model import Message
from rmqpull_broker.core.properties import BrokerProperties


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
        "__SHARDINGKEY": message.message_group,
        "TRACE_CONTEXT": message.trace_context,
        "TIMER_DELIVER_MS": None if message.delivery_timestamp_ms is None else str(message.delivery_timestamp_ms),
        **same_in_all(broker),
    }
    own = {name: value for name, value in fields.items() if value is not None}
    return {**message.properties, **message.system_properties, **own}


def stored_properties_bytes(message: Message, broker: BrokerProperties) -> int:
    """Length of the properties string: each name and value ends with one byte (rocketmq-semantics 4.8)."""
    entries = stored_properties(message, broker).items()
    return sum(len(name.encode()) + len(value.encode()) + 2 for name, value in entries)
