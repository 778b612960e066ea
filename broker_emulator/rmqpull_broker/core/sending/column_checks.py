"""Checks of a batch in columns before it is stored (rules 5.11, rows 4 to 15).

The result is the same as for single messages in order: the error is that of the first bad message, and of the first
rule that this message breaks. But each rule checks whole columns, and returns the first message that breaks it.
``row_checks`` has the same rules for single messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import limits
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import BodyEncoding, TopicType
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.column_batches import find_message_groups
from rmqpull_proto.remoting.properties import RESERVED

_BODY_ENCODINGS = pa.array([encoding.value for encoding in BodyEncoding], pa.int32())
_RESERVED = pa.array(sorted(RESERVED), pa.string())
_CONTROL_CHARACTERS = r"[\x00-\x1f\x7f-\x{9f}]"  # as RE2 spells limits.CONTROL_CHARACTERS


class _Violation(NamedTuple):
    """The first message that breaks a rule, by its row, and the error."""

    row: int
    refusal: BrokerError


_Violations = Iterator[_Violation]


def check_columns(batch: pa.RecordBatch, now_ms: int) -> None:
    """Raises the error of the first rule that the first bad message breaks.

    ``batch`` is of ``columns.STORED_SCHEMA``, and may have a column ``priority``.
    """
    violations = [violation for rule in _RULES for violation in rule(batch, now_ms)]
    if violations:
        raise min(
            violations, key=lambda violation: violation.row
        ).refusal  # of two violations of one row, that of the first rule


def _first(broken: pa.Array, refusal: Callable[[int], BrokerError], row_of: Callable[[int], int] = int) -> _Violations:
    """Yields the violation of the first true value of a boolean column, if there is one.

    ``refusal`` gets the index of the value. ``row_of`` returns its row, where messages have several values.
    """
    index = pc.index(broken, pa.scalar(True)).as_py()
    if index >= 0:
        yield _Violation(row_of(index), refusal(index))


def _blank(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(pc.utf8_trim_whitespace(texts)), 0)


def _control(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, _CONTROL_CHARACTERS)


def _check_body(batch: pa.RecordBatch, _: int) -> _Violations:
    lengths = pc.fill_null(pc.binary_length(batch.column("body")), 0)
    yield from _first(pc.equal(lengths, 0), lambda _: refusals.empty_body())
    yield from _first(pc.greater(lengths, limits.BODY_BYTES_MAX), lambda _: refusals.large_body())


def _check_properties(batch: pa.RecordBatch, _: int) -> _Violations:
    properties = batch.column("properties")
    too_many = pc.greater(columns.count_list_entries(properties), limits.USER_PROPERTIES_MAX)
    yield from _first(too_many, lambda _: refusals.many_properties())
    keys = columns.slice_live_values(properties, properties.keys)
    values = columns.slice_live_values(properties, properties.items)

    def row_of(index: int) -> int:
        begun = pc.less_equal(properties.offsets, pc.add(properties.offsets[0], index))
        return int(pc.sum(begun).as_py()) - 1

    def first(broken: pa.Array, refusal: Callable[[str], BrokerError]) -> _Violations:
        return _first(broken, lambda index: refusal(keys[index].as_py()), row_of)

    yield from first(pc.is_in(keys, value_set=_RESERVED), refusals.reserved_property)
    for texts in (keys, values):
        yield from first(pc.is_null(texts), refusals.null_property)
        yield from first(_control(texts), refusals.control_in_property)


def _check_tags(batch: pa.RecordBatch, _: int) -> _Violations:
    tags = batch.column("tags")
    yield from _first(_blank(tags), lambda _: refusals.blank_tag())
    yield from _first(pc.match_substring(tags, "|"), lambda _: refusals.bar_in_tag())
    yield from _first(_control(tags), lambda _: refusals.control_in_tag())


def _check_keys(batch: pa.RecordBatch, _: int) -> _Violations:
    keys, rows = batch.column("keys").flatten(), pc.list_parent_indices(batch.column("keys"))

    def row_of(index: int) -> int:
        return int(rows[index].as_py())

    yield from _first(pc.fill_null(_blank(keys), True), lambda _: refusals.blank_key(), row_of)
    yield from _first(_control(keys), lambda _: refusals.control_in_key(), row_of)


def _check_size(batch: pa.RecordBatch, _: int) -> _Violations:
    too_large = pc.greater(_user_bytes(batch), limits.PROPERTIES_BYTES_MAX)
    yield from _first(too_large, lambda _: refusals.large_properties())


def _user_bytes(batch: pa.RecordBatch) -> pa.Array:
    return pc.subtract(columns.count_row_bytes(batch), columns.count_text_bytes(batch, ["body"]))


def _check_msg_id(batch: pa.RecordBatch, _: int) -> _Violations:
    yield from _first(pc.fill_null(_blank(batch.column("msgId")), True), lambda _: refusals.no_id())


def _check_delivery(batch: pa.RecordBatch, now_ms: int) -> _Violations:
    times = batch.column("deliveryTimestamp").cast(pa.int64())
    latest_us = (now_ms + limits.DELAY_MS_MAX + 1) * 1000 - 1
    yield from _first(pc.greater(times, latest_us), lambda _: refusals.far_delivery())


def _check_priority(batch: pa.RecordBatch, _: int) -> _Violations:
    if "priority" in batch.schema.names:
        yield from _first(pc.less(batch.column("priority"), 0), lambda _: refusals.negative_priority())


def _check_group(batch: pa.RecordBatch, _: int) -> _Violations:
    groups = batch.column("messageGroup")
    yield from _first(_blank(groups), lambda _: refusals.blank_group())
    too_long = pc.greater(pc.binary_length(groups), limits.MESSAGE_GROUP_BYTES_MAX)
    yield from _first(too_long, lambda _: refusals.long_group())
    yield from _first(_control(groups), lambda _: refusals.control_in_group())


def _check_stored_properties(batch: pa.RecordBatch, _: int) -> _Violations:
    """The limit of the store. No other rule limits ids, hosts and traces."""
    own = columns.count_text_bytes(batch, ["msgId", "messageGroup", "traceContext", "bornHost"])
    # Only these may exceed the limit of user properties, which another rule checks.
    if (pc.max(own).as_py() or 0) + limits.PROPERTIES_BYTES_MAX <= limits.STORED_PROPERTIES_BYTES_MAX:
        return
    sizes = pc.add(own, _user_bytes(batch))
    too_large = pc.greater(sizes, limits.STORED_PROPERTIES_BYTES_MAX)
    yield from _first(too_large, lambda _: refusals.large_stored_properties())


def _check_body_encoding(batch: pa.RecordBatch, _: int) -> _Violations:
    """Not one of Apache's rules: its proxy gets only encodings that the protocol knows."""
    encodings = batch.column("bodyEncoding")
    unknown = pc.invert(pc.is_in(encodings, value_set=_BODY_ENCODINGS))
    yield from _first(unknown, lambda index: refusals.unknown_encoding(encodings[index].as_py()))


def _check_times(batch: pa.RecordBatch, _: int) -> _Violations:
    """Not one of Apache's rules: its protocol has no other times, but columns do."""
    first_ms, last_ms = limits.TIMES_MS
    for name in ("bornTimestamp", "deliveryTimestamp"):
        times = batch.column(name).cast(pa.int64())
        outside = pc.or_(pc.less(times, first_ms * 1000), pc.greater(times, last_ms * 1000 + 999))
        yield from _first(outside, partial(_time_outside, name))


def _time_outside(name: str, _: int) -> BrokerError:
    return refusals.time_outside(name)


_RULES = (
    _check_body,
    _check_properties,
    _check_tags,
    _check_keys,
    _check_size,
    _check_msg_id,
    _check_delivery,
    _check_priority,
    _check_group,
    _check_stored_properties,
    _check_body_encoding,
    _check_times,
)


def find_row_types(batch: pa.RecordBatch) -> pa.Array:
    """Returns the type of each message by its name in ``TopicType``."""
    delayed = pc.is_valid(batch.column("deliveryTimestamp"))
    grouped = pc.is_valid(find_message_groups(batch))
    others: pa.Array | pa.Scalar = pa.scalar(TopicType.NORMAL.value)
    if "priority" in batch.schema.names:
        others = pc.if_else(pc.is_valid(batch.column("priority")), TopicType.PRIORITY.value, others)
    undelayed = pc.if_else(grouped, TopicType.FIFO.value, others)
    return pc.if_else(delayed, TopicType.DELAY.value, undelayed)


def check_types(types: pa.Array, topic_type: TopicType) -> None:
    """Raises MessagePropertyConflictWithType for the first message of another type than its topic's (row 15)."""
    index = pc.index(pc.not_equal(types, topic_type.value), pa.scalar(True)).as_py()
    if index >= 0:
        raise refusals.wrong_type(topic_type, TopicType(types[index].as_py()))
