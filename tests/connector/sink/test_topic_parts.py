"""Rows of many topics are buffered, sorted by topic and cut into calls: none is lost, each topic keeps its order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.sink.topic_parts import (
    CallLimits,
    PartedRows,
    RowBuffer,
    TopicPart,
    cut_calls,
    merge_by_topic,
    sort_by_topic,
)
from rmqpull_proto import columns as wire


def parted(*rows: tuple[str, bytes], **columns: Any) -> PartedRows:
    bodies = pa.record_batch({"body": pa.array([body for _, body in rows], pa.binary()), **columns})
    return sort_by_topic(pa.array([topic for topic, _ in rows], pa.string()), bodies)


def by_topic(batches: list[PartedRows]) -> dict[str, list[bytes]]:
    """The bodies of each topic, in the order of the batches."""
    bodies: dict[str, list[bytes]] = defaultdict(list)
    for batch in batches:
        assert sum(count for _, count in batch.parts) == batch.rows.num_rows
        for topic, rows in batch.by_topic():
            assert rows.num_rows > 0
            bodies[topic] += rows.column("body").to_pylist()
    return bodies


ROWS = st.tuples(st.sampled_from("abcdefg"), st.binary(min_size=1, max_size=60))
LIMITS = st.builds(CallLimits, st.integers(1, 12), st.integers(1, 400), st.integers(1, 4))


@given(st.lists(st.lists(ROWS, max_size=12), max_size=12), LIMITS, st.integers(1, 2_000))
def test_every_row_is_in_one_call_in_the_order_of_its_topic_and_within_the_limits(
    batches: list[list[tuple[str, bytes]]], limits: CallLimits, buffer_bytes: int
) -> None:
    buffer, calls = RowBuffer(limits, buffer_bytes), list[PartedRows]()
    for batch in batches:
        rows = parted(*batch)
        if not buffer.has_room(rows):
            calls += cut_calls(buffer.take_rows(), limits)
        buffer.buffer_rows(rows)
        if buffer.is_full:
            calls += cut_calls(buffer.take_rows(), limits)
    calls += cut_calls(buffer.take_rows(), limits)
    expected = by_topic([parted(row) for batch in batches for row in batch])
    assert by_topic(calls) == expected
    for call in calls:
        topics = [topic for topic, _ in call.parts]
        assert len(set(topics)) == len(topics) <= limits.topic_count
        assert call.rows.num_rows <= limits.row_count
        assert call.rows.nbytes <= limits.byte_count or call.rows.num_rows == 1


def test_topics_keep_the_order_in_which_each_comes_first() -> None:
    rows = merge_by_topic([parted(("b", b"1"), ("a", b"2"), ("b", b"3")), parted(("c", b"4"), ("b", b"5"))])
    assert rows.parts == (TopicPart("b", 3), TopicPart("a", 1), TopicPart("c", 1))
    assert rows.rows.column("body").to_pylist() == [b"1", b"3", b"5", b"2", b"4"]


def test_a_missing_column_is_null_and_a_missing_encoding_is_identity() -> None:
    packed = parted(("a", b"1"), bodyEncoding=pa.array([wire.BODY_ENCODINGS["ZSTD"]], pa.int32()))
    tagged = parted(("b", b"2"), tags=pa.array(["t"]))
    rows = merge_by_topic([packed, tagged]).rows
    assert rows.select(["body", "tags", "bodyEncoding"]).to_pylist() == [
        {"body": b"1", "tags": None, "bodyEncoding": wire.BODY_ENCODINGS["ZSTD"]},
        {"body": b"2", "tags": "t", "bodyEncoding": wire.BODY_ENCODINGS["IDENTITY"]},
    ]


def test_batches_of_one_topic_fill_a_call_and_a_full_one_is_not_copied() -> None:
    buffer = RowBuffer(CallLimits(10, 1 << 20), 1 << 20)
    rows = [parted(*[("a", b"x")] * count) for count in (4, 5, 4, 10)]
    buffer.buffer_rows(rows[0])
    assert buffer.has_room(rows[1])
    buffer.buffer_rows(rows[1])
    assert (buffer.is_full, buffer.has_room(rows[2])) == (False, False)
    assert buffer.take_rows().rows.num_rows == 9
    buffer.buffer_rows(rows[3])
    assert buffer.is_full
    assert buffer.take_rows() is rows[3]
    assert buffer.take_rows().parts == ()


def test_calls_are_as_few_and_as_even_as_they_can_be() -> None:
    rows = parted(*[("a", b"x" * 100)] * 50)
    assert [call.rows.num_rows for call in cut_calls(rows, CallLimits(20, 1 << 20))] == [17, 17, 16]
    assert [call.rows.num_rows for call in cut_calls(rows.slice(0, 2), CallLimits(20, 1))] == [1, 1]
    topics = parted(*[(name, b"x") for name in "abc" for _ in range(4)])
    assert [call.parts for call in cut_calls(topics, CallLimits(100, 1 << 20))] == [((name, 4),) for name in "abc"]
