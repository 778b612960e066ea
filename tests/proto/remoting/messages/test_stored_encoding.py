"""Rows as stored messages, which give the same rows again (rules 4.7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.columns import BODY_ENCODINGS, PULLABLE_SCHEMA, TIMESTAMP
from rmqpull_proto.remoting.frames import WireError
from rmqpull_proto.remoting.messages.property_columns import WITH_COLUMN
from rmqpull_proto.remoting.messages.stored_columns import decode_columns
from rmqpull_proto.remoting.messages.stored_encoding import encode_records
from rmqpull_proto.remoting.messages.stored_messages import locate_records
from rmqpull_proto.remoting.properties import OWN
from tests.harness.stored_records import StoredRecord


def make_rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    """Makes rows of all columns. Times are numbers of milliseconds."""
    arrays = []
    for field in PULLABLE_SCHEMA:
        values = [row.get(field.name) for row in rows]
        if field.type == TIMESTAMP:
            values = [None if value is None else value * 1000 for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=PULLABLE_SCHEMA)


def encode(rows: pa.RecordBatch, topic: str = "orders", first_position: int = 0) -> bytes:
    encoded = encode_records(rows, topic, 1, first_position + np.arange(rows.num_rows) * 100)
    assert len(encoded.bounds) == rows.num_rows + 1
    return bytes(encoded.data)


def decode(data: bytes) -> pa.RecordBatch:
    table = locate_records(data, np.array([0]), np.array([len(data)]))
    assert table.damaged == ()
    return decode_columns(table, PULLABLE_SCHEMA.names)


ROW = {
    "queueOffset": 7,
    "body": b"body",
    "tags": "red",
    "bornTimestamp": 1_700_000_000_123,
    "bornHost": "10.1.2.3",
    "storeTimestamp": 1_700_000_000_456,
    "storeHost": "127.0.0.1:10911",
    "reconsumeTimes": 3,
}


def test_the_bytes_of_a_record() -> None:
    expected = StoredRecord(
        queue_offset=7,
        physical_offset=500,
        properties={"TAGS": "red"},
        born_host=("10.1.2.3", 0),
        reconsume_times=3,
    )
    assert encode(make_rows([ROW]), first_position=500) == expected.encode()


def test_only_offsets_and_bodies_are_needed() -> None:
    rows = make_rows([ROW]).select(["queueOffset", "body"])
    (row,) = decode(encode(rows)).select(["queueOffset", "body", "bornHost", "tags"]).to_pylist()
    assert row == {"queueOffset": 7, "body": b"body", "bornHost": "0.0.0.0", "tags": None}


@pytest.mark.parametrize("host", ["laptop", "10.0.0.1:5555", "ipv4:10.0.0.1:5555", "2001:db8::1"])
def test_a_born_host_that_is_no_plain_address_becomes_a_property(host: str) -> None:
    assert decode(encode(make_rows([ROW | {"bornHost": host}]))).column("bornHost").to_pylist() == [host]


@pytest.mark.parametrize("host", ["broker-a", "127.0.0.1:x", "127.0.0.1:99999999999", ""])
def test_a_store_host_that_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(WireError, match=f"store host '{host}' is no address with a port"):
        encode(make_rows([ROW, ROW | {"storeHost": host}]))


def test_too_large_properties_are_refused() -> None:
    with pytest.raises(WireError, match="properties of row 1 have 32774 bytes, expected at most 32767"):
        encode(make_rows([ROW, ROW | {"tags": "x" * 32_768}]))


TEXT = st.text("aü", min_size=1, max_size=15)
NAME = st.text("abü", min_size=1, max_size=3)
MS = st.integers(0, 1 << 43)
ADDRESS = st.sampled_from(("10.1.2.3", "2001:db8:0:0:0:0:0:1"))
ROWS = st.fixed_dictionaries(
    {
        "queueOffset": st.integers(0, 1 << 60),
        "msgId": TEXT,
        "tags": st.none() | TEXT,
        "keys": st.none() | st.lists(TEXT, min_size=1, max_size=3),
        "body": st.binary(max_size=20),
        "properties": st.dictionaries(NAME, TEXT, max_size=3).map(lambda entries: list(entries.items())),
        "bornTimestamp": MS,
        "bornHost": ADDRESS | TEXT,
        "storeTimestamp": MS,
        "storeHost": ADDRESS.map(lambda address: f"{address}:10911"),
        "reconsumeTimes": st.integers(0, 16),
        "messageGroup": st.none() | TEXT,
        "deliveryTimestamp": st.none() | MS,
        "bodyEncoding": st.sampled_from(sorted(BODY_ENCODINGS.values())),
        "systemProperties": st.dictionaries(st.sampled_from(sorted(OWN - WITH_COLUMN - {"TIMER_OUT_MS"})), TEXT).map(
            lambda entries: list(entries.items())
        ),
    }
)


@given(rows=st.lists(ROWS, max_size=5), topic=st.sampled_from(("orders", "t" * 127, "ü" * 64)))
def test_decoding_gives_the_same_rows(rows: list[dict[str, Any]], topic: str) -> None:
    batch = make_rows(rows)
    assert decode(encode(batch, topic)).to_pylist() == batch.to_pylist()
