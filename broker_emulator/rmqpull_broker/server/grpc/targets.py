"""What a call is about: finds the topics, queues and group in a request, and the faults of a call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message

from rmqpull_broker.core.admin.fault_rules import NO_FAULTS, CallFaults, Target
from rmqpull_broker.server.fault_names import RPCS
from rmqpull_broker.server.grpc.wire.codec import name_from
from rmqpull_broker.server.runtime.faults import Faults


def match_faults(faults: Faults, rpc_name: str, client_id: str, request: Any | None) -> CallFaults:
    """Finds and counts the faults of a call; ``request`` is None for a stream of requests."""
    if not faults.is_armed or rpc_name not in RPCS:
        return NO_FAULTS
    if request is None:
        return faults.match(rpc_name, client_id, (), is_endless=True)
    return faults.match(rpc_name, client_id, dict.fromkeys(find_targets(request)), find_group(request))


def find_group(request: Any) -> str:
    """Finds the consumer group that a request names; an empty text if it names none."""
    field = request.DESCRIPTOR.fields_by_name.get("group")
    if field is None:
        return ""
    return str(request.group if field.message_type is None else name_from(request.group))


def find_targets(message: Any) -> Iterator[Target]:
    """Finds the topics and queues in a request, at any depth, in the forms of both protocols."""
    kind = message.DESCRIPTOR.full_name
    if kind == "apache.rocketmq.v2.MessageQueue":
        yield Target(name_from(message.topic), message.broker.name or None, message.id)
        return
    if kind == "rmqpull.v1.Queue":
        yield Target(message.topic, message.broker_name or None, message.queue_id)
        return
    for field, value in message.ListFields():
        if field.name == "topic":
            yield Target(value if field.message_type is None else name_from(value))
        elif isinstance(value, Message):
            yield from find_targets(value)
        elif field.message_type is not None:
            # A map of strings iterates over its keys.
            for part in value:
                if isinstance(part, Message):
                    yield from find_targets(part)
