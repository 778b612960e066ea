"""Checks of a batch in columns before it is stored (rules 5.11, rows 4 to 15).

The result is the same as for single messages in order: the error is that of the first bad message, and of the first
rule that this message breaks. But each rule checks whole columns, and returns the first message that breaks it. A rule
that the bounds of a column prove to hold looks at no row (see ``column_bounds``).
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
from rmqpull_broker.core.messages.column_bounds import (
    find_entry_counts,
    find_lengths,
    find_names,
    find_range,
    find_text_bounds,
)
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


class _Checked:
    """A batch, and the bounds of those of its columns that several rules look at. Each column is read once for them."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self.batch = batch
        self.keys, self.properties = batch.column("keys"), batch.column("properties")
        self.names = columns.slice_live_values(self.properties, self.properties.keys)
        self.values = columns.slice_live_values(self.properties, self.properties.items)
        # Names that all rows repeat need only be looked at once.
        self.different_names = find_names(self.properties)
        self.name_bounds = find_text_bounds(self.different_names)
        self.value_bounds = find_text_bounds(self.values)
        self.key_bounds = find_text_bounds(columns.slice_live_values(self.keys, self.keys.values))
        self.bounds = {name: find_text_bounds(batch.column(name)) for name in ("tags", "msgId", "messageGroup")}
        self.property_count = find_entry_counts(self.properties).greatest if len(self.names) else 0

    @property
    def user_bytes_max(self) -> int:
        """The most bytes that tag, keys and user properties of one row may have."""
        keys = find_entry_counts(self.keys).greatest * self.key_bounds.lengths.greatest
        entry = self.name_bounds.lengths.greatest + self.value_bounds.lengths.greatest
        return self.bounds["tags"].lengths.greatest + keys + self.property_count * entry


def check_columns(batch: pa.RecordBatch, now_ms: int) -> None:
    """Raises the error of the first rule that the first bad message breaks.

    ``batch`` is of ``columns.STORED_SCHEMA``, and may have a column ``priority``.
    """
    checked = _Checked(batch)
    violations = [violation for rule in _RULES for violation in rule(checked, now_ms)]
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
    return pc.or_(pc.equal(pc.binary_length(texts), 0), pc.utf8_is_space(texts))


def _control(texts: pa.Array) -> pa.Array:
    return pc.match_substring_regex(texts, _CONTROL_CHARACTERS)


def _check_body(checked: _Checked, _: int) -> _Violations:
    bodies = checked.batch.column("body")
    lengths = find_lengths(bodies)
    if bodies.null_count or lengths.least == 0:
        empty = pc.equal(pc.fill_null(pc.binary_length(bodies), 0), 0)
        yield from _first(empty, lambda _: refusals.empty_body())
    if lengths.greatest > limits.BODY_BYTES_MAX:
        too_large = pc.greater(pc.binary_length(bodies), limits.BODY_BYTES_MAX)
        yield from _first(too_large, lambda _: refusals.large_body())


def _check_properties(checked: _Checked, _: int) -> _Violations:
    properties, keys, values = checked.properties, checked.names, checked.values
    if checked.property_count > limits.USER_PROPERTIES_MAX:
        too_many = pc.greater(columns.count_list_entries(properties), limits.USER_PROPERTIES_MAX)
        yield from _first(too_many, lambda _: refusals.many_properties())

    def row_of(index: int) -> int:
        begun = pc.less_equal(properties.offsets, pc.add(properties.offsets[0], index))
        return int(pc.sum(begun).as_py()) - 1

    def first(broken: pa.Array, refusal: Callable[[str], BrokerError]) -> _Violations:
        return _first(broken, lambda index: refusal(keys[index].as_py()), row_of)

    if pc.any(pc.is_in(checked.different_names, value_set=_RESERVED)).as_py():
        yield from first(pc.is_in(keys, value_set=_RESERVED), refusals.reserved_property)
    for texts, bounds in ((keys, checked.name_bounds), (values, checked.value_bounds)):
        if texts.null_count:
            yield from first(pc.is_null(texts), refusals.null_property)
        if bounds.may_have_control:
            yield from first(_control(texts), refusals.control_in_property)


def _check_tags(checked: _Checked, _: int) -> _Violations:
    tags, bounds = checked.batch.column("tags"), checked.bounds["tags"]
    if bounds.may_be_blank:
        yield from _first(_blank(tags), lambda _: refusals.blank_tag())
    if bounds.may_have("|"):
        yield from _first(pc.match_substring(tags, "|"), lambda _: refusals.bar_in_tag())
    if bounds.may_have_control:
        yield from _first(_control(tags), lambda _: refusals.control_in_tag())


def _check_keys(checked: _Checked, _: int) -> _Violations:
    has_null, bounds = bool(checked.keys.values.null_count), checked.key_bounds
    is_checked = has_null or bounds.may_be_blank, bounds.may_have_control
    if not any(is_checked):
        return
    keys, rows = checked.keys.flatten(), pc.list_parent_indices(checked.keys)

    def row_of(index: int) -> int:
        return int(rows[index].as_py())

    if is_checked[0]:
        yield from _first(pc.fill_null(_blank(keys), True), lambda _: refusals.blank_key(), row_of)
    if is_checked[1]:
        yield from _first(_control(keys), lambda _: refusals.control_in_key(), row_of)


def _check_size(checked: _Checked, _: int) -> _Violations:
    if checked.user_bytes_max > limits.PROPERTIES_BYTES_MAX:
        too_large = pc.greater(_user_bytes(checked.batch), limits.PROPERTIES_BYTES_MAX)
        yield from _first(too_large, lambda _: refusals.large_properties())


def _user_bytes(batch: pa.RecordBatch) -> pa.Array:
    return pc.subtract(columns.count_row_bytes(batch), columns.count_text_bytes(batch, ["body"]))


def _check_msg_id(checked: _Checked, _: int) -> _Violations:
    ids = checked.batch.column("msgId")
    if ids.null_count or checked.bounds["msgId"].may_be_blank:
        yield from _first(pc.fill_null(_blank(ids), True), lambda _: refusals.no_id())


def _check_delivery(checked: _Checked, now_ms: int) -> _Violations:
    times = checked.batch.column("deliveryTimestamp").cast(pa.int64())
    latest_us = (now_ms + limits.DELAY_MS_MAX + 1) * 1000 - 1
    if find_range(times).greatest > latest_us:
        yield from _first(pc.greater(times, latest_us), lambda _: refusals.far_delivery())


def _check_priority(checked: _Checked, _: int) -> _Violations:
    if "priority" in checked.batch.schema.names:
        priorities = checked.batch.column("priority")
        yield from _first(pc.less(priorities, 0), lambda _: refusals.negative_priority())


def _check_group(checked: _Checked, _: int) -> _Violations:
    groups, bounds = checked.batch.column("messageGroup"), checked.bounds["messageGroup"]
    if bounds.may_be_blank:
        yield from _first(_blank(groups), lambda _: refusals.blank_group())
    if bounds.lengths.greatest > limits.MESSAGE_GROUP_BYTES_MAX:
        too_long = pc.greater(pc.binary_length(groups), limits.MESSAGE_GROUP_BYTES_MAX)
        yield from _first(too_long, lambda _: refusals.long_group())
    if bounds.may_have_control:
        yield from _first(_control(groups), lambda _: refusals.control_in_group())


def _check_stored_properties(checked: _Checked, _: int) -> _Violations:
    """The limit of the store. No other rule limits ids, hosts and traces."""
    lengths = [checked.bounds[name].lengths for name in ("msgId", "messageGroup")]
    lengths += [find_lengths(checked.batch.column(name)) for name in ("traceContext", "bornHost")]
    own_bytes_max = sum(length.greatest for length in lengths)
    # Only these may exceed the limit of user properties, which another rule checks.
    if own_bytes_max + limits.PROPERTIES_BYTES_MAX <= limits.STORED_PROPERTIES_BYTES_MAX:
        return
    own = columns.count_text_bytes(checked.batch, ["msgId", "messageGroup", "traceContext", "bornHost"])
    too_large = pc.greater(pc.add(own, _user_bytes(checked.batch)), limits.STORED_PROPERTIES_BYTES_MAX)
    yield from _first(too_large, lambda _: refusals.large_stored_properties())


def _check_body_encoding(checked: _Checked, _: int) -> _Violations:
    """Not one of Apache's rules: its proxy gets only encodings that the protocol knows."""
    encodings = checked.batch.column("bodyEncoding")
    if not encodings.null_count and find_range(encodings) == (BodyEncoding.IDENTITY, BodyEncoding.IDENTITY):
        return
    unknown = pc.invert(pc.is_in(encodings, value_set=_BODY_ENCODINGS))
    yield from _first(unknown, lambda index: refusals.unknown_encoding(encodings[index].as_py()))


def _check_times(checked: _Checked, _: int) -> _Violations:
    """Not one of Apache's rules: its protocol has no other times, but columns do."""
    first_us, last_us = limits.TIMES_MS[0] * 1000, limits.TIMES_MS[1] * 1000 + 999
    for name in ("bornTimestamp", "deliveryTimestamp"):
        times = checked.batch.column(name).cast(pa.int64())
        found = find_range(times)
        if found.least < first_us or found.greatest > last_us:
            outside = pc.or_(pc.less(times, first_us), pc.greater(times, last_us))
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
    times, groups, count = batch.column("deliveryTimestamp"), find_message_groups(batch), batch.num_rows
    if times.null_count == groups.null_count == count and "priority" not in batch.schema.names:
        return columns.share_constant_column(TopicType.NORMAL.value, pa.string(), count)
    delayed, grouped = pc.is_valid(times), pc.is_valid(groups)
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
