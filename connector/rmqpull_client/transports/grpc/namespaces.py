"""Namespaces on the wire. The rest of the connector knows plain names alone.

The standard protocol has a field for them in each resource. ``rmqpull.v1`` has strings, in which the namespace stands
before the name, as in RocketMQ's remoting protocol and in the names that the broker keeps: both reach the same topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from rmqpull_client.connection import unwrap_name, wrap_name
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

_RESOURCE = v2.Resource.DESCRIPTOR.full_name
_NAMED = ("topic", "group", "default_topic")
"""Fields of ``rmqpull.v1`` that name a topic or a group."""

_Request = TypeVar("_Request", bound=Message)


def wrap_request(namespace: str, request: _Request) -> _Request:
    """The request with its names in the namespace. The one that was given stays what it is, to be sent again."""
    if not namespace:
        return request
    entered = type(request)()
    entered.CopyFrom(request)
    for message in _messages(entered):
        if message.DESCRIPTOR.full_name == _RESOURCE:
            message.resource_namespace = namespace  # type: ignore[attr-defined]
    _rename(entered, lambda name: wrap_name(namespace, name))
    return entered


def unwrap_response(namespace: str, answer: Any) -> Any:
    """The answer with plain names, where it says any. What is no message is one of columns, which names nothing."""
    if namespace and isinstance(answer, Message):
        _rename(answer, lambda name: unwrap_name(namespace, name) or name)
    return answer


def _rename(message: Message, rename: Callable[[str], str]) -> None:
    for part in _messages(message):
        for field in part.DESCRIPTOR.fields:
            if field.name in _NAMED and field.type == FieldDescriptor.TYPE_STRING and getattr(part, field.name):
                setattr(part, field.name, rename(getattr(part, field.name)))


def _messages(message: Message) -> Iterator[Message]:
    """A message and all that are in it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [value] if isinstance(value, Message) else value:
                yield from _messages(part)
