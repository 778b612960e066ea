"""The digest of rows does not depend on their order and cuts, and differs for any other rows."""

from __future__ import annotations

import datetime
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.row_digest import RowDigest, hash_rows
from pyspark_rmqpull.sink.row_hashes import mix
from rmqpull_proto import columns as wire

GOLDEN, MASK = 0x9E3779B97F4A7C15, (1 << 64) - 1
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
        "priority": pa.int32(),
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
    "priority": None,
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
            "priority": st.none() | st.integers(0, (1 << 31) - 1),
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
    row_digest = RowDigest(SinkOptions.from_options(given))
    for batch in batches:
        row_digest.digest_rows(batch)
    return row_digest.written_rows


@given(ROWS, st.randoms(use_true_random=False), st.integers(0, 12))
def test_order_cuts_and_slices_make_no_difference(rows: list[dict[str, Any]], random: Any, cut: int) -> None:
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
    {"priority": 4},
    {"priority": 0},
    {"queueId": None},
]


def test_every_value_makes_a_difference() -> None:
    seen: dict[tuple[int, int], dict[str, Any]] = {}
    for changed in ({}, *CHANGES):
        sums = digest(batch_of([WHOLE | changed])).sums
        assert sums not in seen, f"{changed} is as {seen.get(sums)}"
        seen[sums] = changed


def test_bytes_that_move_to_another_row_make_a_difference() -> None:
    def of(*bodies: bytes) -> WrittenRows:
        return digest(batch_of([WHOLE | {"body": body} for body in bodies]))

    assert len({of(b"12345678", b"90"), of(b"1234567", b"890"), of(b"1234567890", b""), of(b"90123456", b"78")}) == 4


@pytest.mark.parametrize("size", [7, 8, 9, 1_000, 70_000])
def test_every_bit_of_a_body_and_its_index_make_a_difference(size: int) -> None:
    body = bytes(index % 251 for index in range(size))
    indexes = {0, 1, 6, size // 2, size - 1}
    flipped = [body[:at] + bytes([body[at] ^ 1 << bit]) + body[at + 1 :] for at in indexes for bit in range(8)]
    # The highest bits of two words, which a sum of plain products would lose.
    twice = [bytes(byte ^ 0x80 if index in (7, 15) else byte for index, byte in enumerate(body))] if size > 15 else []
    swapped = [body[8:16] + body[:8] + body[16:]] if size > 15 else []
    bodies = [body, *flipped, *twice, *swapped]
    assert len({digest(batch_of([WHOLE | {"body": each}])) for each in bodies}) == len(bodies)


def test_missing_and_ignored_columns_make_no_difference() -> None:
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


def test_text_that_is_not_utf8_is_hashed_as_it_is() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]])
    rows = pa.record_batch({"body": [b"1"], "tags": broken, "topic": broken})
    assert digest(rows).topics == {"\ufffd"}


def hash_text_plainly(text: bytes) -> int:
    """The hash of a text by its definition, word by word."""
    total = (len(text) + 1) * GOLDEN
    for index in range(0, len(text), 8):
        word = int.from_bytes(text[index : index + 8], "little")
        weight = int(mix(np.array([(index // 8 + 1) * GOLDEN & MASK], np.uint64))[0]) | 1
        total += (word >> 32 ^ word) * weight
    return total & MASK


SIZES = st.sampled_from([0, 1, 7, 8, 9, 47, 48, 49, 70, 300])
TEXT_LISTS = SIZES.flatmap(
    lambda size: (
        st.lists(st.binary(max_size=size), max_size=6) | st.lists(st.binary(min_size=size, max_size=size), max_size=6)
    )
)


@given(
    TEXT_LISTS,
    st.lists(st.booleans(), min_size=6, max_size=6),
    st.integers(0, 2),
    st.sampled_from([pa.binary(), pa.large_binary()]),
)
def test_texts_of_all_lengths_have_the_hash_of_the_definition(
    texts: list[bytes], is_null: list[bool], first: int, kind: pa.DataType
) -> None:
    """Texts of one length, short and long ones are hashed in three ways."""
    nullable = [None if null else text for text, null in zip(texts, is_null, strict=False)]
    for values in (texts, nullable):
        column = pa.array(values, kind).slice(first)
        number = zlib.crc32(b"body") * GOLDEN & MASK
        wanted = [0 if text is None else hash_text_plainly(text) ^ number for text in values[first:]]
        hashes = np.array(wanted, np.uint64)
        hashes[:] = [0 if text is None else value for text, value in zip(values[first:], mix(hashes), strict=True)]
        assert hash_rows([("body", column)]).tolist() == mix(hashes).tolist()


def test_what_lies_under_a_null_is_not_hashed() -> None:
    _, offsets, data = pa.array([b"secret", b"x"]).buffers()
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), offsets, data])
    assert hash_rows([("body", hidden)]).tolist() == hash_rows([("body", pa.array([None, b"x"]))]).tolist()


def test_the_digest_never_changes() -> None:
    """Brokers keep it, and compare it with that of a later release."""
    rows = batch_of([WHOLE, dict.fromkeys(SCHEMA.names) | {"body": b"x" * 100, "topic": "orders"}])
    assert digest(rows).sums == (7981697559531466423, 4863365804426739494)
