"""Checks of a batch in columns before it is stored (rocketmq-semantics 5.11, rows 4 to 15).

A rule is looked for in the whole batch before the next one, so a batch with several faults is refused for the one that
stands first here. ``row_checks`` has the same rules for single messages.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns, limits, refusals
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import BodyEncoding, TopicType

_BODY_ENCODINGS = pa.array([encoding.value for encoding in BodyEncoding], pa.int32())
_RESERVED = pa.array(sorted(limits.RESERVED_PROPERTY_KEYS), pa.string())
_CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x{9f}]"  # as RE2 spells limits.CONTROL_CHARACTERS


def check_columns(batch: pa.RecordBatch, now_ms: int) -> None:
    """Raises the error of the first rule that some message breaks; ``batch`` is of ``columns.STORED_SCHEMA``."""
    for rule in _RULES:
        rule(batch, now_ms)


def _refuse_if(broken: pa.Array, refusal: Callable[[int], BrokerError]) -> None:
    """Raises a refusal when any value of a boolean column is true; it gets the first such index."""
    index = pc.index(broken, pa.scalar(True)).as_py()
    if index >= 0:
        raise refusal(index)


def _blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0)


def _control(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, _CONTROL_CHARACTERS)


def _check_body(batch: pa.RecordBatch, _: int) -> None:
    lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    _refuse_if(pc.equal(lengths, 0), lambda _: refusals.empty_body())
    _refuse_if(pc.greater(lengths, limits.BODY_BYTES_MAX), lambda _: refusals.large_body())


def _check_properties(batch: pa.RecordBatch, _: int) -> None:
    properties = batch.column("properties")
    too_many = pc.greater(columns.list_lengths(properties), limits.USER_PROPERTIES_MAX)
    _refuse_if(too_many, lambda _: refusals.many_properties())
    keys = columns.live_values(properties, properties.keys)
    values = columns.live_values(properties, properties.items)
    _refuse_if(pc.is_in(keys, value_set=_RESERVED), lambda index: refusals.reserved_property(keys[index].as_py()))
    for texts in (keys, values):
        _refuse_if(pc.is_null(texts), lambda index: refusals.null_property(keys[index].as_py()))
        _refuse_if(_control(texts), lambda index: refusals.control_in_property(keys[index].as_py()))


def _check_tags(batch: pa.RecordBatch, _: int) -> None:
    tags = batch.column("tags")
    _refuse_if(_blank(tags), lambda _: refusals.blank_tag())
    _refuse_if(pc.match_substring(tags, "|"), lambda _: refusals.bar_in_tag())
    _refuse_if(_control(tags), lambda _: refusals.control_in_tag())


def _check_keys(batch: pa.RecordBatch, _: int) -> None:
    keys = batch.column("keys").flatten()
    _refuse_if(pc.fill_null(_blank(keys), True), lambda _: refusals.blank_key())
    _refuse_if(_control(keys), lambda _: refusals.control_in_key())


def _check_size(batch: pa.RecordBatch, _: int) -> None:
    too_large = pc.greater(_user_bytes(batch), limits.PROPERTIES_BYTES_MAX)
    _refuse_if(too_large, lambda _: refusals.large_properties())


def _user_bytes(batch: pa.RecordBatch) -> pa.Array:
    return pc.subtract(columns.row_bytes(batch), columns.text_bytes(batch, ["body"]))


def _check_msg_id(batch: pa.RecordBatch, _: int) -> None:
    _refuse_if(pc.fill_null(_blank(batch.column("msgId")), True), lambda _: refusals.no_id())


def _check_delivery(batch: pa.RecordBatch, now_ms: int) -> None:
    times = batch.column("deliveryTimestamp").cast(pa.int64())
    _refuse_if(pc.greater(times, (now_ms + limits.DELAY_MS_MAX + 1) * 1000 - 1), lambda _: refusals.far_delivery())


def _check_group(batch: pa.RecordBatch, _: int) -> None:
    groups = batch.column("messageGroup")
    _refuse_if(_blank(groups), lambda _: refusals.blank_group())
    too_long = pc.greater(pc.binary_length(groups), limits.MESSAGE_GROUP_BYTES_MAX)
    _refuse_if(too_long, lambda _: refusals.long_group())
    _refuse_if(_control(groups), lambda _: refusals.control_in_group())


def _check_stored_properties(batch: pa.RecordBatch, _: int) -> None:
    """The store's own limit; nothing else bounds ids, hosts and traces."""
    own = columns.text_bytes(batch, ["msgId", "messageGroup", "traceContext", "bornHost"])
    # Only these may be larger than the user's own limit, which was looked at before.
    if (pc.max(own).as_py() or 0) + limits.PROPERTIES_BYTES_MAX <= limits.STORED_PROPERTIES_BYTES_MAX:
        return
    sizes = pc.add(own, _user_bytes(batch))
    _refuse_if(pc.greater(sizes, limits.STORED_PROPERTIES_BYTES_MAX), lambda _: refusals.large_stored_properties())


def _check_body_encoding(batch: pa.RecordBatch, _: int) -> None:
    """Not a rule of Apache's, whose proxy takes only the encodings that its protocol knows."""
    encodings = batch.column("bodyEncoding")
    unknown = pc.invert(pc.is_in(encodings, value_set=_BODY_ENCODINGS))
    _refuse_if(unknown, lambda index: refusals.unknown_encoding(encodings[index].as_py()))


def _check_times(batch: pa.RecordBatch, _: int) -> None:
    """Not a rule of Apache's, whose protocol cannot say other times; columns can."""
    first_ms, last_ms = limits.TIMES_MS
    for name in ("bornTimestamp", "deliveryTimestamp"):
        times = batch.column(name).cast(pa.int64())
        outside = pc.or_(pc.less(times, first_ms * 1000), pc.greater(times, last_ms * 1000 + 999))
        if pc.any(outside).as_py():
            raise refusals.time_outside(name)


_RULES = (
    _check_body,
    _check_properties,
    _check_tags,
    _check_keys,
    _check_size,
    _check_msg_id,
    _check_delivery,
    _check_group,
    _check_stored_properties,
    _check_body_encoding,
    _check_times,
)


def row_types(batch: pa.RecordBatch) -> pa.Array:
    """The type of each message, as ``TopicType`` names it."""
    delayed = pc.is_valid(batch.column("deliveryTimestamp"))
    grouped = pc.is_valid(batch.column("messageGroup"))
    undelayed = pc.if_else(grouped, TopicType.FIFO.value, TopicType.NORMAL.value)
    return pc.if_else(delayed, TopicType.DELAY.value, undelayed)


def check_types(types: pa.Array, topic_type: TopicType) -> None:
    """Raises MessagePropertyConflictWithType for the first message of another type than its topic's (row 15)."""
    wrong = pc.not_equal(types, topic_type.value)
    _refuse_if(wrong, lambda index: refusals.wrong_type(topic_type, TopicType(types[index].as_py())))
