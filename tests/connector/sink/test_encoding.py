"""Rows of Spark become messages in columns, sorted by topic. Invalid rows are taken out."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.encoding import RowEncoder
from pyspark_rmqpull.sink.repeats import ID_PROPERTIES
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.transports.property_rules import (
    KEPT_BY_BROKERS,
    KEPT_BY_PROXIES,
    KEPT_IN_COLUMNS,
    PropertyRules,
)
from rmqpull_proto import columns as wire
from rmqpull_proto.remoting.properties import NOT_WRITABLE

NOON = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
MAP = pa.map_(pa.string(), pa.string())
TEXT = pa.string()


def encoder(
    is_delayed: Callable[[str], bool] = lambda _: False, rules: PropertyRules = KEPT_IN_COLUMNS, **options: str
) -> RowEncoder:
    return RowEncoder(SinkOptions.from_options({"endpoints": "a:1"} | options), is_delayed, rules)


def batch(count: int | None = None, **columns: Any) -> pa.RecordBatch:
    arrays = {name: values if isinstance(values, pa.Array) else pa.array(values) for name, values in columns.items()}
    arrays.setdefault("body", pa.array([b"x"] * (count or len(next(iter(arrays.values()))))))
    return pa.record_batch(arrays)


def only(parted: PartedRows) -> pa.RecordBatch:
    (part,) = parted.by_topic()
    for field in part.rows.schema:
        assert field.type == wire.PUBLISH_SCHEMA.field(field.name).type
    return part.rows


def not_utf8(good: str) -> pa.Array:
    """A text, and bytes that are not UTF-8, which Arrow takes without checking."""
    return pa.StringArray.from_buffers(
        2, pa.array([0, len(good), len(good) + 1], pa.int32()).buffers()[1], pa.py_buffer(good.encode() + b"\xff")
    )


@pytest.mark.parametrize("body", [pa.array(["é"]), pa.array(["é".encode()]), pa.array(["é"], pa.large_string())])
def test_a_body_is_text_or_bytes(body: pa.Array) -> None:
    parts, invalid = encoder(topic="orders").make_messages(pa.record_batch({"body": body}))
    assert only(parts).to_pydict() == {"body": ["é".encode()]}
    assert not invalid


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        (["a", "a b", " a\t b ", "", " ", None], [["a"], ["a", "b"], ["a", "b"], None, None, None]),
        ([["a"], ["a", "b"], [], None], [["a"], ["a", "b"], [], None]),
    ],
    ids=["text", "list"],
)
@pytest.mark.parametrize("is_large", [False, True])
def test_keys_are_a_list_or_a_text_with_blanks_between_them(given: list[Any], keys: list[Any], is_large: bool) -> None:
    array = pa.array(given)
    if is_large:
        array = array.cast(pa.large_string() if pa.types.is_string(array.type) else pa.large_list(pa.large_string()))
    parts, _ = encoder(topic="orders").make_messages(batch(keys=array))
    assert only(parts).column("keys").to_pylist() == keys


def test_the_option_s_topic_wins_over_the_column_s() -> None:
    """Acceptance case 64."""
    parts, invalid = encoder(topic="orders").make_messages(batch(topic=pa.array(["a", None])))
    assert [(part.topic, part.rows.num_rows) for part in parts.by_topic()] == [("orders", 2)]
    assert not invalid


def test_rows_of_several_topics_keep_their_order_in_each() -> None:
    """Acceptance case 62."""
    rows = batch(topic=["b", "a", "b", "a"], body=[b"1", b"2", b"3", b"4"])
    parts, _ = encoder().make_messages(rows)
    assert [(part.topic, part.rows.column("body").to_pylist()) for part in parts.by_topic()] == [
        ("b", [b"1", b"3"]),
        ("a", [b"2", b"4"]),
    ]


def test_without_rows_there_are_no_parts() -> None:
    times = pa.array([], pa.timestamp("us", "UTC"))
    rows = batch(body=pa.array([], pa.binary()), topic=pa.array([], TEXT), deliveryTimestamp=times)
    for encoding in (encoder(topic="orders"), encoder()):
        parts, invalid = encoding.make_messages(rows)
        assert (parts.parts, parts.rows.num_rows, invalid) == ((), 0, [])


def test_only_topics_of_delayed_messages_get_delivery_times() -> None:
    rows = batch(topic=["late", "orders"], deliveryTimestamp=pa.array([NOON] * 2, pa.timestamp("us", "Europe/Riga")))
    late, orders = encoder(lambda topic: topic == "late").make_messages(rows)[0].by_topic()
    assert late.rows.column("deliveryTimestamp").to_pylist() == [NOON]
    assert orders.rows.column("deliveryTimestamp").to_pylist() == [None]


@pytest.mark.parametrize("selector", ["roundRobin", "explicit"])
def test_the_queue_columns_are_used_only_with_queue_selector_explicit(selector: str) -> None:
    rows = batch(brokerName=["b", None], queueId=pa.array([1, None], pa.int32()))
    encoded = only(encoder(topic="orders", queueSelector=selector).make_messages(rows)[0])
    assert ("queueId" in encoded.schema.names) == (selector == "explicit")


def test_columns_that_a_new_message_gets_anyway_are_ignored() -> None:
    rows = batch(msgId=["1"], storeHost=["h"], reconsumeTimes=[1], systemProperties=pa.array([{}], MAP))
    assert only(encoder(topic="orders").make_messages(rows)[0]).schema.names == ["body"]


def test_ids_of_an_earlier_write_are_removed() -> None:
    ids = [(name, "an id") for name in sorted(ID_PROPERTIES)]
    rows = batch(properties=pa.array([[("own", "1"), *ids], None, [("own", "2")]], MAP))
    encoded = only(encoder(topic="orders").make_messages(rows)[0])
    assert encoded.column("properties").to_pylist() == [[("own", "1")], None, [("own", "2")]]


@pytest.mark.parametrize(
    ("codec", "unpack"),
    [
        ("ZLIB", zlib.decompress),
        ("LZ4", lambda body: pa.decompress(body, 5000, "lz4", asbytes=True)),
        ("ZSTD", lambda body: pa.decompress(body, 5000, "zstd", asbytes=True)),
    ],
)
def test_large_bodies_are_compressed(codec: str, unpack: Callable[[bytes], bytes]) -> None:
    compressing = encoder(topic="orders", compressType=codec, compressMsgBodyOverHowmuch="5000")
    encoded = only(compressing.make_messages(batch(body=[b"a" * 4999, b"b" * 5000]))[0])
    small, large = encoded.column("body").to_pylist()
    assert small == b"a" * 4999
    assert (len(large) < 500, unpack(large)) == (True, b"b" * 5000)
    assert encoded.column("bodyEncoding").to_pylist() == [1, wire.BODY_ENCODINGS[codec]]


def test_compression_can_be_turned_off() -> None:
    encoded = only(encoder(topic="orders", compressMsgBodyOverHowmuch="0").make_messages(batch(body=[b"b" * 5000]))[0])
    assert encoded.to_pydict() == {"body": [b"b" * 5000]}


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        ({"body": [b"x", None]}, "its body is null"),
        ({"body": [b"x", b""]}, "its body is empty"),
        ({"body": [b"x", b"12345"]}, "its body has more than maxMessageSize=4 bytes"),
        ({"topic": ["orders", None]}, "its topic is null"),  # acceptance case 73
        ({"topic": ["orders", ""]}, "its topic is null"),
        ({"topic": not_utf8("orders")}, "its column topic is not UTF-8"),
        ({"tags": not_utf8("paid")}, "its column tags is not UTF-8"),
        ({"keys": not_utf8("k")}, "its column keys is not UTF-8"),
        ({"keys": pa.ListArray.from_arrays([0, 1, 2], not_utf8("k"))}, "its column keys is not UTF-8"),
        ({"keys": [["k"], ["k", None]]}, "one of its keys is null"),
        ({"properties": pa.array([[("a", "1")], [("a", None)]], MAP)}, "one of its properties is null"),
        ({"messageGroup": not_utf8("g")}, "its column messageGroup is not UTF-8"),
        ({"priority": pa.array([0, -1], pa.int32())}, "its priority is below 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_invalid_row_is_taken_out_with_the_reason(columns: dict[str, Any], reason: str) -> None:
    parts, invalid = encoder(maxMessageSize="4").make_messages(batch(2, **{"topic": ["orders", "orders"]} | columns))
    assert only(parts).num_rows == 1
    assert [(row.reason, row.row.rows.num_rows) for row in invalid] == [(reason, 1)]


def test_an_invalid_row_has_one_reason_the_first_that_applies() -> None:
    rows = batch(body=pa.array([None, b"x"], pa.binary()), topic=pa.array([None, None], TEXT))
    parts, invalid = encoder().make_messages(rows)
    assert parts.parts == ()
    assert [row.reason for row in invalid] == ["its body is null", "its topic is null"]


def test_columns_that_the_options_do_not_use_may_have_any_text() -> None:
    rows = batch(topic=not_utf8("a"), brokerName=not_utf8("b"))
    parts, invalid = encoder(topic="orders").make_messages(rows)
    assert (only(parts).num_rows, invalid) == (2, [])


@pytest.mark.parametrize("name", sorted(NOT_WRITABLE))
def test_a_row_with_a_property_of_rocketmqs_is_invalid(name: str) -> None:
    rows = batch(properties=pa.array([[("a", "b")], None, [("c", "d"), (name, "x"), ("KEYS", "y")]], MAP))
    parts, invalid = encoder(topic="orders").make_messages(rows)
    assert only(parts).num_rows == 2
    assert [row.reason for row in invalid] == [f"property {name} is RocketMQ's own"]


@pytest.mark.parametrize(
    ("rules", "value", "reason"),
    [
        (KEPT_BY_BROKERS, "a\x01b", None),
        (KEPT_BY_BROKERS, "a\x02b", "the value of a property has a character 2, with which RocketMQ ends a value"),
        (KEPT_BY_BROKERS, "", "property p is empty, and RocketMQ drops empty properties"),
        (KEPT_BY_PROXIES, "", "property p is empty, and RocketMQ drops empty properties"),
        (KEPT_IN_COLUMNS, "", None),
        (KEPT_BY_PROXIES, "£ é", None),
        (KEPT_BY_PROXIES, "a\x01b", "the value of a property has a control character, which the server refuses"),
        (KEPT_BY_PROXIES, "\x85", "the value of a property has a control character, which the server refuses"),
    ],
)
def test_a_row_is_invalid_if_the_server_cannot_carry_a_property(
    rules: PropertyRules, value: str, reason: str | None
) -> None:
    rows = batch(properties=pa.array([[("p", "1")], [("a", "b"), ("p", value)], None], MAP))
    parts, invalid = encoder(topic="orders", rules=rules).make_messages(rows.slice(1))
    assert [row.reason for row in invalid] == ([] if reason is None else [reason])
    assert only(parts).num_rows == 2 - len(invalid)
