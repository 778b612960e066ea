"""What the attributes of a topic say about the messages that it takes."""

from __future__ import annotations

from typing import NamedTuple

from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.routes import read_topic_attributes

_UNTYPED = frozenset(("NORMAL", "FIFO", "DELAY"))
# Brokers put a message without a priority into a PRIORITY topic as into any other; only proxies refuse it.
_TYPES = {
    "MIXED": frozenset(("NORMAL", "FIFO", "DELAY", "TRANSACTION")),
    "PRIORITY": frozenset(("NORMAL", "PRIORITY")),
}


class TopicAttributes(NamedTuple):
    """The attributes of a topic that matter to a producer."""

    message_types: frozenset[str] = _UNTYPED
    is_compacted: bool = False
    """Whether the topic keeps the newest message of each key. Messages without keys get lost in it."""


NO_ATTRIBUTES = TopicAttributes()
"""Those of all topics of 4.x."""


def read_attributes(settings: bytes | memoryview) -> TopicAttributes:
    """Reads the body of a response to GET_TOPIC_CONFIG. What cannot be read counts as not set."""
    try:
        attributes = read_topic_attributes(settings)
    except WireError:
        return NO_ATTRIBUTES
    name = attributes.get("message.type")
    types = _UNTYPED if name is None else _TYPES.get(name, frozenset((name,)))
    return TopicAttributes(types, attributes.get("cleanup.policy") == "COMPACTION")
