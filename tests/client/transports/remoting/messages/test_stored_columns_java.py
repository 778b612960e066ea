"""Apache's own classes judge what we read and write: stored messages, batches, properties (rules 4.7 to 4.10)."""

from __future__ import annotations

import zlib
from datetime import datetime, timedelta, timezone
from ipaddress import IPv6Address, ip_address
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from processes.apache.oracle import JavaOracle, to_bytes, to_text
from rmqpull_client.transports.remoting.messages.batch_messages import encode_batch
from rmqpull_client.transports.remoting.messages.property_columns import WITH_COLUMN
from rmqpull_client.transports.remoting.messages.property_texts import encode_property_texts
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.remoting.properties import OWN
from tests.harness.stored_records import StoredRecord

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MS = st.integers(0, 1 << 43)
ADDRESSES = st.ip_addresses().map(str) | st.sampled_from(("127.0.0.1", "::1", "::ffff:10.0.0.1"))
HOSTS = st.tuples(ADDRESSES, st.integers(0, 65535))
NAMES = st.sampled_from(("TAGS", "KEYS", "UNIQ_KEY", "WAIT", "__SHARDINGKEY", "TIMER_DELIVER_MS")) | st.text(
    "abü", max_size=3
)
VALUES = st.text("aü \x7f", max_size=6) | st.integers(0, 1 << 43).map(str)
PROPERTIES = st.dictionaries(NAMES, VALUES, max_size=5)
MALFORMED = st.lists(
    st.sampled_from((b"a", b"\x01", b"\x02", b"\xed\xa0\x80", b"\xc3", b"\xbc", b"\xf0\x9f", b"\xff")), max_size=9
)

RECORDS = st.builds(
    StoredRecord,
    body=st.binary(min_size=1, max_size=20),
    topic=st.sampled_from(("orders", "t" * 127)),
    properties=PROPERTIES | st.binary(max_size=20) | MALFORMED.map(b"".join),
    queue_id=st.integers(0, 1 << 30),
    flag=st.integers(0, 1 << 30),
    queue_offset=st.integers(0, 1 << 60),
    physical_offset=st.integers(0, 1 << 60),
    born_ms=MS,
    born_host=HOSTS,
    store_ms=MS,
    # Java has no addresses of IPv4 in IPv6, so no broker stores one.
    store_host=HOSTS.filter(lambda host: not host[0].startswith("::ffff:")),
    reconsume_times=st.integers(0, 1 << 30),
)


def decode(data: bytes) -> list[dict[str, Any]]:
    table = locate_records(data, np.array([0]), np.array([len(data)]))
    assert table.damaged == ()
    rows: list[dict[str, Any]] = decode_columns(table, PULLABLE_SCHEMA.names).to_pylist()
    return rows


def as_row(message: dict[str, Any]) -> dict[str, Any]:
    """Makes a row of what Java has read, without the delivery time, which Java leaves in the properties."""
    properties: dict[str, str] = message["properties"] or {}
    keys = [key for key in properties.get("KEYS", "").split(" ") if key]
    return {
        "queueOffset": int(message["queueOffset"]),  # the oracle writes large numbers as text
        "msgId": message["msgId"],
        "tags": properties.get("TAGS"),
        "keys": keys or None,
        "body": to_bytes(message["body"]),
        "properties": {name: value for name, value in properties.items() if name not in OWN},
        "bornTimestamp": EPOCH + timedelta(milliseconds=message["bornTimestamp"]),
        "bornHost": message["bornHost"],
        "storeTimestamp": EPOCH + timedelta(milliseconds=message["storeTimestamp"]),
        "storeHost": message["storeHost"],
        "reconsumeTimes": message["reconsumeTimes"],
        "messageGroup": properties.get("__SHARDINGKEY"),
        "bodyEncoding": 1,
        "systemProperties": {name: value for name, value in properties.items() if name in OWN - WITH_COLUMN},
    }


def as_comparable(row: dict[str, Any]) -> dict[str, Any]:
    """Java's maps have no order."""
    maps = {name: dict(row[name]) for name in ("properties", "systemProperties")}
    return {name: value for name, value in (row | maps).items() if name != "deliveryTimestamp"}


def assert_same_rows(oracle: JavaOracle, data: bytes) -> None:
    assert [as_comparable(row) for row in decode(data)] == [as_row(message) for message in oracle.decode_messages(data)]


@pytest.mark.apache_classes
@given(records=st.lists(RECORDS, max_size=4))
@example(records=[StoredRecord(properties=b"a\x01\xed\xa0\x80\xed\xb0\x80")])
@example(records=[StoredRecord(properties=b"a\x01\xf0\x80\x80\x80")])
@example(records=[StoredRecord(properties=b"a\x01\xe0\x80\x80\xf4\x90\x80\x80\xc1\xbf")])
def test_rows_are_what_java_reads(oracle: JavaOracle, records: list[StoredRecord]) -> None:
    assert_same_rows(oracle, b"".join(record.encode() for record in records))


@given(record=RECORDS)
def test_a_long_topic(oracle: JavaOracle, record: StoredRecord) -> None:
    if oracle.release.client.startswith("4."):
        pytest.skip("clients before 5.1 do not know the second magic")
    assert_same_rows(oracle, StoredRecord(record.body, "t" * 200, record.properties).encode())


@pytest.mark.apache_classes
@given(record=RECORDS, properties=PROPERTIES)
def test_we_read_what_java_writes(oracle: JavaOracle, record: StoredRecord, properties: dict[str, str]) -> None:
    def text(host: tuple[str, int]) -> str:
        return f"{host[0]}:{host[1]}"

    def is_ipv6(host: tuple[str, int]) -> bool:
        address = ip_address(host[0])
        return isinstance(address, IPv6Address) and address.ipv4_mapped is None

    written = oracle.encode_message(
        {
            "topic": record.topic,
            "queueId": record.queue_id,
            "flag": record.flag,
            "queueOffset": record.queue_offset,
            "sysFlag": 0x10 * is_ipv6(record.born_host) + 0x20 * is_ipv6(record.store_host),
            "commitLogOffset": record.physical_offset,
            "bornTimestamp": record.born_ms,
            "bornHost": text(record.born_host),
            "storeTimestamp": record.store_ms,
            "storeHost": text(record.store_host),
            "reconsumeTimes": record.reconsume_times,
            "bodyCRC": zlib.crc32(record.body) & 0x7FFFFFFF,
            "body": to_text(record.body),
            "properties": properties,
        }
    )
    assert_same_rows(oracle, written)


BODIES = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=20),
        st.dictionaries(st.text("abü", min_size=1, max_size=3), st.text("aü", min_size=1, max_size=6), max_size=3),
    ),
    min_size=1,
    max_size=4,
)


def make_batch(messages: list[tuple[bytes, dict[str, str]]]) -> bytes:
    rows = pa.record_batch(
        {
            "body": pa.array([body for body, _ in messages], pa.binary()),
            "properties": pa.array(
                [list(each.items()) for _, each in messages], PULLABLE_SCHEMA.field("properties").type
            ),
        }
    )
    return bytes(encode_batch(rows.column("body"), encode_property_texts(rows)).data)


@pytest.mark.apache_classes
@given(messages=BODIES)
def test_java_reads_our_batches(oracle: JavaOracle, messages: list[tuple[bytes, dict[str, str]]]) -> None:
    read = oracle.decode_batch(make_batch(messages))
    assert [(to_bytes(each["body"]), each["properties"]) for each in read] == [
        (body, {**properties, "WAIT": "true"}) for body, properties in messages
    ]


@given(body=st.binary(min_size=1, max_size=20))
def test_a_batch_of_java(oracle: JavaOracle, body: bytes) -> None:
    message = {"topic": "orders", "flag": 0, "body": to_text(body), "properties": {"WAIT": "true"}}
    ours, theirs = make_batch([(body, {}), (body, {})]), oracle.encode_batch([message, message])
    assert oracle.decode_batch(ours) == oracle.decode_batch(theirs)
    if oracle.release.client.startswith("5."):  # 4.9.8 leaves the last separator out
        assert ours == theirs


@pytest.mark.parametrize("compression", ["", "ZLIB", "LZ4", "ZSTD"])
@given(messages=BODIES, outer=RECORDS)
def test_inner_batches(
    oracle: JavaOracle, compression: str, messages: list[tuple[bytes, dict[str, str]]], outer: StoredRecord
) -> None:
    if oracle.release.client.startswith("4."):
        pytest.skip("clients of version 4 do not unwrap")
    flags = {"": 0, "LZ4": 0x101, "ZSTD": 0x201, "ZLIB": 0x301}[compression]
    body = make_batch(messages)
    stored = StoredRecord(
        oracle.compress(compression, body) if compression else body,
        outer.topic,
        sys_flag=0xC0 | flags,
        queue_offset=outer.queue_offset,
        born_host=outer.born_host,
        store_host=outer.store_host,
    )
    rows = decode(stored.encode())
    expected = oracle.decode_messages(stored.encode(), unwrap=True)
    names = ("queueOffset", "body", "properties", "bornTimestamp", "bornHost", "storeTimestamp", "storeHost")
    assert [[as_comparable(row)[name] for name in names] for row in rows] == [
        [as_row(message)[name] for name in names] for message in expected
    ]
