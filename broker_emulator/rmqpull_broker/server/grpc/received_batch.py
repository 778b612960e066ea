"""A large request with a batch in columns, whose batch is a view of the received bytes.

A protobuf message would copy the batch when it is parsed, and again each time that somebody reads the field.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import Message

from rmqpull_broker.server.grpc.wire_fields import walk_fields

_LENGTH_DELIMITED = 2


class ReceivedBatch:
    """A request in place of its message: it has the same fields, and ``arrow_ipc`` is a view."""

    __slots__ = ("_message", "arrow_ipc")

    def __init__(self, message: Message, arrow_ipc: memoryview) -> None:
        self._message = message
        self.arrow_ipc = arrow_ipc

    def __getattr__(self, name: str) -> Any:
        return getattr(self._message, name)


def read_batch(data: bytes, kind: type[Message], number: int) -> ReceivedBatch | Message:
    """Parses a request. ``number`` is that of its field ``arrow_ipc``, below 16.

    Returns a message if the request has no such field, or spells it as no encoder does. Raises DecodeError.
    """
    tag, at = number << 3 | _LENGTH_DELIMITED, 0
    whole, others = memoryview(data), list[memoryview]()
    batch: memoryview | None = None
    for _, begin, end in walk_fields(data, 0, len(data)):
        if data[at] == tag:
            batch = whole[begin:end]  # of several, the last one counts, as for protobuf
        else:
            others.append(whole[at:end])
        at = end
    message: Any = kind.FromString(b"".join(others))
    if batch is None or message.arrow_ipc:
        return kind.FromString(data)
    return ReceivedBatch(message, batch)
