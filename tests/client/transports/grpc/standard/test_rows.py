"""Messages of the standard protocol become the same rows as those in columns."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rmqpull_client.transports.grpc.standard.rows import make_batch
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.columns import select_pulled

COLUMNS = ["properties", "systemProperties"]
TIME_US = 1_700_000_000_123_456


def test_each_field_has_its_column() -> None:
    message = v2.Message(
        body=b"one",
        user_properties={"colour": "red"},
        system_properties=v2.SystemProperties(
            queue_offset=7,
            message_id="m-7",
            tag="paid",
            keys=["k1", "k2"],
            born_host="10.0.0.1:5000",
            store_host="10.0.0.2:10911",
            delivery_attempt=3,
            message_group="order-1",
            body_encoding=v2.Encoding.GZIP,
        ),
    )
    for number, field in enumerate(("born_timestamp", "store_timestamp", "delivery_timestamp")):
        getattr(message.system_properties, field).FromMicroseconds(TIME_US + number)
    schema = select_pulled(())
    [row] = [dict(zip(schema.names, values, strict=True)) for values in read_values(make_batch([message], ()))]
    assert row == {
        "queueOffset": 7,
        "msgId": "m-7",
        "tags": "paid",
        "keys": ["k1", "k2"],
        "body": b"one",
        "properties": [("colour", "red")],
        "bornTimestamp": TIME_US,
        "bornHost": "10.0.0.1:5000",
        "storeTimestamp": TIME_US + 1,
        "storeHost": "10.0.0.2:10911",
        "reconsumeTimes": 2,
        "messageGroup": "order-1",
        "deliveryTimestamp": TIME_US + 2,
        "bodyEncoding": v2.Encoding.GZIP,
    }


def test_a_field_that_is_not_set_is_null() -> None:
    names = ["tags", "keys", "bornTimestamp", "storeTimestamp", "messageGroup", "deliveryTimestamp"]
    assert make_batch([v2.Message()], names).to_pylist() == [dict.fromkeys(names)]


def read_values(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    """Returns the values of each row; times in microseconds."""
    columns = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in batch.columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def test_a_message_group_is_a_column_and_not_a_user_property() -> None:
    message = v2.Message(
        user_properties={"colour": "red", "__SHARDINGKEY": "order-1"},
        system_properties=v2.SystemProperties(message_group="order-1", delivery_attempt=1),
    )
    [row] = make_batch([message], ["properties", "messageGroup", "reconsumeTimes"]).to_pylist()
    assert row == {"properties": [("colour", "red")], "messageGroup": "order-1", "reconsumeTimes": 0}


@pytest.mark.parametrize(
    ("users", "system", "expected"),
    [
        pytest.param({}, v2.SystemProperties(), {}, id="none: an empty map, and not null"),
        pytest.param({}, v2.SystemProperties(trace_context="00-4b"), {"TRACE_CONTEXT": "00-4b"}, id="its own field"),
        pytest.param({"TRACE_CONTEXT": "00-4b"}, v2.SystemProperties(), {"TRACE_CONTEXT": "00-4b"}, id="the user's"),
        pytest.param(
            {"TRACE_CONTEXT": "old"}, v2.SystemProperties(trace_context="new"), {"TRACE_CONTEXT": "new"}, id="both"
        ),
        pytest.param({}, v2.SystemProperties(trace_context=""), {"TRACE_CONTEXT": ""}, id="an empty one"),
    ],
)
def test_the_trace_context_is_a_system_property(
    users: dict[str, str], system: v2.SystemProperties, expected: dict[str, str]
) -> None:
    """Acceptance case 44: a server may send it in its own field, among the user's properties, or in both."""
    [row] = make_batch([v2.Message(user_properties=users, system_properties=system)], COLUMNS).to_pylist()
    assert (dict(row["properties"]), dict(row["systemProperties"])) == ({}, expected)
