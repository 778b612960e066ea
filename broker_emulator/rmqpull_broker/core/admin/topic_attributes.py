"""Changes of a topic's attributes, as administrators write them (rules 3.9.1).

    +message.type=FIFO    sets an attribute
    -message.type         removes it, which is possible on an existing topic only

Of Apache's attributes, this broker has only ``message.type``.
"""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.core.errors import InternalError
from rmqpull_broker.core.model import TopicConfig, TopicType

MESSAGE_TYPE = "message.type"
_TYPES_OF_APACHE = "[UNSPECIFIED, MIXED, TRANSACTION, PRIORITY, FIFO, DELAY, LITE, NORMAL]"
_NOT_EMULATED = ("LITE",)


def parse_changes(text: str) -> dict[str, str]:
    """Reads changes with commas between them. Raises InternalError, as Apache's broker does (SYSTEM_ERROR)."""
    changes: dict[str, str] = {}
    for change in filter(None, text.split(",")):
        name, equals, value = change.partition("=")
        if equals and "+" not in name:
            raise InternalError(f"add/alter attribute format is wrong: {name}")
        if not equals and "-" not in name:
            raise InternalError(f"delete attribute format is wrong: {name}")
        if name in changes:
            raise InternalError(f"key duplication: {name}")
        changes[name] = value
    return changes


def find_topic_type(changes: Mapping[str, str], existing: TopicConfig | None) -> TopicType:
    """Returns the type of a topic after the changes. Without any, a topic keeps its type. Raises InternalError."""
    topic_type = TopicType.NORMAL if existing is None else existing.topic_type
    for change, value in changes.items():
        sign, name = change[:1], change[1:]
        if sign != "+" and existing is None:
            raise InternalError(f"only add attribute is supported while creating topic. key: {name}")
        if sign not in ("+", "-"):
            raise InternalError(f"wrong format key: {name}")
        if name != MESSAGE_TYPE:
            raise InternalError(f"unsupported key: {name}")
        topic_type = TopicType.NORMAL if sign == "-" else _parse_type(value)
    return topic_type


def _parse_type(name: str) -> TopicType:
    if name in _NOT_EMULATED:
        raise InternalError(f"topics of type {name} are not emulated")
    try:
        return TopicType(name)
    except ValueError:
        raise InternalError(f"value is not in set: {_TYPES_OF_APACHE}") from None


def list_attributes(topic: TopicConfig) -> dict[str, str]:
    """Returns the attributes of a topic. A NORMAL topic has none."""
    return {} if topic.topic_type is TopicType.NORMAL else {MESSAGE_TYPE: topic.topic_type.value}
