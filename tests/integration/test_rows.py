"""The rows of a stream."""

from __future__ import annotations

import re
from dataclasses import replace

from pyspark.sql import Row, SparkSession
from pyspark.sql.functions import window

from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.state.facts import RowsStored
from tests.harness.server_kinds import needs
from tests.harness.servers import StartServer
from tests.harness.spark_queries import Queries, Topic, await_end


def test_the_example_of_the_readme(spark: SparkSession, topic: Topic) -> None:
    topic.send(b"one", b"two", b"three")
    messages = spark.readStream.format("rmqpull").options(**topic.options).option("startingOffsets", "earliest").load()
    bodies = messages.selectExpr("CAST(body AS STRING) AS body")
    query = bodies.writeStream.format("memory").queryName("example").trigger(availableNow=True).start()
    await_end(query)
    assert sorted(row["body"] for row in spark.table("example").collect()) == ["one", "three", "two"]


FULL = Message(
    body=b"full",
    msg_id="id-1",
    tags="red",
    keys=("k1", "k2"),
    properties={"colour": "ü", "size": "L"},
    born_timestamp_ms=1_700_000_000_123,
    born_host="10.1.2.3",
)


def test_a_row_has_all_fields_of_its_message_and_nulls_for_missing_ones(queries: Queries, topic: Topic) -> None:
    """Acceptance cases 30, 38 and 44: missing fields are null, but no property is an empty map."""
    topic.send(FULL, b"plain")
    stream = queries.stream(topic)
    assert stream.schema == ROW_SCHEMA
    kept = [
        name
        for name in ROW_SCHEMA.names
        if name not in ("bornTimestamp", "bornHost", "storeTimestamp", "storeHost", "queueId")
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
        reconsumeTimes=0,
        messageGroup=None,
        deliveryTimestamp=None,
        born=1_700_000_000_123,
        isStoredLater=True,
    )
    absent = ("tags", "keys", "messageGroup", "deliveryTimestamp")
    assert {name: plain[name] for name in absent} == dict.fromkeys(absent)
    assert (plain["body"], plain["properties"]) == (b"plain", {})


def test_the_born_host_is_an_address_with_a_port(queries: Queries, topic: Topic) -> None:
    """As Java's clients show it. A host that a producer over gRPC names is among the system properties."""
    topic.send(replace(FULL, born_host="laptop"), b"plain")
    for row in queries.run(queries.stream(topic)).rows:
        assert re.fullmatch(r"[0-9.]+:\d+", row["bornHost"])


@needs("empty bodies")
def test_an_empty_body_is_empty(queries: Queries, start_server: StartServer) -> None:
    """Acceptance case 30. Brokers refuse them (rules 3.10.1), but may have stored some once."""
    server = start_server({"orders": 1})
    [stored] = server.broker.send("orders", b"x")
    empty = replace(stored, message=replace(stored.message, body=b""), queue_offset=1)
    server.broker.change(lambda draft: draft.add(RowsStored(MessageQueue("orders", "broker-a", 0), (empty,))))
    rows = queries.run(queries.stream(Topic("orders", server))).rows
    [row] = [row for row in rows if row["queueOffset"] == 1]
    assert (row["body"], row["tags"], row["keys"], row["properties"]) == (b"", None, None, {})


def test_system_properties_are_read_if_they_are_named(queries: Queries, topic: Topic) -> None:
    topic.send(Message(b"traced", "", trace_context="00-4bf9-01"), b"plain")
    columns = "body BINARY, systemProperties MAP<STRING,STRING>"
    by_schema = queries.run(queries.stream(topic, columns)).rows
    found = {bytes(row["body"]): row["systemProperties"].get("TRACE_CONTEXT") for row in by_schema}
    assert found == {b"traced": "00-4bf9-01", b"plain": None}
    by_option = queries.batch(topic, columns="body,systemProperties")
    assert by_option.schema.simpleString() == "struct<body:binary,systemProperties:map<string,string>>"
    assert sorted(by_option.collect(), key=lambda row: bytes(row["body"])) == sorted(
        by_schema, key=lambda row: bytes(row["body"])
    )


def test_a_view_selects_columns(spark: SparkSession, topic: Topic) -> None:
    topic.send(Message(b"one", "", tags="red"))
    options = ", ".join(f"{name} '{value}'" for name, value in topic.options.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW named USING rmqpull OPTIONS ({options}, columns 'tags,body')")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW declared (tags STRING, body BINARY) USING rmqpull OPTIONS ({options})")
    for view in ("named", "declared"):
        assert spark.table(view).collect() == [Row(tags="red", body=bytearray(b"one"))]
        spark.sql(f"DROP VIEW {view}")


def test_times_are_event_times(queries: Queries, topic: Topic) -> None:
    """Acceptance case 24: a window closes when the watermark of ``bornTimestamp`` is behind it."""
    for second in (1, 2, 61, 200):
        # 40 s are a whole minute
        topic.send(Message(b"x", "", born_timestamp_ms=(1_700_000_040 + second) * 1_000))
    queries.session.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        minutes = queries.stream(topic).withWatermark("bornTimestamp", "10 seconds")
        counts = minutes.groupBy(window("bornTimestamp", "1 minute")).count()
        run = queries.run(counts.selectExpr("unix_seconds(window.start) - 1700000040 AS start", "count"))
    finally:
        queries.session.conf.unset("spark.sql.shuffle.partitions")
    assert sorted(run.rows) == [Row(start=0, count=2), Row(start=60, count=1)]


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
