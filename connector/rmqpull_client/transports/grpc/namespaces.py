"""Adds the namespace to the names in requests, and removes it from responses. No other module sees it.

The standard protocol has a field for the namespace in each resource. ``rmqpull.v1`` has plain strings, so the namespace
is part of the name (``shop%orders``), as it is in RocketMQ's remoting protocol and in the broker. Both forms mean the
same topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from rmqpull_client.connection import unwrap_name, wrap_name
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

_RESOURCE = v2.Resource.DESCRIPTOR.full_name
_NAME_FIELDS = ("topic", "group", "default_topic")
"""The fields of ``rmqpull.v1`` that hold the name of a topic or group."""

_Request = TypeVar("_Request", bound=Message)


def wrap_request(namespace: str, request: _Request) -> _Request:
    """Returns a copy of the request whose names are in the namespace. Without a namespace it is the request itself."""
    if not namespace:
        return request
    wrapped = type(request)()
    wrapped.CopyFrom(request)
    for message in _messages_in(wrapped):
        if message.DESCRIPTOR.full_name == _RESOURCE:
            message.resource_namespace = namespace  # type: ignore[attr-defined]
    _rename(wrapped, lambda name: wrap_name(namespace, name))
    return wrapped


def unwrap_response(namespace: str, response: Any) -> Any:
    """Returns the response with names without the namespace. Responses in columns have no names."""
    if namespace and isinstance(response, Message):
        _rename(response, lambda name: unwrap_name(namespace, name) or name)
    return response


def _rename(message: Message, rename: Callable[[str], str]) -> None:
    for part in _messages_in(message):
        for field in part.DESCRIPTOR.fields:
            if field.name in _NAME_FIELDS and field.type == FieldDescriptor.TYPE_STRING and getattr(part, field.name):
                setattr(part, field.name, rename(getattr(part, field.name)))


def _messages_in(message: Message) -> Iterator[Message]:
    """Yields a message and all messages within it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [value] if isinstance(value, Message) else value:
                yield from _messages_in(part)
