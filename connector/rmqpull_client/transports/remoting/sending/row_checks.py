"""Checks rows before they are sent. Brokers do not look into properties, and store some rows that nobody can read.

The rules are those of Apache's clients (rules 1.18, 4.8), and what a broker is known to refuse (rules 3.10.1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.transports.property_rules import KEPT_BY_BROKERS, SEPARATORS, find_uncarried
from rmqpull_proto import columns as wire

BODY_BYTES_MAX = 15 << 20
"""A frame has at most 16 MiB, properties included. Brokers check their own ``maxMessageSize``, by default 4 MiB."""
PROPERTIES_BYTES_MAX = 32_767
UNSENT_COLUMNS = ("bornTimestamp", "bornHost")
"""Columns of a publish that cannot be sent: a broker sets them."""

_ENCODINGS = pa.array(sorted(wire.BODY_ENCODINGS.values()), pa.int32())


def find_other_types(rows: pa.RecordBatch, types: frozenset[str]) -> dict[int, str]:
    """Returns the message types of rows that a topic with a single type does not take, by row (rules 5.11, row 15)."""
    if len(types) != 1:
        return {}
    # A row may fit several types: DELAY wins over FIFO, and FIFO over PRIORITY (rules 3.19).
    names, kinds = rows.schema.names, pa.repeat("NORMAL", rows.num_rows)
    if "priority" in names:
        kinds = pc.if_else(rows.column("priority").is_valid(), "PRIORITY", kinds)
    if "messageGroup" in names:
        kinds = pc.if_else(pc.invert(_is_empty(rows.column("messageGroup"))), "FIFO", kinds)
    if "deliveryTimestamp" in names:
        kinds = pc.if_else(rows.column("deliveryTimestamp").is_valid(), "DELAY", kinds)
    others = np.flatnonzero(pc.not_equal(kinds, next(iter(types))).to_numpy(zero_copy_only=False))
    return {row: kinds[row].as_py() for row in others.tolist()}


def find_without_keys(rows: pa.RecordBatch) -> list[int]:
    """Returns the rows without keys, which a compaction topic loses.

    Its broker refuses such a message, but acknowledges it within a batch, and then no consumer sees it.
    """
    if "keys" not in rows.schema.names:
        return list(range(rows.num_rows))
    counts = pc.fill_null(pc.list_value_length(rows.column("keys")), 0)
    found: list[int] = np.flatnonzero(pc.equal(counts, 0).to_numpy(zero_copy_only=False)).tolist()
    return found


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
    names, values, parents = wire.list_entries(maps)
    for broken, explain in find_uncarried(names, values, KEPT_BY_BROKERS):
        yield _Broken(broken, explain, parents)


def _is_empty(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.equal(pc.binary_length(texts), 0), True)


def _find_separators(texts: pa.Array, what: str, parents: pa.Array | None = None) -> Iterator[_Broken]:
    """Finds the characters with which RocketMQ separates properties."""
    found = SEPARATORS.find(texts)
    if found is not None:
        yield _Broken(found, lambda _: f"{what} has {SEPARATORS.text}", parents)
