"""Checks of single messages before they are stored (rocketmq-semantics 5.11, rows 4 to 15): no Arrow for a single send.

The rules and their order are those of ``column_checks``, and a rule is looked for in all messages before the next one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from rmqpull_broker.core import limits, refusals
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import Message, TopicType

Rule = Callable[[Message], BrokerError | None]

_has_control = re.compile(limits.CONTROL_CHARACTERS).search


def check_rows(messages: Sequence[Message], topic_type: TopicType) -> None:
    """Raises the error of the first rule that some message breaks."""
    for rule in (*_RULES, _of_type(topic_type)):
        for message in messages:
            refusal = rule(message)
            if refusal is not None:
                raise refusal


def _reserved_property(message: Message) -> BrokerError | None:
    reserved = limits.RESERVED_PROPERTY_KEYS
    return next((refusals.reserved_property(key) for key in message.properties if key in reserved), None)


def _control_in_property_key(message: Message) -> BrokerError | None:
    return next((refusals.control_in_property(key) for key in message.properties if _has_control(key)), None)


def _control_in_property_value(message: Message) -> BrokerError | None:
    properties = message.properties.items()
    return next((refusals.control_in_property(key) for key, value in properties if _has_control(value)), None)


def _properties_size(message: Message) -> BrokerError | None:
    texts = (message.tags, *message.keys, *message.properties, *message.properties.values())
    return refusals.large_properties() if _bytes(texts) > limits.PROPERTIES_BYTES_MAX else None


def _stored_size(message: Message) -> BrokerError | None:
    texts = (message.msg_id, message.tags, message.message_group, message.trace_context, message.born_host)
    return refusals.large_stored_properties() if _bytes(texts) > limits.STORED_PROPERTIES_BYTES_MAX else None


def _time(name: str, time_ms: int | None) -> BrokerError | None:
    first_ms, last_ms = limits.TIMES_MS
    return None if time_ms is None or first_ms <= time_ms <= last_ms else refusals.time_outside(name)


def _of_type(topic_type: TopicType) -> Rule:
    def rule(message: Message) -> BrokerError | None:
        actual = message.topic_type
        return None if actual is topic_type else refusals.wrong_type(topic_type, actual)

    return rule


def _bytes(texts: Iterable[str | None]) -> int:
    """Bytes of these texts in UTF-8."""
    return sum(len(text.encode()) for text in texts if text)


def _blank(text: str | None) -> bool:
    return text is not None and not text.strip()


_RULES: tuple[Rule, ...] = (
    lambda m: None if m.body else refusals.empty_body(),
    lambda m: refusals.large_body() if len(m.body) > limits.BODY_BYTES_MAX else None,
    lambda m: refusals.many_properties() if len(m.properties) > limits.USER_PROPERTIES_MAX else None,
    _reserved_property,
    _control_in_property_key,
    _control_in_property_value,
    lambda m: refusals.blank_tag() if _blank(m.tags) else None,
    lambda m: refusals.bar_in_tag() if "|" in (m.tags or "") else None,
    lambda m: refusals.control_in_tag() if _has_control(m.tags or "") else None,
    lambda m: refusals.blank_key() if any(map(_blank, m.keys)) else None,
    lambda m: refusals.control_in_key() if any(map(_has_control, m.keys)) else None,
    _properties_size,
    lambda m: refusals.no_id() if _blank(m.msg_id) else None,
    lambda m: refusals.blank_group() if _blank(m.message_group) else None,
    lambda m: refusals.long_group() if _bytes([m.message_group]) > limits.MESSAGE_GROUP_BYTES_MAX else None,
    lambda m: refusals.control_in_group() if _has_control(m.message_group or "") else None,
    _stored_size,
    lambda m: _time("bornTimestamp", m.born_timestamp_ms),
    lambda m: _time("deliveryTimestamp", m.delivery_timestamp_ms),
)
