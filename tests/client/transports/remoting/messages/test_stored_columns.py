"""Stored messages as rows (rules 4.7 to 4.9)."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.columns import BODY_ENCODINGS, PULL_SCHEMA, PULLABLE_SCHEMA
from tests.harness.stored_records import StoredRecord, join_bodies


def decode(*records: StoredRecord, columns: tuple[str, ...] = (), rows: Any = None) -> pa.RecordBatch:
    batch = decode_columns(locate_records(*join_bodies([[each.encode() for each in records]])), columns, rows)
    batch.validate(full=True)
    return batch


def read(column: str, *records: StoredRecord) -> list[Any]:
    """Reads one column, alone and among all."""
    values: list[Any] = decode(*records, columns=(column,)).column(0).to_pylist()
    everything = decode(*records, columns=tuple(PULLABLE_SCHEMA.names))
    assert everything.column(column).to_pylist() == values
    return values


def read_property(column: str, *values: str | None, name: str) -> list[Any]:
    return read(column, *(StoredRecord(properties={} if value is None else {name: value}) for value in values))


def milliseconds(value: int) -> datetime:
    return datetime.fromtimestamp(value / 1000, timezone.utc)


FULL = StoredRecord(
    body=b"\x00\xff",
    properties={
        "UNIQ_KEY": "0A01",
        "TAGS": "red",
        "KEYS": "k1 k2",
        "WAIT": "true",
        "__SHARDINGKEY": "group",
        "TIMER_DELIVER_MS": "1700000001000",
        "CLUSTER": "DefaultCluster",
        "colour": "ü",
    },
    queue_offset=17,
    reconsume_times=2,
)


def test_a_row_has_all_fields_of_its_message() -> None:
    batch = decode(FULL)
    assert batch.schema == PULL_SCHEMA
    (row,) = batch.to_pylist()
    assert row == {
        "queueOffset": 17,
        "msgId": "0A01",
        "tags": "red",
        "keys": ["k1", "k2"],
        "body": b"\x00\xff",
        "properties": [("colour", "ü")],
        "bornTimestamp": milliseconds(1_700_000_000_123),
        "bornHost": "10.1.2.3:5555",
        "storeTimestamp": milliseconds(1_700_000_000_456),
        "storeHost": "127.0.0.1:10911",
        "reconsumeTimes": 2,
        "messageGroup": "group",
        "deliveryTimestamp": milliseconds(1_700_000_001_000),
        "bodyEncoding": 1,
    }
    assert read("systemProperties", FULL) == [[("WAIT", "true"), ("CLUSTER", "DefaultCluster")]]


def test_a_row_of_a_message_without_properties() -> None:
    (row,) = decode(StoredRecord(queue_offset=3, physical_offset=500)).to_pylist()
    missing = [name for name, value in row.items() if value is None]
    assert missing == ["tags", "keys", "messageGroup", "deliveryTimestamp"]
    assert row["properties"] == []
    assert row["msgId"] == "7F00000100002A9F00000000000001F4"


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (slice(1, 3), [1, 2]),
        (np.array([True, False, False, True]), [0, 3]),
        (np.array([0, 2]), [0, 2]),
        (slice(0, 0), []),
    ],
)
def test_only_selected_records_are_decoded(rows: Any, expected: list[int]) -> None:
    records = [StoredRecord(queue_offset=offset, body=b"x" * offset) for offset in range(4)]
    batch = decode(*records, columns=("queueOffset", "body"), rows=rows)
    assert batch.to_pylist() == [{"queueOffset": offset, "body": b"x" * offset} for offset in expected]


def test_columns_come_in_the_order_of_the_schema_and_unknown_ones_are_refused() -> None:
    assert decode(FULL, columns=("body", "tags")).schema.names == ["tags", "body"]
    with pytest.raises(ValueError, match="No such column: topic"):
        decode(FULL, columns=("topic",))


@pytest.mark.parametrize("sizes", [(0, 0), (13, 100), (12, 13), (0, 70_000, 1)])
def test_bodies_of_all_sizes(sizes: tuple[int, ...]) -> None:
    bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
    assert read("body", *(StoredRecord(body=body) for body in bodies)) == bodies


def test_a_message_without_an_id_of_its_producer_has_that_of_the_broker() -> None:
    """Rules 4.9: the address and the physical offset."""
    found = read(
        "msgId",
        StoredRecord(properties={"UNIQ_KEY": "mine"}),
        StoredRecord(store_host=("2001:db8::ff", 10911), physical_offset=1),
        StoredRecord(physical_offset=(1 << 40) + 2, born_host=("::1", 1)),
        StoredRecord(store_host=("255.0.0.1", 65535), born_host=("::1", 1), physical_offset=3),
    )
    assert found == [
        "mine",
        "20010DB80000000000000000000000FF" "00002A9F" "0000000000000001",
        "7F000001" "00002A9F" "0000010000000002",
        "FF000001" "0000FFFF" "0000000000000003",
    ]  # fmt: skip


def test_keys_are_separated_by_blanks() -> None:
    assert read_property("keys", "one", None, "two", name="KEYS") == [["one"], None, ["two"]]
    texts = ("a b", None, "  a   bc ", " ", "ü", "x y z")
    expected = [["a", "b"], None, ["a", "bc"], None, ["ü"], ["x", "y", "z"]]
    assert read_property("keys", *texts, name="KEYS") == expected


HOST_COLUMNS = [
    (("10.1.2.3", 5555), "10.1.2.3:5555"),
    (("2001:db8::1", 5555), "2001:db8:0:0:0:0:0:1:5555"),
    (("::ffff:10.0.0.1", 5555), "10.0.0.1:5555"),
]


@pytest.mark.parametrize(("host", "expected"), HOST_COLUMNS)
def test_hosts_as_java_writes_them(host: tuple[str, int], expected: str) -> None:
    records = [StoredRecord(born_host=host), StoredRecord(store_host=host), StoredRecord()]
    assert read("bornHost", *records) == [expected, "10.1.2.3:5555", "10.1.2.3:5555"]
    assert read("storeHost", *records) == ["127.0.0.1:10911", expected, "127.0.0.1:10911"]


def test_many_hosts() -> None:
    records = [StoredRecord(born_host=(f"10.0.0.{number % 5}", number)) for number in range(20)]
    assert read("bornHost", *records) == [f"10.0.0.{number % 5}:{number}" for number in range(20)]


def test_what_a_proxy_s_client_named_is_a_property_and_not_the_born_host() -> None:
    """As in Java's clients: the record has the address of the connection."""
    assert read_property("bornHost", None, "laptop", name="__BORNHOST") == ["10.1.2.3:5555"] * 2
    found = read_property("systemProperties", "laptop", name="__BORNHOST")
    assert found == [[("__BORNHOST", "laptop")]]


def test_delivery_times() -> None:
    """What a producer asked for, or what the broker made of a delay (rules 3.14.2); other texts are no times."""
    asked = ("1700000001000", None, "+5", "-5", "x", "", "99999999999999999999", "1.5")
    found = read_property("deliveryTimestamp", *asked, name="TIMER_DELIVER_MS")
    assert found[0] == milliseconds(1_700_000_001_000)
    assert found[1:4] == [None, milliseconds(5), milliseconds(-5)]
    assert found[4:] == [None] * 4
    both = StoredRecord(properties={"TIMER_DELIVER_MS": "1", "TIMER_OUT_MS": "2"})
    derived = StoredRecord(properties={"TIMER_OUT_MS": "2", "TIMER_DELAY_SEC": "1"})
    assert read("deliveryTimestamp", both, derived) == [milliseconds(1), milliseconds(2)]


def test_times_that_arrow_cannot_hold_are_cut() -> None:
    batch = decode(StoredRecord(born_ms=1 << 62, store_ms=-(1 << 62)), columns=("bornTimestamp", "storeTimestamp"))
    born, store = (column.cast(pa.int64())[0].as_py() for column in batch.columns)
    assert born == -store > 1 << 62


@pytest.mark.parametrize(
    ("sys_flag", "expected"),
    [
        (0, "IDENTITY"),
        (0x300, "IDENTITY"),  # a type, but not compressed
        (0x001, "GZIP"),
        (0x101, "LZ4"),
        (0x201, "ZSTD"),
        (0x301, "ZLIB"),
        (0x30F, "ZLIB"),
    ],
)
def test_the_encoding_of_bodies(sys_flag: int, expected: str) -> None:
    assert read("bodyEncoding", StoredRecord(sys_flag=sys_flag), StoredRecord()) == [BODY_ENCODINGS[expected], 1]
