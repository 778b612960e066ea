"""Checks of single messages before they are stored, without Arrow (rules 5.11, rows 4 to 15).

The rules and their order are those of ``column_checks``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from rmqpull_broker.core import limits
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.core.sending import refusals
from rmqpull_proto.remoting.properties import CHECK_IMMUNITY_TIME, PRIORITY, RESERVED

Rule = Callable[[Message, int], BrokerError | None]
"""Returns the error of a message, or None. The number is the time in milliseconds since the epoch."""

_has_control = re.compile(limits.CONTROL_CHARACTERS).search


def check_rows(messages: Iterable[Message], now_ms: int) -> list[Message]:
    """Returns the messages, each of which is checked before the iterator is asked for the next.

    Raises the error of the first rule that the first bad message breaks.
    """
    checked = []
    for message in messages:
        for rule in _RULES:
            refusal = rule(message, now_ms)
            if refusal is not None:
                raise refusal
        checked.append(message)
    return checked


def check_row_types(messages: Sequence[Message], topic_type: TopicType) -> None:
    """Raises MessagePropertyConflictWithType for the first message of another type (row 15)."""
    for message in messages:
        if message.topic_type is not topic_type:
            raise refusals.wrong_type(topic_type, message.topic_type)


def _reserved_property(message: Message, _: int) -> BrokerError | None:
    return next((refusals.reserved_property(key) for key in message.properties if key in RESERVED), None)


def _control_in_property_key(message: Message, _: int) -> BrokerError | None:
    return refusals.control_in_property_key() if any(map(_has_control, message.properties)) else None


def _control_in_property_value(message: Message, _: int) -> BrokerError | None:
    return refusals.control_in_property_value() if any(map(_has_control, message.properties.values())) else None


def _user_texts(message: Message) -> tuple[str | None, ...]:
    return (message.tags, *message.keys, *message.properties, *message.properties.values())


def _properties_size(message: Message, _: int) -> BrokerError | None:
    return refusals.large_properties() if _count_bytes(_user_texts(message)) > limits.PROPERTIES_BYTES_MAX else None


def _stored_size(message: Message, _: int) -> BrokerError | None:
    own = (message.msg_id, message.message_group, message.trace_context, message.born_host)
    # Only these may exceed the limit of user properties, which was checked before.
    if _count_bytes(own) + limits.PROPERTIES_BYTES_MAX <= limits.STORED_PROPERTIES_BYTES_MAX:
        return None
    size = _count_bytes((*own, *_user_texts(message)))
    return refusals.large_stored_properties() if size > limits.STORED_PROPERTIES_BYTES_MAX else None


def _recovery_time(message: Message, _: int) -> BrokerError | None:
    seconds = message.system_properties.get(CHECK_IMMUNITY_TIME) if message.transactional else None
    return None if seconds is None or int(seconds) <= limits.RECOVERY_S_MAX else refusals.long_recovery()


def _delivery_time(message: Message, now_ms: int) -> BrokerError | None:
    delivery_ms = message.delivery_timestamp_ms
    return refusals.far_delivery() if delivery_ms is not None and delivery_ms - now_ms > limits.DELAY_MS_MAX else None


def _priority(message: Message, _: int) -> BrokerError | None:
    is_negative = message.system_properties.get(PRIORITY, "").startswith("-")
    return refusals.negative_priority() if is_negative else None


def _time(name: str, time_ms: int | None) -> BrokerError | None:
    first_ms, last_ms = limits.TIMES_MS
    return None if time_ms is None or first_ms <= time_ms <= last_ms else refusals.time_outside(name)


def _count_bytes(texts: Iterable[str | None]) -> int:
    """Returns the number of bytes of these texts in UTF-8."""
    return sum(len(text.encode()) for text in texts if text)


def _is_blank(text: str | None) -> bool:
    return text is not None and not text.strip()


_RULES: tuple[Rule, ...] = (
    lambda m, _: None if m.body else refusals.empty_body(),
    lambda m, _: refusals.large_body() if len(m.body) > limits.BODY_BYTES_MAX else None,
    lambda m, _: refusals.many_properties() if len(m.properties) > limits.USER_PROPERTIES_MAX else None,
    _reserved_property,
    _control_in_property_key,
    _control_in_property_value,
    lambda m, _: refusals.blank_tag() if _is_blank(m.tags) else None,
    lambda m, _: refusals.bar_in_tag() if "|" in (m.tags or "") else None,
    lambda m, _: refusals.control_in_tag() if _has_control(m.tags or "") else None,
    lambda m, _: refusals.blank_key() if any(map(_is_blank, m.keys)) else None,
    lambda m, _: refusals.control_in_key() if any(map(_has_control, m.keys)) else None,
    _properties_size,
    lambda m, _: refusals.no_id() if _is_blank(m.msg_id) else None,
    _recovery_time,
    _delivery_time,
    _priority,
    lambda m, _: refusals.blank_group() if _is_blank(m.message_group) else None,
    lambda m, _: refusals.long_group() if _count_bytes([m.message_group]) > limits.MESSAGE_GROUP_BYTES_MAX else None,
    lambda m, _: refusals.control_in_group() if _has_control(m.message_group or "") else None,
    _stored_size,
    lambda m, _: _time("bornTimestamp", m.born_timestamp_ms),
    lambda m, _: _time("deliveryTimestamp", m.delivery_timestamp_ms),
)
