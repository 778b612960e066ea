"""Message properties: all of a stored message in one map, the size of its record, and what filters see of them.

RocketMQ stores every property of a message in one map (rules 3.10.1, 4.8, 6.1). The byte limit of a pull counts the
size of its record (rules 3.2.2, 4.7). Filter expressions read properties as columns (rules 3.12.2, 5.11).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import limits
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.born_hosts import is_named, make_named_columns
from rmqpull_broker.core.messages.columns import format_milliseconds
from rmqpull_broker.core.messages.hidden_properties import drop_hidden, drop_hidden_columns
from rmqpull_broker.core.model import Message
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_proto.remoting import properties as names
from rmqpull_proto.remoting import record_layout as layout

_SEPARATORS = 2
_UTF8_BYTES_MAX = 4
_OWN_BYTES_MAX = 4_096
"""More than the characters of all of RocketMQ's own names and short values together."""
_OWN_ENTRIES_BYTES_MAX = 512
"""More than the bytes of the names, separators and numbers of RocketMQ's own properties, and of two IPv6 hosts."""
NOT_RESERVED = {names.SHARDING_KEY: "messageGroup", names.TRACE_CONTEXT: "traceContext"}
"""RocketMQ's own properties, with their columns, that a user may also set. Then the user's value is not stored."""


def make_common_properties(broker: BrokerProperties) -> dict[str, str]:
    """Returns the properties that every message of a broker has. They are not stored in each message."""
    return {
        names.MSG_REGION: broker.region_id,
        names.TRACE_ON: str(broker.trace_on).lower(),
        names.CLUSTER: broker.broker_cluster_name,
    }


def make_stored_properties(message: Message, broker: BrokerProperties) -> dict[str, str]:
    """Returns all properties of a stored message as a remoting consumer gets them."""
    fields = {
        names.TAGS: message.tags,
        names.KEYS: " ".join(message.keys) or None,
        names.UNIQ_KEY: message.msg_id or None,
        names.SHARDING_KEY: message.message_group,
        names.TRACE_CONTEXT: message.trace_context,
        names.TIMER_DELIVER_MS: None if message.delivery_timestamp_ms is None else str(message.delivery_timestamp_ms),
    }
    if is_named(message.born_host):
        fields |= {names.BORN_HOST: message.born_host, names.BORN_TIMESTAMP: str(message.born_timestamp_ms)}
    own = {name: value for name, value in fields.items() if value is not None}
    common = make_common_properties(broker)
    given = {**message.properties, **drop_hidden(message.system_properties)}
    if not given.keys().isdisjoint(own):
        given = {name: value for name, value in given.items() if name not in own}
    return {**given, **own, **common}


def exceeds_stored_properties(message: Message, broker: BrokerProperties) -> bool:
    """Whether the properties string is too long to be stored: each name and value ends with one byte (rules 4.8)."""
    texts = (*message.keys, *message.properties.values(), *message.system_properties.values())
    others = (message.msg_id, message.born_host, message.tags, message.message_group, message.trace_context)
    length = sum(map(len, texts)) + sum(len(text) for text in others if text)
    length += sum(map(len, message.properties)) + _SEPARATORS * len(message.properties) + _OWN_BYTES_MAX
    if _UTF8_BYTES_MAX * length <= limits.STORED_PROPERTIES_BYTES_MAX:
        return False
    entries = make_stored_properties(message, broker).items()
    return sum(_count_entry_bytes(name, value) for name, value in entries) > limits.STORED_PROPERTIES_BYTES_MAX


def count_record_bytes(batch: pa.RecordBatch, topic: str, broker: BrokerProperties) -> pa.Array:
    """Returns the size of each message as a record in the commit log of Apache's broker (int64).

    ``batch`` has the columns of ``columns.STORED_SCHEMA``; its messages are in a queue of ``topic``. This is
    ``storeSize``, not the size in the commit log of this broker.
    """
    fixed = _count_fixed_bytes(topic, broker)
    parts = [
        columns.count_text_bytes(batch, ["body"]),
        *(pc.multiply(_is_ipv6(batch.column(name)), layout.IPV6_MORE_BYTES) for name in ("bornHost", "storeHost")),
        columns.count_map_bytes(batch.column("properties"), _SEPARATORS),
        columns.count_map_bytes(drop_hidden_columns(batch.column("systemProperties")), _SEPARATORS),
        *(_count_own_bytes(name, texts) for name, texts in make_named_columns(batch).items()),
        *(
            _count_own_bytes(name, batch.column(column))
            for name, column in {names.TAGS: "tags", **NOT_RESERVED}.items()
        ),
        _count_own_bytes(names.UNIQ_KEY, _drop_empty(batch.column("msgId"))),
        _count_own_bytes(names.KEYS, _drop_empty(pc.binary_join(batch.column("keys"), " "))),
        _count_own_bytes(names.TIMER_DELIVER_MS, columns.format_milliseconds(batch.column("deliveryTimestamp"))),
    ]
    hidden = [_count_hidden_bytes(batch, name, column) for name, column in NOT_RESERVED.items()]
    return reduce(pc.subtract, hidden, pc.add(reduce(pc.add, parts), fixed))


def find_record_bytes_max(batch: pa.RecordBatch, topic: str, broker: BrokerProperties) -> int:
    """Returns an upper bound for the sum of :func:`count_record_bytes`, which is quick because it visits no row.

    In a batch, each text takes its own bytes and at least four more.
    """
    bytes_max: int = batch.nbytes + batch.num_rows * (_count_fixed_bytes(topic, broker) + _OWN_ENTRIES_BYTES_MAX)
    return bytes_max


def _count_fixed_bytes(topic: str, broker: BrokerProperties) -> int:
    """Returns the bytes that every record of a topic has."""
    topic_bytes = len(topic.encode())
    common = sum(_count_entry_bytes(name, value) for name, value in make_common_properties(broker).items())
    return layout.RECORD_BYTES_MIN + topic_bytes + (1 if topic_bytes > layout.SHORT_TOPIC_BYTES else 0) + common


def _count_entry_bytes(name: str, value: str) -> int:
    return len(name.encode()) + len(value.encode()) + _SEPARATORS


def _count_own_bytes(name: str, texts: pa.Array) -> pa.Array:
    """Returns the bytes of a property in each row; 0 where it is missing."""
    return pc.cast(pc.fill_null(pc.add(pc.binary_length(texts), len(name) + _SEPARATORS), 0), pa.int64())


def _is_ipv6(hosts: pa.Array) -> pa.Array:
    """Returns 1 for each IPv6 address, with or without a port, and 0 for any other."""
    return pc.cast(pc.greater(pc.fill_null(pc.count_substring(hosts, ":"), 0), 1), pa.int64())


def _drop_empty(texts: pa.Array) -> pa.Array:
    return columns.set_null(texts, pc.equal(texts, ""))


def _count_hidden_bytes(batch: pa.RecordBatch, name: str, column: str) -> pa.Array:
    """Returns the bytes of a user's property where RocketMQ's own of the same name, in ``column``, replaces it."""
    users = pc.map_lookup(batch.column("properties"), name, "first")
    is_hidden = pc.is_valid(batch.column(column))
    return pc.if_else(is_hidden, _count_own_bytes(name, users), pa.scalar(0, pa.int64()))


def _text(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: batch.column(column)


def _joined(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.binary_join(batch.column(column), " ")


def _milliseconds(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: format_milliseconds(batch.column(column))


_SYSTEM_COLUMNS: dict[str, Callable[[pa.RecordBatch], pa.Array]] = {
    names.TAGS: _text("tags"),
    names.KEYS: _joined("keys"),
    names.UNIQ_KEY: _text("msgId"),
    names.SHARDING_KEY: _text("messageGroup"),
    names.TIMER_DELIVER_MS: _milliseconds("deliveryTimestamp"),
    names.TRACE_CONTEXT: _text("traceContext"),
}
"""RocketMQ's own properties that are columns of stored messages."""


def make_property_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns the texts of one property, a user's or RocketMQ's own, in the rows of a batch; null where it is missing.

    An empty text counts as missing (rules 4.8, 6.1).
    """
    in_column = _SYSTEM_COLUMNS.get(name)
    if in_column:
        texts = in_column(batch)
    else:
        maps = (batch.column("systemProperties"), batch.column("properties"))
        texts = pc.coalesce(*(pc.map_lookup(column, name, "first") for column in maps))
        if name in (names.BORN_HOST, names.BORN_TIMESTAMP):
            texts = pc.coalesce(texts, *(column for own, column in make_named_columns(batch).items() if own == name))
    return columns.set_null(texts, pc.equal(texts, ""))


class Combinations(NamedTuple):
    """The distinct combinations of values in some columns, and the combination of each row."""

    columns: Sequence[pa.Array]
    """The columns, with one row for each combination."""
    row_combinations: pa.Array
    """The index of each row's combination."""

    @property
    def size(self) -> int:
        """How many combinations there are."""
        return len(self.columns[0])

    def rows(self) -> Iterable[tuple[str | None, ...]]:
        """Returns the combinations as tuples."""
        return zip(*(column.to_pylist() for column in self.columns), strict=True)


def find_combinations(columns: Sequence[pa.Array]) -> Combinations:
    """Finds the distinct combinations in one or more columns of texts, without a Python object for each row."""
    first, *others = (column.dictionary_encode(null_encoding="encode") for column in columns)
    if not others:
        return Combinations([first.dictionary], first.indices)
    combinations = first.indices
    for other in others:
        count = pa.scalar(max(len(other.dictionary), 1), pa.int64())
        numbers = pc.add(pc.multiply(combinations.cast(pa.int64()), count), other.indices.cast(pa.int64()))
        combinations = numbers.dictionary_encode().indices
    rows = pa.table({"combination": combinations, "row": pa.array(range(len(combinations)), pa.int64())})
    firsts = rows.group_by("combination").aggregate([("row", "min")]).sort_by("combination")
    places = firsts.column("row_min").combine_chunks()
    return Combinations([column.take(places) for column in columns], combinations)
