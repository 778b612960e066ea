"""The digest of rows: the same however they are ordered and cut, another one for any other rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.row_digest import RowDigest
from rmqpull_proto import columns as wire

SCHEMA = pa.schema(
    {
        "body": pa.binary(),
        "topic": pa.string(),
        "tags": pa.string(),
        "keys": wire.KEYS,
        "properties": wire.PROPERTIES,
        "messageGroup": pa.string(),
        "deliveryTimestamp": pa.timestamp("us", "UTC"),
        "brokerName": pa.string(),
        "queueId": pa.int32(),
    }
)
TIME = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc)
WHOLE: dict[str, Any] = {
    "body": b"a body",
    "topic": "orders",
    "tags": "paid",
    "keys": ["k1", "k2"],
    "properties": {"one": "1", "two": "2"},
    "messageGroup": "g",
    "deliveryTimestamp": TIME,
    "brokerName": "broker-a",
    "queueId": 1,
}
TEXT = st.none() | st.text(max_size=20)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "body": st.none() | st.binary(max_size=40),
            "topic": st.sampled_from(["orders", "paid", "", None]),
            "tags": TEXT,
            "keys": st.none() | st.lists(TEXT, max_size=3),
            "properties": st.none() | st.dictionaries(st.text(max_size=9), TEXT, max_size=3),
            "messageGroup": TEXT,
            "deliveryTimestamp": st.none() | st.just(TIME),
            "brokerName": TEXT,
            "queueId": st.none() | st.integers(-(1 << 31), (1 << 31) - 1),
        }
    ),
    max_size=12,
)


def batch_of(rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [{**row, "properties": row["properties"] and list(row["properties"].items())} for row in rows], schema
    )


def digest(*batches: pa.RecordBatch, **options: str) -> WrittenRows:
    given = {"endpoints": "a:1", "queueSelector": "explicit", **options}
    taken = RowDigest(SinkOptions.from_options(given))
    for batch in batches:
        taken.add(batch)
    return taken.rows


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_neither_order_nor_cuts_nor_slices_make_a_difference(rows: list[dict[str, Any]], random: Any, cut: int) -> None:
    whole = digest(batch_of(rows))
    shuffled = random.sample(rows, len(rows))
    other_way = [
        row | {"properties": row["properties"] and dict(reversed(row["properties"].items()))} for row in shuffled
    ]
    around = batch_of([WHOLE, *other_way, WHOLE])
    assert digest(around.slice(1, len(rows))) == whole
    assert digest(around.slice(1, min(cut, len(rows))), around.slice(1 + cut, max(0, len(rows) - cut))) == whole
    assert (whole.row_count, whole.topics) == (len(rows), frozenset(row["topic"] for row in rows) - {None, ""})


@given(ROWS, ROWS)
def test_other_rows_have_another_digest(rows: list[dict[str, Any]], others: list[dict[str, Any]]) -> None:
    are_same = sorted(map(repr, map(canonical, rows))) == sorted(map(repr, map(canonical, others)))
    assert (digest(batch_of(rows)) == digest(batch_of(others))) == are_same


def canonical(row: dict[str, Any]) -> dict[str, Any]:
    return row | {"properties": row["properties"] and dict(sorted(row["properties"].items()))}


CHANGES: list[dict[str, Any]] = [
    {"body": b"a bodx"},
    {"body": b"a body\0"},
    {"body": b""},
    {"body": None},
    {"topic": "payments"},
    {"tags": "pain"},
    {"tags": ""},
    {"tags": None},
    {"tags": "g", "messageGroup": "paid"},
    {"body": b"a bod", "tags": "ypaid"},
    {"keys": ["k2", "k1"]},
    {"keys": ["k1k2"]},
    {"keys": ["k1"]},
    {"keys": []},
    {"keys": None},
    {"keys": ["k1", None]},
    {"keys": ["k1", "k2", ""]},
    {"properties": {"one": "2", "two": "1"}},
    {"properties": {"1": "one", "two": "2"}},
    {"properties": {"one": "1", "two": ""}},
    {"properties": {"one": "1", "two": None}},
    {"properties": {}},
    {"properties": None},
    {"messageGroup": None},
    {"deliveryTimestamp": TIME + datetime.timedelta(microseconds=1)},
    {"deliveryTimestamp": None},
    {"brokerName": "broker-b"},
    {"queueId": 2},
    {"queueId": None},
]


def test_every_value_counts() -> None:
    seen: dict[tuple[int, int], dict[str, Any]] = {}
    for changed in ({}, *CHANGES):
        sums = digest(batch_of([WHOLE | changed])).sums
        assert sums not in seen, f"{changed} is as {seen.get(sums)}"
        seen[sums] = changed


def test_bytes_that_move_between_rows_are_noticed() -> None:
    def of(*bodies: bytes) -> WrittenRows:
        return digest(batch_of([WHOLE | {"body": body} for body in bodies]))

    assert len({of(b"12345678", b"90"), of(b"1234567", b"890"), of(b"1234567890", b""), of(b"90123456", b"78")}) == 4


@pytest.mark.parametrize("size", [7, 8, 9, 1_000, 70_000])
def test_every_bit_of_a_body_counts_and_its_place(size: int) -> None:
    body = bytes(place % 251 for place in range(size))
    places = {0, 1, 6, size // 2, size - 1}
    flipped = [body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :] for at in places for bit in range(8)]
    # Of two words the upper bits, which a sum of mere products would lose.
    twice = [bytes(byte ^ 0x80 if at in (7, 15) else byte for at, byte in enumerate(body))] if size > 15 else []
    swapped = [body[8:16] + body[:8] + body[16:]] if size > 15 else []
    bodies = [body, *flipped, *twice, *swapped]
    assert len({digest(batch_of([WHOLE | {"body": each}])) for each in bodies}) == len(bodies)


def test_columns_that_are_not_there_or_mean_nothing_change_nothing() -> None:
    bare = [WHOLE | dict.fromkeys(("tags", "keys", "properties", "messageGroup", "deliveryTimestamp"))]
    of_body = pa.record_batch({"body": ["a body"], "msgId": ["7"], "topic": ["payments"], "queueId": [5]})
    whole = digest(batch_of(bare), topic="orders", queueSelector="roundRobin")
    assert whole == digest(of_body, topic="orders", queueSelector="roundRobin")
    assert whole.topics == {"orders"}


def test_types_that_spark_may_give_are_taken() -> None:
    large = SCHEMA
    for name, kind in (("body", pa.large_binary()), ("tags", pa.large_string()), ("keys", pa.list_(pa.large_string()))):
        large = large.set(large.get_field_index(name), pa.field(name, kind))
    assert digest(batch_of([WHOLE], large)) == digest(batch_of([WHOLE]))
    text = SCHEMA.set(SCHEMA.get_field_index("keys"), pa.field("keys", pa.string()))
    assert digest(batch_of([WHOLE | {"keys": "k1 k2"}], text)).row_count == 1


def test_text_that_is_not_utf8_is_counted_as_it_is() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]])
    rows = pa.record_batch({"body": [b"1"], "tags": broken, "topic": broken})
    assert digest(rows).topics == {"\ufffd"}
