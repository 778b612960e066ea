"""Prepared batches: the messages of a benchmark's topic, as rows of the source."""

from __future__ import annotations

from functools import cache
from typing import Any

import pyarrow as pa

from rmqpull_proto.columns import PROPERTIES, PULL_SCHEMA

BATCH_ROWS = 10_000
BATCH_BYTES = 4 << 20
"""A batch is as large as one of the source: so many rows, or bytes of bodies."""
PROPERTY = ("source", "bench")
RARE_TAG, OFTEN_TAG = "rare", "often"
_ROW_TYPES: dict[str, pa.DataType] = {
    "topic": pa.string(),
    "brokerName": pa.string(),
    "queueId": pa.int32(),
    **{field.name: field.type for field in PULL_SCHEMA},
}


def rows_of_a_batch(body_bytes: int) -> int:
    """Returns how many messages of this size a batch has."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES // body_bytes))


def bodies(count: int, size: int) -> pa.Array:
    """Returns ``count`` different bodies of ``size`` bytes."""
    return pa.array([f"{number:0{size}d}".encode() for number in range(count)], pa.binary())


def published(count: int, body_bytes: int, rare: int = 0) -> pa.RecordBatch:
    """Returns messages as they are published, with one property each.

    With ``rare``, one message in this many has the rare tag.
    """
    columns = {"body": bodies(count, body_bytes), "properties": pa.array([[PROPERTY]] * count, PROPERTIES)}
    if rare:
        columns["tags"] = pa.array([OFTEN_TAG if number % rare else RARE_TAG for number in range(count)])
    return pa.record_batch(columns)


@cache
def row_batch(names: tuple[str, ...], count: int, body_bytes: int) -> pa.RecordBatch:
    """Returns the named columns of so many rows, as the source returns them for such messages.

    They are made once per process. Spark reuses its Python workers, so only the first round makes them.
    """
    schema = pa.schema([(name, _ROW_TYPES[name]) for name in names])
    return pa.RecordBatch.from_arrays([_column(name, count, body_bytes) for name in names], schema=schema)


def _column(name: str, count: int, body_bytes: int) -> pa.Array:
    kind = _ROW_TYPES[name]
    if name == "body":
        return bodies(count, body_bytes)
    if name == "queueOffset":
        return pa.array(range(count), kind)
    if name == "msgId":
        return pa.array([f"{number:034X}" for number in range(count)], kind)
    value = _constants().get(name)
    return pa.nulls(count, kind) if value is None else pa.array([value] * count, kind)


@cache
def _constants() -> dict[str, Any]:
    times = dict.fromkeys(("bornTimestamp", "storeTimestamp"), 1_700_000_000_000_000)
    hosts = dict.fromkeys(("bornHost", "storeHost"), "127.0.0.1:8081")
    of_queue = {"topic": "rows", "brokerName": "broker-a", "queueId": 0, "reconsumeTimes": 0}
    return {**times, **hosts, **of_queue, "properties": [PROPERTY]}
