"""The ids of rows are the same whatever the order of the rows, and different for different rows."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.sink.repeats import BATCH_ID, ROW_ID, WRITER_ID
from pyspark_rmqpull.sink.row_ids import RowIds
from rmqpull_proto import columns as wire

ROWS = st.lists(st.tuples(st.binary(min_size=1, max_size=2), st.none() | st.sampled_from(["a", "b"])), max_size=20)


def batch(rows: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(
        {"body": pa.array([r[0] for r in rows], pa.binary()), "tags": pa.array([r[1] for r in rows], pa.string())}
    )


def ids(rows: pa.RecordBatch, partition_id: int = 3, topic: str = "orders") -> list[str]:
    added = RowIds("query", 7, partition_id).added(topic, rows)
    return [dict(properties)[ROW_ID] for properties in added.column("properties").to_pylist()]


@given(ROWS, st.randoms())
def test_shuffled_rows_have_the_same_ids(rows: list[Any], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    first = sorted(zip(rows, ids(batch(rows)), strict=True), key=repr)
    again = sorted(zip(shuffled, ids(batch(shuffled)), strict=True), key=repr)
    assert first == again
    assert len({row_id for _, row_id in first}) == len(rows)


def test_rows_of_other_tasks_and_topics_have_other_ids() -> None:
    rows = batch([(b"x", None)])
    assert len({*ids(rows), *ids(rows, partition_id=4), *ids(rows, topic="payments")}) == 3


def test_the_order_of_properties_means_nothing() -> None:
    def of(*properties: tuple[str, str]) -> pa.RecordBatch:
        return pa.record_batch({"body": pa.array([b"x"]), "properties": pa.array([properties], wire.PROPERTIES)})

    assert ids(of(("a", "1"), ("b", "2"))) == ids(of(("b", "2"), ("a", "1")))
    assert ids(of(("a", "1"))) != ids(of(("a", "2")))


def test_the_count_goes_on_from_batch_to_batch() -> None:
    row_ids, rows = RowIds("query", 7, 0), batch([(b"x", None)])
    first, second = (row_ids.added("orders", rows).column("properties")[0].as_py() for _ in range(2))
    assert (dict(first)[ROW_ID][-2:], dict(second)[ROW_ID][-2:]) == ("-1", "-2")


def test_a_message_says_its_query_and_batch_beside_its_own_properties() -> None:
    rows = pa.record_batch({"body": pa.array([b"x"]), "properties": pa.array([[("own", "1")]], wire.PROPERTIES)})
    (properties,) = RowIds("query", 7, 0).added("orders", rows).column("properties").to_pylist()
    assert properties[:3] == [("own", "1"), (WRITER_ID, "query"), (BATCH_ID, "7")]
    (of_write,) = RowIds("write", None, 0).added("orders", rows).column("properties").to_pylist()
    assert [name for name, _ in of_write] == ["own", WRITER_ID, ROW_ID]


def test_a_time_beyond_python_s_is_only_a_number() -> None:
    rows = pa.record_batch({"body": pa.array([b"x"]), "deliveryTimestamp": pa.array([1 << 62], wire.TIMESTAMP)})
    assert len(ids(rows)) == 1
