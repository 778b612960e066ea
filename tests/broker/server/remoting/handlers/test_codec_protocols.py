"""A message sent by one protocol is read by each other with the same fields: remoting, v2 and columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from processes.apache.calls import Calls
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.properties import encode_properties
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import Connect, RpcClient

BORN_MS = 1_700_000_000_123
ADDED = {"MSG_REGION", "TRACE_ON", "CLUSTER"}
"""Each message of a broker has them, so they are not stored."""
NAMED = [("__BORNHOST", "laptop"), ("BORN_TIMESTAMP", str(BORN_MS))]
"""What a producer of v2 has named."""

Fields = dict[str, Any]
"""A message as a row of columns: body, msgId, tags, keys, properties, messageGroup, bodyEncoding."""


@pytest.fixture(scope="module")
def broker() -> Iterator[RunningBroker]:
    with running_broker(remoting=True) as running:
        yield running


@pytest.fixture
def client(broker: RunningBroker, connect: Connect) -> RpcClient:
    return connect(broker.endpoints, "tester")


def send_remoting(broker: RunningBroker, _: RpcClient, topic: str, message: Fields) -> None:
    own = {
        "UNIQ_KEY": message["msgId"],
        "TAGS": message.get("tags"),
        "KEYS": " ".join(message.get("keys", [])),
        "__SHARDINGKEY": message.get("messageGroup"),
        **dict(message.get("properties", [])),
    }
    text = encode_properties({name: value for name, value in own.items() if value})
    compressed = 1 if message.get("bodyEncoding") == v2.Encoding.GZIP else 0
    values = ("producers", topic, "TBW102", 1, 0, compressed, BORN_MS, message.get("flag", 0), text, 0, "false")
    fields = dict(zip("abcdefghijk", values, strict=True))
    Calls().call(broker.remoting_addresses[0], RequestCode.SEND_MESSAGE_V2, fields, message["body"])


def send_v2(_: RunningBroker, client: RpcClient, topic: str, message: Fields) -> None:
    system = v2.SystemProperties(
        message_id=message["msgId"],
        tag=message.get("tags"),
        keys=message.get("keys"),
        message_group=message.get("messageGroup"),
        body_encoding=message.get("bodyEncoding"),
        born_host="laptop",
    )
    system.born_timestamp.FromMilliseconds(BORN_MS)
    properties = dict(message.get("properties", []))
    resource = v2.Resource(name=topic)
    client.send(v2.Message(topic=resource, body=message["body"], user_properties=properties, system_properties=system))


def send_columns(_: RunningBroker, client: RpcClient, topic: str, message: Fields) -> None:
    born = {"bornTimestamp": datetime.fromtimestamp(BORN_MS / 1000, timezone.utc)}
    row = {name: [value] for name, value in {**message, **born}.items() if name != "flag"}
    batch = pa.RecordBatch.from_pydict(row, schema=columns.select(columns.PUBLISH_SCHEMA, row))
    stream = columns.write_stream(batch.schema, [batch])
    answer = client.call("PublishColumns", v1.PublishColumnsRequest(topic=topic, arrow_ipc=stream))
    assert answer.status.code == v2.Code.OK


def read_remoting(broker: RunningBroker, topic: str) -> Fields:
    """Returns the message as the connector's decoder reads the record."""
    fields = {"consumerGroup": "readers", "topic": topic, "queueId": 0, "queueOffset": 0, "maxMsgNums": 1}
    fields |= {"sysFlag": 4, "commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    request = {**fields, "expressionType": "TAG"}
    body = Calls().call(broker.remoting_addresses[0], RequestCode.PULL_MESSAGE, request).body
    table = locate_records(body, np.array([0]), np.array([len(body)]))
    assert table.damaged == ()
    rows: list[Fields] = decode_columns(table, columns.PULLABLE_SCHEMA.names).to_pylist()
    return rows[0] | {"flag": int.from_bytes(body[16:20], "big", signed=True)}


def read_columns(client: RpcClient, topic: str) -> Fields:
    queue = v1.QueuePull(queue=v1.Queue(topic=topic, broker_name="broker-a", queue_id=0), offset=0)
    request = v1.PullColumnsRequest(
        group="readers",
        queues=[queue],
        filter_expression=v2.FilterExpression(expression="*"),
        columns=columns.PULLABLE_SCHEMA.names,
    )
    (batch,) = read_stream(client.call("PullColumns", request).arrow_ipc, columns.PULLABLE_SCHEMA)
    rows: list[Fields] = batch.to_pylist()
    return rows[0]


def read_v2(client: RpcClient, topic: str) -> Fields:
    """Returns the message as a row, as far as v2 has its columns."""
    (message,) = client.pull(v2.MessageQueue(topic=v2.Resource(name=topic), id=0), 0).messages
    system = message.system_properties
    return {
        "body": message.body,
        "msgId": system.message_id,
        "tags": system.tag if system.HasField("tag") else None,
        "keys": list(system.keys) or None,
        "properties": [entry for entry in message.user_properties.items() if entry[0] != "__SHARDINGKEY"],
        "messageGroup": system.message_group or None,
        "bornTimestamp": system.born_timestamp.ToDatetime(timezone.utc),
        "bornHost": system.born_host,
        "storeTimestamp": system.store_timestamp.ToDatetime(timezone.utc),
        "storeHost": system.store_host,
        "queueOffset": system.queue_offset,
        "bodyEncoding": system.body_encoding,
        "reconsumeTimes": system.delivery_attempt - 1,
    }


MESSAGES: dict[str, Fields] = {
    "plain": {"body": b"x", "msgId": "ID"},
    "tagged": {"body": b"x", "msgId": "ID", "tags": "red", "keys": ["k1", "k2"]},
    "own": {"body": b"x", "msgId": "ID", "properties": [("colour", "blue"), ("ü", "é")]},
    "ordered": {"body": b"x", "msgId": "ID", "messageGroup": "customer-7"},
    "packed": {"body": b"\x1f\x8bpacked", "msgId": "ID", "bodyEncoding": v2.Encoding.GZIP},
    "flagged": {"body": b"x", "msgId": "ID", "flag": -7},
}


@pytest.mark.parametrize("name", MESSAGES)
@pytest.mark.parametrize("send", [send_remoting, send_v2, send_columns])
def test_each_protocol_reads_what_another_has_sent(
    broker: RunningBroker, client: RpcClient, send: Callable[..., None], name: str
) -> None:
    topic = f"{send.__name__}-{name}"
    broker.create_topic(topic, 1, TopicType.FIFO if name == "ordered" else TopicType.NORMAL)
    send(broker, client, topic, MESSAGES[name])
    row, by_v2, record = read_columns(client, topic), read_v2(client, topic), read_remoting(broker, topic)
    for each in (row, by_v2, record):
        each["properties"].sort()  # a map of protobuf has no order
    expected = {name: value for name, value in MESSAGES[name].items() if name != "flag"}
    expected |= {"bornTimestamp": datetime.fromtimestamp(BORN_MS / 1000, timezone.utc)}
    assert re.fullmatch(r"127\.0\.0\.1:\d+", row["bornHost"])
    assert {name: row[name] for name in expected} == expected
    assert {name: row[name] for name in by_v2} == by_v2
    own = row["systemProperties"] or []
    assert [entry for entry in own if entry in NAMED] == (NAMED if send is send_v2 else [])
    assert {name for name, _ in record["systemProperties"]} - {name for name, _ in own} == ADDED
    assert record["flag"] == (MESSAGES[name].get("flag", 0) if send is send_remoting else 0)
    assert {name: record[name] for name in row if name != "systemProperties"} == {
        name: value for name, value in row.items() if name != "systemProperties"
    }
