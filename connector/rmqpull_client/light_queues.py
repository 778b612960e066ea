"""The names of light message queues and of lite topics, and the topic whose route leads to them (rules 3.18). Pure."""

from __future__ import annotations

import re

from rmqpull_client.connection import Connection, wrap_name
from rmqpull_client.errors import OptionError

LIGHT_PREFIX = "%LMQ%"
"""How the names of light message queues begin."""
_LITE_PREFIX = "%LMQ%$"
_LIGHT = re.compile(r"%LMQ%[!-+\--.0-~]{1,240}")  # it names a folder, and commas separate such names
_LITE = re.compile(r"%LMQ%\$([%|a-zA-Z0-9_-]{1,127})\$([a-zA-Z0-9_-]{1,64})")
_LITE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def is_light(topic: str) -> bool:
    """Whether a topic is a light message queue. The queues of lite topics are, too."""
    return topic.startswith(LIGHT_PREFIX)


def name_light(topic: str) -> str | None:
    """Returns the topic if it is a light message queue, or else None."""
    return topic if is_light(topic) else None


def is_legal(topic: str) -> bool:
    """Whether a light message queue may have this name."""
    return (_LITE if topic.startswith(_LITE_PREFIX) else _LIGHT).fullmatch(topic) is not None


def is_lite_name(text: str) -> bool:
    """Whether a lite topic may have this name within its parent topic."""
    return _LITE_NAME.fullmatch(text) is not None


def name_lite_topic(parent_topic: str, lite_topic: str) -> str:
    """Returns the light message queue with the messages of a lite topic."""
    return f"{_LITE_PREFIX}{parent_topic}${lite_topic}"


def find_parent(topic: str) -> str | None:
    """Returns the parent topic in the name of a lite topic's queue, or None for a name without one."""
    match = _LITE.fullmatch(topic)
    return match[1] if match else None


def find_route_topic(connection: Connection, topic: str) -> str:
    """Returns the topic whose route leads to the brokers of ``topic``, by its name on the broker.

    That is the topic itself, or the parent topic of a light message queue, which has no route of its own. Raises
    OptionError if the parent topic is not known, and for a connection with a namespace.
    """
    if not is_light(topic):
        return wrap_name(connection.namespace, topic)
    if connection.namespace:
        raise OptionError(
            f"Topic {topic} is a light message queue, which cannot be in a namespace: RocketMQ would put "
            f"{connection.namespace}% before its name, and it would no longer be a light message queue. Remove option "
            "namespace."
        )
    if parent := find_parent(topic) or connection.parent_topic:
        return parent
    raise OptionError(
        f"Topic {topic} is a light message queue, which has no route of its own. Name the topic that its messages are "
        "sent to with option parentTopic."
    )
