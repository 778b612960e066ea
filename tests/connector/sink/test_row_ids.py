"""The id of a row does not depend on the order of the rows, and differs for different rows."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.encoding import RowEncoder
from pyspark_rmqpull.sink.repeats import ID
from pyspark_rmqpull.sink.row_ids import RowIds
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.transports.property_rules import KEPT_BY_PROXIES
from rmqpull_proto import columns as wire

VALUES = st.tuples(st.binary(min_size=1, max_size=2), st.none() | st.sampled_from(["a", "b"]))
ROWS = st.lists(VALUES, min_size=1, max_size=20)

TEXTS = st.text("a,: 1\u00e9", max_size=3)
MESSAGES = st.fixed_dictionaries(
    {
        "body": st.binary(min_size=1, max_size=2),
        "tags": st.none() | TEXTS,
        "keys": st.none() | st.lists(TEXTS, max_size=2),
        "properties": st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2),
        "messageGroup": st.none() | TEXTS,
        "deliveryTimestamp": st.none() | st.integers(0, 11),
    }
)


def batch(rows: list[Any]) -> pa.RecordBatch:
    return pa.record_batch(
        {"body": pa.array([r[0] for r in rows], pa.binary()), "tags": pa.array([r[1] for r in rows], pa.string())}
    )


def ids(rows: pa.RecordBatch, partition_id: int = 3, topic: str = "orders") -> list[str]:
    return [dict(own)[ID] for own in properties(RowIds("query", 7, partition_id), rows, topic)]


def properties(row_ids: RowIds, rows: pa.RecordBatch, topic: str = "orders") -> list[list[tuple[str, str]]]:
    added: list[list[tuple[str, str]]] = (
        row_ids.add_ids(PartedRows.of_topic(topic, rows)).rows["properties"].to_pylist()
    )
    return added


@given(ROWS, st.randoms())
def test_shuffled_rows_have_the_same_ids(rows: list[Any], random: Any) -> None:
    shuffled = random.sample(rows, len(rows))
    first = sorted(zip(rows, ids(batch(rows)), strict=True), key=repr)
    again = sorted(zip(shuffled, ids(batch(shuffled)), strict=True), key=repr)
    assert first == again
    assert len({row_id for _, row_id in first}) == len(rows)


@given(st.lists(MESSAGES, min_size=1, max_size=8), st.data())
def test_rows_have_the_same_id_when_they_are_the_same_message(rows: list[Any], data: Any) -> None:
    """This holds for slices too. Null and an empty list or map make the same message."""
    names = list(rows[0])
    given = [{**row, "properties": row["properties"] and [*row["properties"].items()]} for row in rows]
    columns = [pa.array([row[name] for row in given], wire.PUBLISH_SCHEMA.field(name).type) for name in names]
    first = data.draw(st.integers(0, len(rows) - 1))
    batch = pa.RecordBatch.from_arrays(columns, names)
    found = [ids(batch.slice(row, 1))[0] for row in range(first, len(rows))]
    messages = []
    for row in rows[first:]:
        as_sent = {**row, "keys": row["keys"] or [], "properties": sorted((row["properties"] or {}).items())}
        messages.append(repr([as_sent[name] for name in names]))
    assert len(set(found)) == len(set(messages)) == len(set(zip(found, messages, strict=True)))
    assert len(set(ids(batch))) == len(rows), "equal rows of a task are counted"


def test_rows_differ_by_where_a_text_ends() -> None:
    """These rows are equal once their columns are joined."""
    pairs = [("ab", "c"), ("a", "bc"), ("a:", "b"), ("a", ":b"), ("", "x"), (None, "x"), ("x", None)]
    columns = [pa.array(texts, pa.string()) for texts in zip(*pairs, strict=True)]
    body = pa.array([b"x"] * len(pairs))
    rows = pa.RecordBatch.from_arrays([body, *columns], ["body", "tags", "messageGroup"])
    assert len(set(ids(rows))) == len(pairs)


def test_rows_of_other_writes_tasks_and_topics_have_other_ids() -> None:
    rows = batch([(b"x", None)])
    of_tasks = [RowIds(*task) for task in (("query", 7, 3), ("query", 7, 4), ("query", 8, 3), ("other", 7, 3))]
    of_tasks.append(RowIds("query", None, 3))
    found = [dict(properties(row_ids, rows)[0])[ID] for row_ids in of_tasks] + ids(rows, topic="payments")
    assert len(set(found)) == len(of_tasks) + 1


def test_an_id_is_small() -> None:
    """RocketMQ stores the name, the value and two separators."""
    assert {len(ID) + len(row_id) for row_id in ids(batch([(b"x", None), (b"y", "a")]))} == {31}


def test_a_row_has_the_same_id_whatever_other_topics_its_batch_has() -> None:
    late = pa.array([None, 5, None], pa.timestamp("us", "UTC"))
    rows = pa.record_batch(
        {"body": [b"1", b"2", b"1"], "topic": ["orders", "late", "orders"], "deliveryTimestamp": late}
    )
    encoder = RowEncoder(SinkOptions.from_options({"endpoints": "a:1"}), lambda topic: topic == "late", KEPT_BY_PROXIES)

    def ids_of(given: pa.RecordBatch) -> list[str]:
        added = RowIds("query", 7, 0).add_ids(encoder.make_messages(given)[0])
        return [dict(properties)[ID] for properties in added.rows.column("properties").to_pylist()]

    orders, others = rows.take([0, 2]), rows.slice(1, 1)
    assert ids_of(rows) == ids_of(orders) + ids_of(others)


def test_the_order_of_properties_does_not_matter() -> None:
    def of(*properties: tuple[str, str]) -> pa.RecordBatch:
        return pa.record_batch({"body": pa.array([b"x"]), "properties": pa.array([properties], wire.PROPERTIES)})

    assert ids(of(("a", "1"), ("b", "2"))) == ids(of(("b", "2"), ("a", "1")))
    assert ids(of(("a", "1"))) != ids(of(("a", "2")))


def test_a_small_row_has_the_same_id_beside_a_large_one_that_is_compressed() -> None:
    """A retry may bring it in another batch."""
    encoder = RowEncoder(
        SinkOptions.from_options({"endpoints": "a:1", "topic": "orders"}), lambda _: False, KEPT_BY_PROXIES
    )

    def id_beside(*others: bytes) -> str:
        (part, _) = encoder.make_messages(pa.record_batch({"body": [b"small", *others]}))
        return ids(part.rows)[0]

    assert id_beside() == id_beside(b"x" * 10_000)


def test_the_count_continues_from_batch_to_batch() -> None:
    row_ids, rows = RowIds("query", 7, 3), batch([(b"x", None)])
    apart = [dict(properties(row_ids, rows)[0])[ID] for _ in range(2)]
    assert apart == ids(batch([(b"x", None)] * 2))
    assert apart[0] != apart[1]


def test_a_message_has_its_id_behind_its_own_properties() -> None:
    own = pa.array([[("own", "1")], None, [("b", "2"), ("a", "1")]], wire.PROPERTIES)
    rows = pa.record_batch({"body": pa.array([b"x"] * 3), "properties": own})
    named = [[name for name, _ in of_row] for of_row in properties(RowIds("query", 7, 0), rows)]
    assert named == [["own", ID], [ID], ["a", "b", ID]]


def test_a_time_beyond_python_s_is_only_a_number() -> None:
    rows = pa.record_batch({"body": pa.array([b"x"]), "deliveryTimestamp": pa.array([1 << 62], wire.TIMESTAMP)})
    assert len(ids(rows)) == 1


def test_the_ids_never_change() -> None:
    """A task may be retried by a later release."""
    columns: dict[str, Any] = {
        "body": [b"a body"],
        "tags": ["paid"],
        "keys": [["k1", "k2"]],
        "properties": [[("one", "1"), ("two", "2")]],
        "messageGroup": ["g"],
        "deliveryTimestamp": [datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)],
        "brokerName": ["broker-a"],
        "queueId": [1],
    }
    arrays = [pa.array(values, wire.PUBLISH_SCHEMA.field(name).type) for name, values in columns.items()]
    assert ids(pa.RecordBatch.from_arrays(arrays, list(columns))) == ["Pfr2zK84QRVpyFxbbiNQvg"]
