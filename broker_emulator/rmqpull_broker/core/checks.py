"""Checks of messages before they are stored, on columns: one set of rules for single sends and for batches.

The rules and their order are those of Apache's proxy (rocketmq-semantics 5.11, rows 4 to 15). A rule is looked for in
the whole batch before the next one, so a batch with several faults is refused for the one that stands first here.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns, limits
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    IllegalMessageGroup,
    IllegalMessageId,
    IllegalMessageKey,
    IllegalMessagePropertyKey,
    IllegalMessageTag,
    MessageBodyEmpty,
    MessageBodyTooLarge,
    MessageCorrupted,
    MessagePropertiesTooLarge,
    MessagePropertyConflictWithType,
)
from rmqpull_broker.core.model import BodyEncoding, TopicType

_BODY_ENCODINGS = pa.array([encoding.value for encoding in BodyEncoding], pa.int32())
_RESERVED = pa.array(sorted(limits.RESERVED_PROPERTY_KEYS), pa.string())


def check_messages(batch: pa.RecordBatch, topic_type: TopicType, *, transactional: bool = False) -> None:
    """Raises the error of the first rule that some message breaks.

    ``batch`` has the columns of ``columns.STORED_SCHEMA``, which do not tell that a message is ``transactional``.
    """
    for rule in _RULES:
        rule(batch)
    if transactional and topic_type is not TopicType.TRANSACTION:
        raise MessagePropertyConflictWithType(_type_conflict(topic_type, TopicType.TRANSACTION.value))
    _check_type(batch, topic_type)


def _refuse_if(broken: pa.Array, error: type[BrokerError], reason: Callable[[int], str]) -> None:
    """Raises ``error`` when any value of a boolean column is true; ``reason`` gets the first such index."""
    index = pc.index(broken, pa.scalar(True)).as_py()
    if index >= 0:
        raise error(reason(index))


def _blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0)


def _control(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, limits.CONTROL_CHARACTERS)


def _check_body(batch: pa.RecordBatch) -> None:
    lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    _refuse_if(pc.equal(lengths, 0), MessageBodyEmpty, lambda _: "message body cannot be empty")
    limit = limits.BODY_BYTES_MAX
    _refuse_if(pc.greater(lengths, limit), MessageBodyTooLarge, lambda _: f"message body cannot exceed the max {limit}")


def _check_properties(batch: pa.RecordBatch) -> None:
    properties = batch.column("properties")
    too_many = pc.greater(columns.list_lengths(properties), limits.USER_PROPERTIES_MAX)
    _refuse_if(
        too_many,
        MessagePropertiesTooLarge,
        lambda _: f"too many user properties, max is {limits.USER_PROPERTIES_MAX}",
    )
    keys = columns.live_values(properties, properties.keys)
    values = columns.live_values(properties, properties.items)
    _refuse_if(
        pc.is_in(keys, value_set=_RESERVED),
        IllegalMessagePropertyKey,
        lambda index: f"property is used by system: {keys[index].as_py()}",
    )
    for texts in (keys, values):
        _refuse_if(
            pc.is_null(texts),
            IllegalMessagePropertyKey,
            lambda index: f"property {keys[index].as_py()!r} has no value",
        )
        _refuse_if(
            _control(texts),
            IllegalMessagePropertyKey,
            lambda index: f"property {keys[index].as_py()!r} contains a control character",
        )


def _check_tags(batch: pa.RecordBatch) -> None:
    tags = batch.column("tags")
    _refuse_if(_blank(tags), IllegalMessageTag, lambda _: "tag cannot be the blank string")
    _refuse_if(pc.match_substring(tags, "|"), IllegalMessageTag, lambda _: "tag cannot contain '|'")
    _refuse_if(_control(tags), IllegalMessageTag, lambda _: "tag cannot contain control character")


def _check_keys(batch: pa.RecordBatch) -> None:
    keys = batch.column("keys").flatten()
    _refuse_if(pc.fill_null(_blank(keys), True), IllegalMessageKey, lambda _: "key cannot be the blank string")
    _refuse_if(_control(keys), IllegalMessageKey, lambda _: "key cannot contain control character")


def _check_size(batch: pa.RecordBatch) -> None:
    bodies = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    sizes = pc.subtract(columns.row_bytes(batch), pc.cast(bodies, pa.int64()))
    limit = limits.PROPERTIES_BYTES_MAX
    _refuse_if(
        pc.greater(sizes, limit),
        MessagePropertiesTooLarge,
        lambda _: f"the total size of user property is too large, max is {limit}",
    )


def _check_msg_id(batch: pa.RecordBatch) -> None:
    blank = pc.fill_null(_blank(batch.column("msgId")), True)
    _refuse_if(blank, IllegalMessageId, lambda _: "message id cannot be empty")


def _check_group(batch: pa.RecordBatch) -> None:
    groups = batch.column("messageGroup")
    _refuse_if(_blank(groups), IllegalMessageGroup, lambda _: "message group cannot be the blank string")
    limit = limits.MESSAGE_GROUP_BYTES_MAX
    _refuse_if(
        pc.greater(pc.binary_length(groups), limit),
        IllegalMessageGroup,
        lambda _: f"message group exceeds the max length of {limit} bytes",
    )
    _refuse_if(_control(groups), IllegalMessageGroup, lambda _: "message group cannot contain control character")


def _check_body_encoding(batch: pa.RecordBatch) -> None:
    """Not a rule of Apache's, whose proxy takes only the encodings that its protocol knows."""
    encodings = batch.column("bodyEncoding")
    _refuse_if(
        pc.invert(pc.is_in(encodings, value_set=_BODY_ENCODINGS)),
        MessageCorrupted,
        lambda index: f"unknown body encoding {encodings[index].as_py()}",
    )


def _check_stored_properties(batch: pa.RecordBatch) -> None:
    """The store's own limit (rocketmq-semantics 3.10.1); nothing else bounds ids, hosts and traces."""
    sizes = columns.text_bytes(batch, ["msgId", "tags", "messageGroup", "traceContext", "bornHost"])
    _refuse_if(
        pc.greater(sizes, limits.STORED_PROPERTIES_BYTES_MAX),
        MessagePropertiesTooLarge,
        lambda _: (
            "the message is illegal, maybe msg body or properties length not matched. msg body length limit "
            f"{limits.BODY_BYTES_MAX}B, msg properties length limit 32KB."
        ),
    )


def _check_times(batch: pa.RecordBatch) -> None:
    """Not a rule of Apache's, whose protocol cannot say other times; columns can."""
    first_us, last_us = limits.TIMES_US
    for name in ("bornTimestamp", "deliveryTimestamp"):
        times = batch.column(name).cast(pa.int64())
        outside = pc.or_(pc.less(times, first_us), pc.greater(times, last_us))
        _refuse_if(outside, BadRequest, lambda _, name=name: f"{name} lies outside the years 1 to 9999")  # type: ignore[misc]


_RULES = (
    _check_body,
    _check_properties,
    _check_tags,
    _check_keys,
    _check_size,
    _check_msg_id,
    _check_group,
    _check_stored_properties,
    _check_body_encoding,
    _check_times,
)


def _check_type(batch: pa.RecordBatch, topic_type: TopicType) -> None:
    delayed = pc.is_valid(batch.column("deliveryTimestamp"))
    grouped = pc.is_valid(batch.column("messageGroup"))
    names = pc.if_else(
        delayed, TopicType.DELAY.value, pc.if_else(grouped, TopicType.FIFO.value, TopicType.NORMAL.value)
    )
    _refuse_if(
        pc.not_equal(names, topic_type.value),
        MessagePropertyConflictWithType,
        lambda index: _type_conflict(topic_type, names[index].as_py()),
    )


def _type_conflict(expected: TopicType, actual: str) -> str:
    return f"TopicMessageType validate failed, the expected type is {expected.value}, but actual type is {actual}"
