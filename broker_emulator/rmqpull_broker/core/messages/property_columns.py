"""Message properties as columns: what filter expressions see of stored messages (rules 3.12.2, 5.11)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages.columns import milliseconds_text
from rmqpull_broker.core.model import SHARDING_KEY


def _text(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: batch.column(column)


def _joined(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: pc.binary_join(batch.column(column), " ")


def _milliseconds(column: str) -> Callable[[pa.RecordBatch], pa.Array]:
    return lambda batch: milliseconds_text(batch.column(column))


_SYSTEM_COLUMNS: dict[str, Callable[[pa.RecordBatch], pa.Array]] = {
    "TAGS": _text("tags"),
    "KEYS": _joined("keys"),
    "UNIQ_KEY": _text("msgId"),
    SHARDING_KEY: _text("messageGroup"),
    "__BORNHOST": _text("bornHost"),
    "BORN_TIMESTAMP": _milliseconds("bornTimestamp"),
    "TIMER_DELIVER_MS": _milliseconds("deliveryTimestamp"),
    "TRACE_CONTEXT": _text("traceContext"),
}
"""RocketMQ's own properties that stored messages have as columns."""


def property_column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """The texts of one property, user's or RocketMQ's own, in the rows of a stored batch; null where it is missing.

    An empty text counts as missing (rules 4.8, 6.1).
    """
    in_column = _SYSTEM_COLUMNS.get(name)
    if in_column:
        texts = in_column(batch)
    else:
        maps = (batch.column("systemProperties"), batch.column("properties"))
        texts = pc.coalesce(*(pc.map_lookup(column, name, "first") for column in maps))
    return pc.if_else(pc.equal(texts, ""), pa.scalar(None, pa.string()), texts)


class Combinations(NamedTuple):
    """The distinct combinations of some columns' values, and which of them each row has."""

    columns: Sequence[pa.Array]
    """The columns, cut down to one row for each combination."""
    row_combinations: pa.Array
    """For each row, the index of its combination."""

    def rows(self) -> Iterable[tuple[str | None, ...]]:
        """The combinations as tuples."""
        return zip(*(column.to_pylist() for column in self.columns), strict=True)


def combinations(columns: Sequence[pa.Array]) -> Combinations:
    """Finds the distinct combinations in at least one column of texts, without a Python object per row."""
    first, *others = (column.dictionary_encode(null_encoding="encode") for column in columns)
    found = Combinations([first.dictionary], first.indices)
    for other in others:
        count = pa.scalar(max(len(other.dictionary), 1), pa.int64())
        numbers = pc.add(pc.multiply(found.row_combinations.cast(pa.int64()), count), other.indices.cast(pa.int64()))
        encoded = numbers.dictionary_encode()
        before = pc.divide(encoded.dictionary, count)
        own = pc.subtract(encoded.dictionary, pc.multiply(before, count))
        known = [column.take(before) for column in found.columns]
        found = Combinations([*known, other.dictionary.take(own)], encoded.indices)
    return found
