"""What a real broker stores of our messages, read as rows (rules 4.7 to 4.10)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from processes.apache.cluster import ApacheCluster
from rmqpull_client.transports.remoting.messages.batch_messages import encode_batch
from rmqpull_client.transports.remoting.messages.property_texts import encode_property_texts, make_unique_keys
from rmqpull_client.transports.remoting.messages.stored_columns import decode_columns
from rmqpull_client.transports.remoting.messages.stored_messages import locate_records
from rmqpull_proto.columns import PUBLISH_SCHEMA, PULLABLE_SCHEMA
from rmqpull_proto.remoting.codes import RequestCode
from tests.harness.waiting import wait_until

COUNT = 100


def send(apache: ApacheCluster, topic: str, code: RequestCode, body: bytes, properties: str = "") -> None:
    fields = {"a": "senders", "b": topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1_700_000_000_123, "h": 0}
    fields |= {"i": properties, "j": 0, "k": "false", "m": str(code == RequestCode.SEND_BATCH_MESSAGE).lower()}
    apache.administration.call(apache.brokers[0].address, code, fields, body)


def pull(apache: ApacheCluster, topic: str) -> list[dict[str, Any]]:
    """Reads all messages, in pulls of what the broker gives at once."""
    # A broker puts messages into their queue after it has answered the producer.
    wait_until(lambda: apache.administration.count_messages(topic) == COUNT, "all messages in their queue")
    bodies: list[bytes] = []
    offset = 0
    fields = {"consumerGroup": f"{topic}-readers", "topic": topic, "queueId": 0, "maxMsgNums": 32, "sysFlag": 4}
    fields |= {"commitOffset": 0, "suspendTimeoutMillis": 0, "subscription": "*", "subVersion": 0}
    for _ in range(COUNT):
        if offset >= COUNT:
            break
        request = fields | {"queueOffset": offset, "expressionType": "TAG"}
        response = apache.administration.call(apache.brokers[0].address, RequestCode.PULL_MESSAGE, request)
        offset = int(response.fields["nextBeginOffset"])
        bodies.append(response.body)
    ends = np.cumsum([len(body) for body in bodies])
    table = locate_records(b"".join(bodies), np.concatenate([[0], ends[:-1]]), ends)
    assert table.damaged == ()
    batch = decode_columns(table, PULLABLE_SCHEMA.names)
    batch.validate(full=True)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def make_rows() -> pa.RecordBatch:
    columns: dict[str, list[Any]] = {
        "body": [bytes([number]) * number for number in range(1, COUNT + 1)],
        "tags": [None if number % 3 else f"tag-{number}" for number in range(COUNT)],
        "keys": [[f"k{key}" for key in range(number % 3)] for number in range(COUNT)],
        "properties": [[(f"name-{entry}", f"ü{number}") for entry in range(number % 4)] for number in range(COUNT)],
        "messageGroup": [f"group-{number}" if number % 2 else None for number in range(COUNT)],
        "msgId": make_unique_keys(bytes(10), 1, COUNT).to_pylist(),
    }
    return pa.record_batch({name: pa.array(each, PUBLISH_SCHEMA.field(name).type) for name, each in columns.items()})


def find_added(apache: ApacheCluster, code: RequestCode) -> set[str]:
    """Returns the names of RocketMQ's own properties that messages have, without those that have a column."""
    is_batch, release = code == RequestCode.SEND_BATCH_MESSAGE, apache.brokers[0].release.server
    if is_batch and release.startswith("5.5."):
        return {"WAIT"}  # 5.5 adds to the properties of the batch, and no longer to those of its messages
    if release.startswith("5."):
        return {"WAIT", "MSG_REGION", "TRACE_ON", "CLUSTER"}
    return {"WAIT", "CLUSTER"} if is_batch else {"CLUSTER"}


@pytest.mark.parametrize("code", [RequestCode.SEND_BATCH_MESSAGE, RequestCode.SEND_MESSAGE_V2])
def test_sent_rows_come_back(apache: ApacheCluster, code: RequestCode) -> None:
    topic = f"rows-{code.value}"
    apache.administration.create_topic(topic, queues=1)
    sent = make_rows()
    texts = encode_property_texts(sent)
    if code == RequestCode.SEND_BATCH_MESSAGE:
        send(apache, topic, code, bytes(encode_batch(sent.column("body"), texts).data))
    else:
        for body, text in zip(sent.column("body").to_pylist(), texts.to_pylist(), strict=True):
            send(apache, topic, code, body, text)
    broker, added = apache.brokers[0].address, find_added(apache, code)
    rows = pull(apache, topic)
    assert [row["queueOffset"] for row in rows] == list(range(COUNT))
    for row, expected in zip(rows, sent.to_pylist(), strict=True):
        expected = expected | {"keys": expected["keys"] or None, "properties": dict(expected["properties"])}
        assert {name: row[name] for name in expected} | {"properties": dict(row["properties"])} == expected
        assert row["bornTimestamp"].timestamp() == 1_700_000_000.123
        assert re.fullmatch(r"127\.0\.0\.1:\d+", row["bornHost"])
        assert row["storeHost"] == broker
        assert {name for name, _ in row["systemProperties"]} == added
