"""The errors of bad messages: one for each rule, in RocketMQ's words where it has some.

``row_checks`` and ``column_checks`` check messages in two forms and use the same errors.
"""

from __future__ import annotations

from rmqpull_broker.core import limits
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    IllegalDeliveryTime,
    IllegalMessageGroup,
    IllegalMessageId,
    IllegalMessageKey,
    IllegalMessagePropertyKey,
    IllegalMessageTag,
    InternalError,
    MessageBodyEmpty,
    MessageBodyTooLarge,
    MessageCorrupted,
    MessagePropertiesTooLarge,
    MessagePropertyConflictWithType,
)
from rmqpull_broker.core.model import TopicType

NO_WRITABLE_QUEUE = "no writable queue"
"""The text for a topic without a writable queue."""


def empty_body() -> MessageBodyEmpty:
    """A message without a body."""
    return MessageBodyEmpty("message body cannot be empty")


def large_body() -> MessageBodyTooLarge:
    """A body above the limit."""
    return MessageBodyTooLarge(f"message body cannot exceed the max {limits.BODY_BYTES_MAX}")


def many_properties() -> MessagePropertiesTooLarge:
    """Too many user properties."""
    return MessagePropertiesTooLarge(f"too many user properties, max is {limits.USER_PROPERTIES_MAX}")


def reserved_property(key: str) -> IllegalMessagePropertyKey:
    """A user property with a reserved name."""
    return IllegalMessagePropertyKey(f"property is used by system: {key}")


def null_property(key: str | None) -> IllegalMessagePropertyKey:
    """A user property without a name or a value, which only columns can have."""
    return IllegalMessagePropertyKey(f"property {key!r} has no value")


def control_in_property_key() -> IllegalMessagePropertyKey:
    """A control character in the name of a property of a single message."""
    return IllegalMessagePropertyKey("the key of property cannot contain control character")


def control_in_property_value() -> IllegalMessagePropertyKey:
    """A control character in the value of a property of a single message."""
    return IllegalMessagePropertyKey("the value of property cannot contain control character")


def control_in_property(key: str) -> IllegalMessagePropertyKey:
    """A control character in a property's name or value, in columns."""
    return IllegalMessagePropertyKey(f"property {key!r} contains a control character")


def blank_tag() -> IllegalMessageTag:
    """A blank tag."""
    return IllegalMessageTag("tag cannot be the char sequence of whitespace")


def bar_in_tag() -> IllegalMessageTag:
    """A tag with the separator of filter expressions."""
    return IllegalMessageTag("tag cannot contain '|'")


def control_in_tag() -> IllegalMessageTag:
    """A control character in a tag."""
    return IllegalMessageTag("tag cannot contain control character")


def blank_key() -> IllegalMessageKey:
    """A blank or null key."""
    return IllegalMessageKey("key cannot be the char sequence of whitespace")


def control_in_key() -> IllegalMessageKey:
    """A control character in a key."""
    return IllegalMessageKey("key cannot contain control character")


def large_properties() -> MessagePropertiesTooLarge:
    """Tag, keys and user properties above the proxy's limit."""
    return MessagePropertiesTooLarge(
        f"the total size of user property is too large, max is {limits.PROPERTIES_BYTES_MAX}"
    )


def no_id() -> IllegalMessageId:
    """A message without an id."""
    return IllegalMessageId("message id cannot be empty")


def blank_group() -> IllegalMessageGroup:
    """A blank message group."""
    return IllegalMessageGroup("message group cannot be the char sequence of whitespace")


def long_group() -> IllegalMessageGroup:
    """A message group above the limit."""
    return IllegalMessageGroup(f"message group exceed the max size {limits.MESSAGE_GROUP_BYTES_MAX + 1}")


def control_in_group() -> IllegalMessageGroup:
    """A control character in a message group."""
    return IllegalMessageGroup("message group cannot contain control character")


def far_delivery() -> IllegalDeliveryTime:
    """A delivery time too far in the future."""
    return IllegalDeliveryTime(f"the max delay time of message is too large, max is {limits.DELAY_MS_MAX}")


def negative_priority() -> InternalError:
    """A priority below 0."""
    return InternalError("The priority must be greater than or equal to 0")


def long_recovery() -> BadRequest:
    """A half message whose immunity from checks is too long."""
    return BadRequest(f"the max transaction recovery time of message is too large, max is {limits.RECOVERY_S_MAX}")


def large_stored_properties(body_bytes_max: int = limits.BODY_BYTES_MAX) -> MessagePropertiesTooLarge:
    """Properties above the limit of the store (rules 3.10.1)."""
    return MessagePropertiesTooLarge(_illegal_message(body_bytes_max))


def large_stored_body(body_bytes_max: int) -> MessageBodyTooLarge:
    """A body above the limit of the store, which may be below that of the proxy."""
    return MessageBodyTooLarge(_illegal_message(body_bytes_max))


def illegal_message(body_bytes_max: int) -> MessageCorrupted:
    """Any other message that the store does not accept."""
    return MessageCorrupted(_illegal_message(body_bytes_max))


def illegal_timer(max_ms: int) -> IllegalDeliveryTime:
    """A delivery time that is too late, or not a number."""
    return IllegalDeliveryTime(
        f"timer message illegal, the delay time should not be bigger than the max delay {max_ms}ms; or if set del msg, "
        "the delay time should be bigger than the current time"
    )


def _illegal_message(body_bytes_max: int) -> str:
    return (
        "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
        f"{body_bytes_max}B, msg properties length limit 32KB."
    )


def batch_of_retries(topic: str) -> MessageCorrupted:
    """Several messages in one send to a retry topic."""
    return MessageCorrupted(f"batch request does not support retry group {topic}")


def unknown_encoding(number: int) -> MessageCorrupted:
    """An unknown body encoding, which only columns can have."""
    return MessageCorrupted(f"unknown body encoding {number}")


def time_outside(name: str) -> BadRequest:
    """A time that the protocol cannot express."""
    return BadRequest(f"{name} lies outside the years 1 to 9999")


def wrong_type(expected: TopicType | None, actual: TopicType) -> MessagePropertyConflictWithType:
    """A message of a type that its topic does not accept. None is the type of a topic that does not exist."""
    name = "UNSPECIFIED" if expected is None else expected.value
    return MessagePropertyConflictWithType(
        f"TopicMessageType validate failed, the expected type is {name}, but actual type is {actual.value}"
    )


def is_of_store(error: BrokerError) -> bool:
    """Whether an error comes from the store, and not from the checks before it."""
    return str(error).startswith(("the message is illegal, ", "timer message illegal, "))
