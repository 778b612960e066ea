"""Several topics, patterns, single queues, several brokers, and several sources in a query."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from tests.harness.server_kinds import COLUMNS, PROXY, STANDARD, make_params, needs
from tests.harness.servers import ManagedServer, StartServer
from tests.harness.spark_queries import WAIT_S, Queries, Topic


@pytest.fixture
def listing(start_server: StartServer) -> ManagedServer:
    """Two brokers that list their topics: "orders-a" and "sales", with two queues on each broker."""
    topics = {"orders-a": 2, "sales": 2}
    return start_server(topics, brokers=("broker-a", "broker-b"), lists_topics=True)


def matching(spark: SparkSession, server: ManagedServer, **options: str) -> DataFrame:
    given = {**server.options, "startingOffsets": "latest"} | options
    return spark.readStream.format("rmqpull").options(**given).load()


def test_a_list_of_topics(queries: Queries, spark: SparkSession, listing: ManagedServer) -> None:
    listing.send("orders-a", b"one", b"two")
    listing.send("sales", b"three")
    stream = matching(spark, listing, topic="orders-a, sales", startingOffsets="earliest")
    run = queries.run(stream)
    assert sorted((row["topic"], bytes(row["body"])) for row in run.rows) == [
        ("orders-a", b"one"),
        ("orders-a", b"two"),
        ("sales", b"three"),
    ]


def test_the_queues_of_several_brokers(queries: Queries, spark: SparkSession, listing: ManagedServer) -> None:
    listing.send("sales", *(b"%d" % number for number in range(8)))
    rows = queries.run(matching(spark, listing, topic="sales", startingOffsets="earliest")).rows
    assert sorted((row["brokerName"], row["queueId"], row["queueOffset"]) for row in rows) == [
        (broker, queue, offset) for broker in ("broker-a", "broker-b") for queue in (0, 1) for offset in (0, 1)
    ]


@needs("lists of topics")
def test_a_new_topic_that_matches_is_read_from_its_start(
    queries: Queries, spark: SparkSession, listing: ManagedServer
) -> None:
    """Acceptance case 9, from latest. After a restart the query continues with the topics that it has found."""
    listing.send("orders-a", b"old")
    run = queries.start(matching(spark, listing, topicPattern="orders-.*"))
    run.process_all()
    listing.create_topic("orders-b", 1)
    listing.create_topic("other", 1)
    listing.send("orders-b", b"first of b", b"second of b")
    listing.send("other", b"unwanted")
    listing.send("sales", b"unwanted")
    listing.send("orders-a", b"new")
    # A route that was requested while brokers were still being told of the topic names only some of them for a while.
    run.wait_until(lambda: len(run.bodies) == 3, "the new topic read from all brokers")
    run.process_all()  # so that the batch is finished too
    run.query.stop()
    assert sorted(run.bodies) == [b"first of b", b"new", b"second of b"]
    listing.send("orders-b", b"third of b")
    assert queries.run(matching(spark, listing, topicPattern="orders-.*")).bodies == [b"third of b"]


@needs("lists of topics")
def test_a_pattern_without_a_match_waits_for_one(queries: Queries, spark: SparkSession, listing: ManagedServer) -> None:
    run = queries.start(matching(spark, listing, topicPattern="refunds"))
    run.process_all()
    listing.create_topic("refunds", 1)
    listing.send("refunds", b"one")
    run.wait_until(lambda: bool(run.rows), "the new topic read")
    assert run.bodies == [b"one"]


@needs("lists of topics")
def test_a_topic_that_vanishes_ends_the_query(queries: Queries, spark: SparkSession, listing: ManagedServer) -> None:
    run = queries.start(matching(spark, listing, topicPattern="orders-.*|sales"))
    run.process_all()
    listing.delete_topic("sales")
    with pytest.raises(StreamingQueryException, match="DataLoss: Queue sales/broker-a/0 no longer exists"):
        run.query.awaitTermination(WAIT_S)


@pytest.mark.parametrize("kind", make_params([COLUMNS, STANDARD, PROXY]))
def test_a_pattern_needs_a_server_that_lists_its_topics(queries: Queries, topic: Topic, kind: str) -> None:
    stream = queries.stream(topic, topicPattern="topic.*")
    sentence = (
        "OptionError: .* is a proxy, .*option topicPattern .*Name the topics instead"
        if kind == PROXY
        else "OptionError: .* as option topicPattern requires: .* with option topic"
    )
    with pytest.raises(StreamingQueryException, match=sentence):
        queries.run(stream)


def assigned(queries: Queries, topic: Topic, *queue_ids: int, starting: str) -> DataFrame:
    queue_json = json.dumps({topic.name: {"broker-a": queue_ids}})
    return queries.stream(topic, assign=queue_json, startingOffsets=starting)


def test_assigned_queues_from_earliest_and_after_a_restart(queries: Queries, topic: Topic) -> None:
    """Acceptance case 3."""
    topic.send(*(b"%d" % number for number in range(6)))  # to the queues in turn
    first = queries.run(assigned(queries, topic, 0, 2, starting="earliest"))
    assert {(row["queueId"], row["queueOffset"]) for row in first.rows} == {(0, 0), (0, 1), (2, 0), (2, 1)}
    topic.send(b"a", b"b", b"c")
    second = queries.run(assigned(queries, topic, 0, 2, starting="earliest"))
    assert {(row["queueId"], row["queueOffset"]) for row in second.rows} == {(0, 2), (2, 2)}


def test_assigned_queues_from_latest(queries: Queries, topic: Topic) -> None:
    """Acceptance case 2."""
    topic.send(b"a", b"b", b"c")
    run = queries.start(assigned(queries, topic, 1, starting="latest"))
    run.process_all()
    topic.send(b"d", b"e", b"f")
    run.process_all()
    assert [(row["queueId"], row["queueOffset"]) for row in run.rows] == [(1, 1)]


def test_assigned_queues_from_offsets(queries: Queries, topic: Topic) -> None:
    """Acceptance case 4: offsets and names of starts together."""
    topic.send(*[b"x"] * 9)
    starting = json.dumps({topic.name: {"broker-a": {"0": 2, "1": "earliest", "2": "latest"}}})
    rows = queries.run(assigned(queries, topic, 0, 1, 2, starting=starting)).rows
    assert sorted((row["queueId"], row["queueOffset"]) for row in rows) == [(0, 2), (1, 0), (1, 1), (1, 2)]


def test_an_assigned_queue_that_does_not_exist_ends_the_query(queries: Queries, topic: Topic) -> None:
    """Acceptance case 61."""
    sentence = f"TopicMissing: Option assign names {topic.name}/broker-a/3, which does not exist."
    with pytest.raises(StreamingQueryException, match=re.escape(sentence)):
        queries.run(assigned(queries, topic, 0, 3, starting="earliest"))


def test_a_union_of_two_sources_at_two_brokers(queries: Queries, topic: Topic, start_server: StartServer) -> None:
    """Acceptance case 18: limited sources, one of which is idle before the other, also after a restart."""
    elsewhere = Topic("elsewhere", start_server({"elsewhere": 1}))

    def both() -> DataFrame:
        here, there = (queries.stream(entry, maxOffsetsPerTrigger="3") for entry in (topic, elsewhere))
        return here.union(there)

    topic.send(*(b"here %d" % number for number in range(8)))
    elsewhere.send(b"there")
    first = queries.run(both())
    assert first.bodies == [*(b"here %d" % number for number in range(8)), b"there"]
    assert [len(batch) for batch in first.batches.values()] == [4, 3, 2]
    elsewhere.send(b"there again")
    assert queries.run(both()).bodies == [b"there again"]


def of_bare_aliases(stream: DataFrame) -> DataFrame:
    return stream.alias("l").join(stream.alias("r"), col("l.body") == col("r.body")).select("l.body")


def of_one_projection(stream: DataFrame) -> DataFrame:
    texts = stream.selectExpr("CAST(body AS STRING) AS k", "queueOffset AS at")
    return texts.join(texts, "k").selectExpr("CAST(k AS BINARY) AS body")


def of_two_projections(stream: DataFrame) -> DataFrame:
    keys = stream.selectExpr("body AS k")
    return stream.select("body").join(keys, col("body") == col("k")).select("body")


@pytest.mark.parametrize(
    ("join", "reader_count", "input_rows"),
    [
        (of_bare_aliases, 2, 8),
        (of_one_projection, 1, 4),  # Spark reads once for both sides
        (of_two_projections, 1, 8),
    ],
)
def test_both_sides_of_a_self_join_see_the_same_rows(
    queries: Queries, topic: Topic, join: Callable[[DataFrame], DataFrame], reader_count: int, input_rows: int
) -> None:
    """Acceptance case 27."""
    queries.session.conf.set("spark.sql.shuffle.partitions", "2")
    try:
        topic.send(b"a", b"b", b"c", b"d")
        run = queries.run(join(queries.stream(topic)))
    finally:
        queries.session.conf.unset("spark.sql.shuffle.partitions")
    assert run.bodies == [b"a", b"b", b"c", b"d"]
    assert sum(progress["numInputRows"] for progress in run.query.recentProgress) == input_rows
    assert {len(progress["sources"]) for progress in run.query.recentProgress} == {reader_count}
