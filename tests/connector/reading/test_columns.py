"""Pulled columns as Spark's batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_rmqpull.reading.columns import RowColumns
from pyspark_rmqpull.schema import ROW_SCHEMA, SELECTABLE
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import QueueRows
from rmqpull_proto import columns as wire

A0, B1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 1)


def selection(*names: str) -> StructType:
    return StructType([SELECTABLE[name] for name in names])


def pulled(offsets: Sequence[int], *wanted: str) -> pa.RecordBatch:
    """Rows as the broker sends them: bodies say their offsets, everything else is null."""
    values: dict[str, list[Any]] = {"queueOffset": list(offsets), "body": [b"m%d" % offset for offset in offsets]}
    schema = wire.pulled_schema(wanted)
    return pa.record_batch(
        [pa.array(values.get(field.name, [None] * len(offsets)), field.type) for field in schema], schema=schema
    )


SELECTIONS = [
    ROW_SCHEMA,
    selection("body"),
    selection("body", "queueOffset", "topic"),
    selection("queueId", "keys", "properties", "brokerName", "bornTimestamp"),
    selection("systemProperties", "properties", "body"),
    StructType([StructField("body", ROW_SCHEMA["body"].dataType, metadata={"comment": "the payload"})]),
]


@pytest.mark.parametrize("schema", SELECTIONS, ids=lambda schema: ",".join(schema.fieldNames()[:3]))
def test_the_arrow_schema_is_exactly_sparks(schema: StructType) -> None:
    columns = RowColumns(schema)
    (batch,) = columns.batches([QueueRows(A0, [pulled([1, 2], *columns.wanted)])])
    assert batch.schema == to_arrow_schema(schema, timezone="UTC")


@pytest.mark.parametrize(
    ("names", "travelling"),
    [
        (["body"], ["body", "bodyEncoding", "queueOffset"]),
        (["topic", "body", "queueId", "tags"], ["body", "tags", "bodyEncoding", "queueOffset"]),
        (["tags"], ["tags"]),
        (["topic", "brokerName", "queueId"], ["queueOffset"]),
        (ROW_SCHEMA.fieldNames(), [*ROW_SCHEMA.fieldNames()[3:], "bodyEncoding"]),
    ],
)
def test_only_wanted_columns_travel(names: list[str], travelling: list[str]) -> None:
    assert RowColumns(selection(*names)).wanted == travelling


def test_rows_of_queues_and_batches_keep_their_order() -> None:
    columns = RowColumns(selection("body", "brokerName", "queueId", "topic", "queueOffset"))
    first = QueueRows(A0, [pulled([5, 6], *columns.wanted), pulled([7], *columns.wanted)])
    second = QueueRows(B1, [pulled([1], *columns.wanted)])
    (batch,) = columns.batches([first, second])
    assert list(zip(*batch.to_pydict().values(), strict=True)) == [
        (b"m5", "a", 0, "orders", 5),
        (b"m6", "a", 0, "orders", 6),
        (b"m7", "a", 0, "orders", 7),
        (b"m1", "b", 1, "orders", 1),
    ]


def test_rows_are_counted_when_no_column_of_them_travels() -> None:
    columns = RowColumns(selection("queueId"))
    (batch,) = columns.batches([QueueRows(B1, [pulled([3, 4], *columns.wanted)])])
    assert batch.to_pydict() == {"queueId": [1, 1]}


def test_a_single_piece_is_not_copied() -> None:
    piece = pulled([1, 2], "body", "bodyEncoding", "queueOffset")
    (batch,) = RowColumns(selection("body")).batches([QueueRows(A0, [piece])])
    assert batch["body"].buffers()[2].address == piece["body"].buffers()[2].address


@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ([6_000, 6_000], [6_000, 6_000]),
        ([6_000, 4_000, 1], [10_000, 1]),
        ([1, 10_000, 1], [1, 10_000, 1]),
        ([20_000, 5], [20_000, 5]),
        ([3_000, 3_000, 3_000, 3_000], [9_000, 3_000]),
    ],
)
def test_stored_batches_are_put_together_up_to_one_of_sparks_and_never_cut(
    stored: Sequence[int], given: Sequence[int]
) -> None:
    pieces = [pulled(range(count), "queueOffset") for count in stored]
    rows = [QueueRows(A0, pieces[:2]), QueueRows(B1, pieces[2:])]
    assert [batch.num_rows for batch in RowColumns(selection("queueOffset")).batches(rows)] == given


def test_bytes_end_a_batch_too() -> None:
    body, number = pa.array([bytes(3 << 20)]), pa.array([1])
    piece = pa.record_batch({"queueOffset": number, "body": body, "bodyEncoding": pa.array([1], pa.int32())})
    batches = RowColumns(selection("body")).batches([QueueRows(A0, [piece, piece])])
    assert [batch.num_rows for batch in batches] == [1, 1]
