"""Checks of single messages before they are stored (rocketmq-semantics 5.11, rows 4 to 15): no Arrow for a single send.

The rules and their order are those of ``column_checks``, and a rule is looked for in all messages before the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from rmqpull_broker.core import limits, refusals
from rmqpull_broker.core.model import Message, TopicType

_has_control = re.compile(limits.CONTROL_CHARACTERS).search


def check_rows(messages: Sequence[Message], topic_type: TopicType) -> None:
    """Raises the error of the first rule that some message breaks."""
    for rule in _RULES:
        for message in messages:
            rule(message)
    for message in messages:
        if message.topic_type is not topic_type:
            raise refusals.wrong_type(topic_type, message.topic_type)


def _check_body(message: Message) -> None:
    if not message.body:
        raise refusals.empty_body()
    if len(message.body) > limits.BODY_BYTES_MAX:
        raise refusals.large_body()


def _check_properties(message: Message) -> None:
    if len(message.properties) > limits.USER_PROPERTIES_MAX:
        raise refusals.many_properties()
    for key in message.properties:
        if key in limits.RESERVED_PROPERTY_KEYS:
            raise refusals.reserved_property(key)
    for key, value in message.properties.items():
        if _has_control(key) or _has_control(value):
            raise refusals.control_in_property(key)


def _check_tag(message: Message) -> None:
    if message.tags is None:
        return
    if not message.tags.strip():
        raise refusals.blank_tag()
    if "|" in message.tags:
        raise refusals.bar_in_tag()
    if _has_control(message.tags):
        raise refusals.control_in_tag()


def _check_keys(message: Message) -> None:
    for key in message.keys:
        if not key.strip():
            raise refusals.blank_key()
        if _has_control(key):
            raise refusals.control_in_key()


def _check_size(message: Message) -> None:
    texts = (message.tags, *message.keys, *message.properties, *message.properties.values())
    if _bytes(texts) > limits.PROPERTIES_BYTES_MAX:
        raise refusals.large_properties()


def _check_msg_id(message: Message) -> None:
    if not message.msg_id.strip():
        raise refusals.no_id()


def _check_group(message: Message) -> None:
    group = message.message_group
    if group is None:
        return
    if not group.strip():
        raise refusals.blank_group()
    if _bytes([group]) > limits.MESSAGE_GROUP_BYTES_MAX:
        raise refusals.long_group()
    if _has_control(group):
        raise refusals.control_in_group()


def _check_stored_properties(message: Message) -> None:
    texts = (message.msg_id, message.tags, message.message_group, message.trace_context, message.born_host)
    if _bytes(texts) > limits.STORED_PROPERTIES_BYTES_MAX:
        raise refusals.large_stored_properties()


def _check_times(message: Message) -> None:
    first_ms, last_ms = limits.TIMES_MS
    times = {"bornTimestamp": message.born_timestamp_ms, "deliveryTimestamp": message.delivery_timestamp_ms}
    for name, time_ms in times.items():
        if time_ms is not None and not first_ms <= time_ms <= last_ms:
            raise refusals.time_outside(name)


_RULES = (
    _check_body,
    _check_properties,
    _check_tag,
    _check_keys,
    _check_size,
    _check_msg_id,
    _check_group,
    _check_stored_properties,
    _check_times,
)


def _bytes(texts: Iterable[str | None]) -> int:
    """Bytes of these texts in UTF-8."""
    return sum(len(text.encode()) for text in texts if text)
