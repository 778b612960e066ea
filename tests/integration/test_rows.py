"""What a stream gives for the messages of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Row, SparkSession

from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

if TYPE_CHECKING:
    from tests.integration.conftest import Queries, Topic


def test_the_example_of_the_readme(spark: SparkSession, topic: Topic) -> None:
    topic.send(b"one", b"two", b"three")
    messages = (
        spark.readStream.format("rmqpull")
        .option("endpoints", topic.endpoints)
        .option("topic", topic.name)
        .option("startingOffsets", "earliest")
        .load()
    )
    bodies = messages.selectExpr("CAST(body AS STRING) AS body")
    query = bodies.writeStream.format("memory").queryName("example").trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(row["body"] for row in spark.table("example").collect()) == ["one", "three", "two"]


def full_message(topic: Topic) -> v2.Message:
    message = v2.Message(topic=v2.Resource(name=topic.name), body=b"full")
    system = v2.SystemProperties(message_id="id-1", tag="red", keys=["k1", "k2"], born_host="10.1.2.3")
    system.born_timestamp.FromMilliseconds(1_700_000_000_123)
    message.system_properties.MergeFrom(system)
    message.user_properties.update({"colour": "ü", "size": "L"})
    return message


def test_a_row_has_all_that_its_message_has_and_nulls_for_the_rest(queries: Queries, topic: Topic) -> None:
    topic.send_message(full_message(topic))
    topic.send(b"plain")
    stream = queries.stream(topic)
    assert stream.schema == ROW_SCHEMA
    kept = [
        name for name in ROW_SCHEMA.names if name not in ("bornTimestamp", "storeTimestamp", "storeHost", "queueId")
    ]
    times = ["unix_millis(bornTimestamp) AS born", "storeTimestamp >= bornTimestamp AS isStoredLater"]
    plain, full = sorted(
        queries.run(stream.selectExpr(*kept, *times)).rows, key=lambda row: bytes(row["body"]), reverse=True
    )
    assert full == Row(
        topic=topic.name,
        brokerName="broker-a",
        queueOffset=0,
        msgId="id-1",
        tags="red",
        keys=["k1", "k2"],
        body=bytearray(b"full"),
        properties={"colour": "ü", "size": "L"},
        bornHost="10.1.2.3",
        reconsumeTimes=0,
        messageGroup=None,
        deliveryTimestamp=None,
        born=1_700_000_000_123,
        isStoredLater=True,
    )
    absent = ("tags", "keys", "messageGroup", "deliveryTimestamp")
    assert {name: plain[name] for name in absent} == dict.fromkeys(absent)
    assert (plain["body"], plain["properties"]) == (b"plain", {})


def test_a_schema_selects_columns(queries: Queries, topic: Topic) -> None:
    topic.send(b"one", b"two")
    stream = queries.stream(topic, "queueOffset BIGINT, body BINARY COMMENT 'payload', topic STRING")
    rows = queries.run(stream).rows
    assert sorted(rows, key=lambda row: bytes(row["body"])) == [
        Row(queueOffset=0, body=bytearray(body), topic=topic.name) for body in (b"one", b"two")
    ]


def test_a_union_of_a_stream_with_itself_gives_each_row_twice(queries: Queries, topic: Topic) -> None:
    topic.send(b"one", b"two")
    stream = queries.stream(topic)
    assert queries.run(stream.union(stream)).bodies == [b"one", b"one", b"two", b"two"]
