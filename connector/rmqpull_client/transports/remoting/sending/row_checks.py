"""Checks rows before they are sent. Brokers do not look into properties, and store some rows that nobody can read.

The rules are those of Apache's clients (rules 1.18, 4.8), and what a broker is known to refuse (rules 3.10.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_proto import columns as wire
from rmqpull_proto.remoting.properties import RESERVED

BODY_BYTES_MAX = 15 << 20
"""A frame has at most 16 MiB, properties included. Brokers check their own ``maxMessageSize``, by default 4 MiB."""
PROPERTIES_BYTES_MAX = 32_767
UNSENT_COLUMNS = ("bornTimestamp", "bornHost")
"""Columns of a publish that cannot be sent: a broker sets them."""

_SEPARATORS = "[\x01\x02]"
_RESERVED = pa.array(sorted(RESERVED), pa.string())
_ENCODINGS = pa.array(sorted(wire.BODY_ENCODINGS.values()), pa.int32())


def find_other_types(rows: pa.RecordBatch, types: frozenset[str]) -> dict[int, str]:
    """Returns the message types of rows that a topic with a single type does not take, by row (rules 5.11, row 15)."""
    if len(types) != 1:
        return {}
    names, kinds = rows.schema.names, pa.repeat("NORMAL", rows.num_rows)
    if "messageGroup" in names:
        kinds = pc.if_else(pc.invert(_is_empty(rows.column("messageGroup"))), "FIFO", kinds)
    if "deliveryTimestamp" in names:
        kinds = pc.if_else(rows.column("deliveryTimestamp").is_valid(), "DELAY", kinds)
    others = np.flatnonzero(pc.not_equal(kinds, next(iter(types))).to_numpy(zero_copy_only=False))
    return {row: kinds[row].as_py() for row in others.tolist()}


class _Broken(NamedTuple):
    """For each value of a column, whether it breaks a rule; and the reason. ``parents`` are rows of nested values."""

    values: pa.Array
    explain: Callable[[int], str]
    parents: pa.Array | None = None


def find_illegal_rows(rows: pa.RecordBatch) -> dict[int, str]:
    """Returns why rows cannot be messages, by row: the first rule that each breaks.

    ``rows`` has columns of ``rmqpull_client.PUBLISH_SCHEMA``.
    """
    reasons: dict[int, str] = {}
    for values, explain, parents in _find_broken(rows):
        for index in np.flatnonzero(pc.fill_null(values, False).to_numpy(zero_copy_only=False)).tolist():
            row = index if parents is None else parents[index].as_py()
            reasons.setdefault(row, explain(index))
    return reasons


def _find_broken(rows: pa.RecordBatch) -> Iterator[_Broken]:
    names = rows.schema.names
    lengths = pc.fill_null(pc.binary_length(rows.column("body")), 0)
    yield _Broken(pc.equal(lengths, 0), lambda _: "its body is empty")
    too_long = f"its body has more than {BODY_BYTES_MAX} bytes, the limit of a request"
    yield _Broken(pc.greater(lengths, BODY_BYTES_MAX), lambda _: too_long)
    if "bodyEncoding" in names:
        encodings = rows.column("bodyEncoding")
        known = pc.or_(encodings.is_null(), pc.is_in(encodings, value_set=_ENCODINGS))
        yield _Broken(pc.invert(known), lambda index: f"its bodyEncoding is {encodings[index]}, which is unknown")
    for name in ("tags", "messageGroup", "msgId"):
        if name in names:
            yield from _find_separators(rows.column(name), f"its column {name}")
    if "tags" in names:
        yield _Broken(pc.match_substring(rows.column("tags"), "|"), lambda _: "its tag has a |, which separates tags")
    if "keys" in names:
        yield from _find_broken_keys(rows.column("keys"))
    if "properties" in names:
        yield from _find_broken_properties(rows.column("properties"))


def _find_broken_keys(lists: pa.Array) -> Iterator[_Broken]:
    keys, parents = lists.flatten(), pc.list_parent_indices(lists)
    yield _Broken(_is_empty(keys), lambda _: "one of its keys is empty", parents)
    yield from _find_separators(keys, "one of its keys", parents)


def _find_broken_properties(maps: pa.MapArray) -> Iterator[_Broken]:
    as_lists = pa.ListArray.from_arrays(maps.offsets, maps.keys)
    first, end = as_lists.offsets[0].as_py(), as_lists.offsets[-1].as_py()
    names, values = (column.slice(first, end - first) for column in (maps.keys, maps.items))
    parents = pc.list_parent_indices(as_lists)
    yield _Broken(_is_empty(names), lambda _: "a property has an empty name", parents)
    yield _Broken(
        pc.is_in(names, value_set=_RESERVED), lambda index: f"property {names[index]} is RocketMQ's own", parents
    )
    yield _Broken(
        _is_empty(values),
        lambda index: f"property {names[index]} is empty, and RocketMQ drops empty properties",
        parents,
    )
    yield from _find_separators(names, "the name of a property", parents)
    yield from _find_separators(values, "the value of a property", parents)


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)


def _find_separators(texts: pa.Array, what: str, parents: pa.Array | None = None) -> Iterator[_Broken]:
    """Finds the characters with which RocketMQ separates properties."""
    if _may_have_separators(texts):
        reason = f"{what} has a character 1 or 2, with which RocketMQ separates properties"
        yield _Broken(pc.match_substring_regex(texts, _SEPARATORS), lambda _: reason, parents)


def _may_have_separators(texts: pa.Array) -> bool:
    """Looks at all bytes at once, which takes a fraction of the time of a search in each text."""
    content = texts.buffers()[2]
    if content is None or not len(texts):
        return False
    data = np.frombuffer(content, np.uint8)
    return bool(((data == 1) | (data == 2)).any())
