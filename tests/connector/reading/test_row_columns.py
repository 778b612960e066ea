"""Pulled rows become the batches that Spark takes."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from pyspark_rmqpull.reading.row_columns import RowColumns
from pyspark_rmqpull.schema import ROW_SCHEMA, SELECTABLE
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import QueueRows
from rmqpull_proto import columns as wire

A0, B1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 1)


def selection(*names: str) -> StructType:
    return StructType([SELECTABLE[name] for name in names])


def make_pulled(offsets: Sequence[int], *wanted: str) -> pa.RecordBatch:
    """Rows as the broker sends them: bodies say their offsets, everything else is null."""
    values: dict[str, list[Any]] = {"queueOffset": list(offsets), "body": [b"m%d" % offset for offset in offsets]}
    schema = wire.select_pulled(wanted)
    return pa.record_batch(
        [pa.array(values.get(field.name, [None] * len(offsets)), field.type) for field in schema], schema=schema
    )


SELECTIONS = [
    ROW_SCHEMA,
    selection("body"),
    selection("body", "queueOffset", "topic"),
    selection("queueId", "keys", "properties", "brokerName", "bornTimestamp"),
    selection("systemProperties", "properties", "body"),
    selection("priority", "body"),
    selection("priority", "systemProperties"),
    StructType([StructField("body", ROW_SCHEMA["body"].dataType, metadata={"comment": "the payload"})]),
]


@pytest.mark.parametrize("schema", SELECTIONS, ids=lambda schema: ",".join(schema.fieldNames()[:3]))
def test_the_arrow_schema_is_exactly_sparks(schema: StructType) -> None:
    columns = RowColumns(schema)
    (batch,) = columns.make_batches([QueueRows(A0, [make_pulled([1, 2], *columns.columns_to_pull)])])
    named: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    assert batch.schema == to_arrow_schema(schema, **named)


@pytest.mark.parametrize(
    ("names", "pulled"),
    [
        (["body"], ["body", "bodyEncoding", "queueOffset"]),
        (["topic", "body", "queueId", "tags"], ["body", "tags", "bodyEncoding", "queueOffset"]),
        (["tags"], ["tags"]),
        (["topic", "brokerName", "queueId"], ["queueOffset"]),
        (ROW_SCHEMA.fieldNames(), [*ROW_SCHEMA.fieldNames()[3:], "bodyEncoding"]),
    ],
)
def test_only_needed_columns_are_pulled(names: list[str], pulled: list[str]) -> None:
    assert RowColumns(selection(*names)).columns_to_pull == pulled


def test_rows_of_queues_and_batches_keep_their_order() -> None:
    columns = RowColumns(selection("body", "brokerName", "queueId", "topic", "queueOffset"))
    first = QueueRows(A0, [make_pulled([5, 6], *columns.columns_to_pull), make_pulled([7], *columns.columns_to_pull)])
    second = QueueRows(B1, [make_pulled([1], *columns.columns_to_pull)])
    (batch,) = columns.make_batches([first, second])
    assert list(zip(*batch.to_pydict().values(), strict=True)) == [
        (b"m5", "a", 0, "orders", 5),
        (b"m6", "a", 0, "orders", 6),
        (b"m7", "a", 0, "orders", 7),
        (b"m1", "b", 1, "orders", 1),
    ]


def test_rows_are_counted_even_when_all_columns_are_constant() -> None:
    columns = RowColumns(selection("queueId"))
    (batch,) = columns.make_batches([QueueRows(B1, [make_pulled([3, 4], *columns.columns_to_pull)])])
    assert batch.to_pydict() == {"queueId": [1, 1]}


def test_a_single_piece_is_not_copied() -> None:
    piece = make_pulled([1, 2], "body", "bodyEncoding", "queueOffset")
    (batch,) = RowColumns(selection("body")).make_batches([QueueRows(A0, [piece])])
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
def test_stored_batches_are_joined_up_to_the_size_of_sparks_and_never_split(
    stored: Sequence[int], given: Sequence[int]
) -> None:
    pieces = [make_pulled(range(count), "queueOffset") for count in stored]
    rows = [QueueRows(A0, pieces[:2]), QueueRows(B1, pieces[2:])]
    assert [batch.num_rows for batch in RowColumns(selection("queueOffset")).make_batches(rows)] == given


def test_bytes_end_a_batch_too() -> None:
    body, number = pa.array([bytes(3 << 20)]), pa.array([1])
    piece = pa.record_batch({"queueOffset": number, "body": body, "bodyEncoding": pa.array([1], pa.int32())})
    batches = RowColumns(selection("body")).make_batches([QueueRows(A0, [piece, piece])])
    assert [batch.num_rows for batch in batches] == [1, 1]


def test_the_priority_is_read_from_rocketmqs_property() -> None:
    """As ``Message.getPriority`` of 5.5.0; null where that is -1."""
    given = [("0", 0), ("7", 7), ("2147483647", 2**31 - 1), ("2147483648", None), ("-1", None), ("", None), ("x", None)]
    maps = [[("CLUSTER", "c"), ("_SYS_MSG_PRIORITY_", text)] for text, _ in given]
    column = pa.array([[], *maps, [("CLUSTER", "5")], None], wire.PROPERTIES)
    columns = RowColumns(selection("priority"))
    assert columns.columns_to_pull == ["systemProperties"]
    for rows in (slice(0, 10), slice(2, 5), slice(8, 10)):
        pulled = pa.record_batch({"systemProperties": column[rows]})
        (batch,) = columns.make_batches([QueueRows(A0, [pulled])])
        wanted = [None, *(value for _, value in given), None, None]
        assert batch.column("priority").to_pylist() == wanted[rows]
