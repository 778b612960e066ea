"""Messages, subscriptions and configurations of Apache's client, from and to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rocketmq import ClientConfiguration, Credentials, FilterExpression, Message
from rocketmq.grpc_protocol import FilterType

Request = Mapping[str, Any]
"""A call with its fields."""


class Unsupported(Exception):
    """A client has no such call."""


class Client(Protocol):
    """One client."""

    def call(self, call: str, request: Request) -> Any:
        """Returns the result of a call. Raises Unsupported, and what the library raises."""

    def close(self) -> None:
        """Ends the client as its users do."""


def configure(request: Request) -> Any:
    """Returns the configuration of a client, without access keys."""
    return ClientConfiguration(request["endpoints"], Credentials())


def to_seconds(ms: int) -> int:
    """Returns whole seconds: the library takes nothing else. Raises ValueError."""
    if ms % 1_000:
        raise ValueError(f"{ms} ms is not a whole number of seconds")
    return ms // 1_000


def build_message(request: Request, body: str) -> Any:
    """Returns the message that a request describes by topic, tag, keys, messageGroup, deliveryMs, properties."""
    message = Message()
    message.topic = request["topic"]
    message.body = body.encode()
    for field, name in _FIELDS.items():
        if request.get(field) is not None:
            setattr(message, name, request[field])
    if request.get("deliveryMs") is not None:
        message.delivery_timestamp = -(-request["deliveryMs"] // 1_000)  # it takes whole seconds
    for key in request.get("keys", ()):
        message.keys = key  # it adds one
    for key, value in request.get("properties", {}).items():
        message.add_property(key, value)
    return message


_FIELDS = {
    "tag": "tag",
    "messageGroup": "message_group",
    "priority": "priority",
    "liteTopic": "lite_topic",
}


def write_message(message: Any) -> dict[str, Any]:
    """Returns a message as the client shows it. It does not show the queue offset."""
    return {
        "messageId": message.message_id,
        "topic": message.topic,
        "body": message.body.decode(),
        "tag": message.tag,
        "keys": sorted(message.keys),
        "messageGroup": message.message_group,
        "properties": dict(sorted(message.properties.items())),
        "attempt": message.delivery_attempt,
        "handle": message.receipt_handle,
        "corrupted": message.corrupted,
    }


def read_subscriptions(request: Request) -> dict[str, Any]:
    """Returns the subscriptions of a request: {topic: expression}, which are SQL if it has "sql"."""
    return {topic: make_filter(request, expression) for topic, expression in request["subscriptions"].items()}


def make_filter(request: Request, expression: str) -> Any:
    """Returns a filter expression of SQL92 if the request has "sql", and of TAG otherwise."""
    return FilterExpression(expression, FilterType.SQL if request.get("sql") else FilterType.TAG)
