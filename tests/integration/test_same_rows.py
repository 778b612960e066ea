"""A message gives the same row whichever way it is read, and whoever has sent it: one table for all servers."""

from __future__ import annotations

import datetime
import re
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from processes.apache.java_clients import JavaProducer, make_message
from processes.apache.releases import Release
from rmqpull_broker.core.model import BodyEncoding, Message, TopicType
from tests.harness.apache_messages import read_records
from tests.harness.apache_servers import ApacheServer
from tests.harness.recorded_messages import CLIENTS, read_recorded
from tests.harness.server_kinds import APACHE, PROXY, REMOTING, make_params
from tests.harness.servers import Server, StartServer
from tests.harness.spark_queries import Queries, Topic
from tests.harness.waiting import wait_until

TEXT = b"hello " * 50
NO_HOST = "0.0.0.0:0"
"""The messages that our broker sends itself come from nowhere."""
BORN_MS, DELIVERED_MS = 1_700_000_000_123, 1_700_000_001_000
NOTHING: dict[str, Any] = {
    "tags": None,
    "keys": None,
    "properties": {},
    "messageGroup": None,
    "deliveryTimestamp": None,
    "reconsumeTimes": 0,
}
TABLE: list[tuple[Message, dict[str, Any]]] = [
    (Message(b"plain", "id-0"), {"body": b"plain", "msgId": "id-0"}),
    (Message(b"\x00\xff", "id-1"), {"body": b"\x00\xff", "msgId": "id-1"}),
    (Message(b"tag", "id-2", tags="red"), {"tags": "red"}),
    (Message(b"keys", "id-3", keys=("k1", "k2")), {"keys": ["k1", "k2"]}),
    (
        Message(b"properties", "id-4", properties={"colour": "ü", "size": "L x"}),
        {"properties": {"colour": "ü", "size": "L x"}},
    ),
    (Message(b"group", "id-5", message_group="order-1"), {"messageGroup": "order-1"}),
    (Message(b"times", "id-6", born_timestamp_ms=BORN_MS), {"bornTimestamp": BORN_MS}),
    (Message(zlib.compress(TEXT), "id-7", body_encoding=BodyEncoding.ZLIB), {"body": TEXT}),
    (Message(zlib.compress(TEXT), "id-8", body_encoding=BodyEncoding.GZIP), {"body": TEXT}),
    (Message(pa.Codec("lz4").compress(TEXT, asbytes=True), "id-9", body_encoding=BodyEncoding.LZ4), {"body": TEXT}),
    (Message(pa.Codec("zstd").compress(TEXT, asbytes=True), "id-10", body_encoding=BodyEncoding.ZSTD), {"body": TEXT}),
    (Message(b"emoji \xf0\x9f\x98\x80", "id-11", tags="ü", keys=("😀",)), {"tags": "ü", "keys": ["😀"]}),
]
"""Messages, and the columns of their rows that are not as in NOTHING."""


def milliseconds(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def shown(row: Row, wanted: dict[str, Any]) -> dict[str, Any]:
    """The columns of a row that a row of the table has, in its form."""
    found = {name: row[name] for name in wanted}
    for name in ("bornTimestamp", "deliveryTimestamp"):
        if found.get(name) is not None:
            found[name] = milliseconds(found[name])
    return found | ({"body": bytes(row["body"])} if "body" in wanted else {})


def test_messages_of_all_forms(queries: Queries, start_server: StartServer, kind: str) -> None:
    """Also the hosts and times that the broker adds."""
    server = start_server({"rows": 1, "groups": (1, TopicType.FIFO)})
    for message, _ in TABLE:
        server.send("groups" if message.message_group else "rows", message)
    rows = {row["msgId"]: row for row in queries.batch(Topic("rows,groups", server)).collect()}
    expected = {message.msg_id: NOTHING | wanted for message, wanted in TABLE}
    assert {msg_id: shown(rows[msg_id], wanted) for msg_id, wanted in expected.items()} == expected
    assert len(rows) == len(TABLE)
    for topic in ("rows", "groups"):
        for queue, stored in server.messages(topic).items():
            for each in stored:
                row = rows[each.message.msg_id]
                assert (row["topic"], row["brokerName"], row["queueId"]) == queue
                assert (row["queueOffset"], row["bornHost"]) == (
                    each.queue_offset,
                    each.message.born_host or NO_HOST,
                )
                assert (milliseconds(row["storeTimestamp"]), row["storeHost"]) == (
                    each.store_timestamp_ms,
                    each.store_host,
                )


def test_messages_of_clients_in_other_languages(queries: Queries, start_server: StartServer) -> None:
    """Recorded on a real RocketMQ: the classic client for Go, and the gRPC clients. They are sent again here."""
    server = start_server({"rows": 1, "groups": (1, TopicType.FIFO)})
    expected = {}
    for recorded in (recorded for client in CLIENTS for recorded in read_recorded(client)):
        for record, row in zip(read_records(recorded.body), recorded.rows, strict=True):
            # The properties that clients and servers add are those of the server here. The recorded ones are read as
            # they came in tests/client/transports/remoting/reading/test_rows.py.
            message = replace(record.row.message, properties=row["properties"], system_properties={})
            server.send("groups" if row["messageGroup"] else "rows", message)
            expected[row["msgId"]] = NOTHING | row
    rows = queries.batch(Topic("rows,groups", server)).collect()
    assert {row["msgId"]: shown(row, expected[row["msgId"]]) for row in rows} == expected
    assert len(rows) == len(expected) == 5 * len(CLIENTS)


BY_JAVA: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"body": b"plain"}, {"body": b"plain"}),
    ({"body": b"tag", "tags": "red"}, {"body": b"tag", "tags": "red"}),
    ({"body": b"keys", "keys": "k1 k2"}, {"body": b"keys", "keys": ["k1", "k2"]}),
    ({"body": b"p", "properties": {"colour": "ü"}}, {"body": b"p", "properties": {"colour": "ü"}}),
    ({"body": b"ordered", "shardingKey": "order-1"}, {"body": b"ordered"}),  # it only chooses the queue
    ({"body": b"group", "properties": {"__SHARDINGKEY": "order-1"}}, {"body": b"group", "messageGroup": "order-1"}),
    ({"body": TEXT * 20}, {"body": TEXT * 20}),  # compressed by the producer
]


@pytest.mark.parametrize("kind", make_params([REMOTING, APACHE, PROXY]))
def test_messages_of_apache_s_producer(
    queries: Queries, server: Server, topic: Topic, apache_release: Release, tmp_path: Path
) -> None:
    """Through a proxy, they are only read: it checks the types of messages, and the topic is of type NORMAL."""
    addresses = server.cluster.addresses if isinstance(server, ApacheServer) else server.options["nameServers"]
    messages = [make_message(topic.name, **{**fields, "broker": "broker-a", "queue": 0}) for fields, _ in BY_JAVA]
    with JavaProducer(apache_release, addresses, tmp_path / "java") as producer:
        results = producer.send_all(messages)
        producer.send_batch([make_message(topic.name, b"one"), make_message(topic.name, b"two")])
    # Brokers fill their queues after they have acknowledged a message.
    wait_until(lambda: sum(topic.ends().values()) == len(BY_JAVA) + 2, "all messages can be read")
    found = queries.batch(topic).collect()
    rows = {row["msgId"]: row for row in found}
    for result, (_, wanted) in zip(results, BY_JAVA, strict=True):
        assert shown(rows[result["msgId"]], NOTHING | wanted) == NOTHING | wanted
        assert re.fullmatch(r"127\.0\.0\.1:\d+", rows[result["msgId"]]["bornHost"])
    assert len(found) == len(BY_JAVA) + 2
    # Not by their ids: those of a batch are the same on brokers of 5.x (rules 4.10).
    batched = {bytes(row["body"]): row for row in found}
    assert batched[b"two"]["queueOffset"] == batched[b"one"]["queueOffset"] + 1
