"""Batch reads between given positions, and streams that start at a time or at the group's offsets, on both
transports.
"""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession

from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import Queries, Topic

GROUP = "billing"
Place = tuple[int, int]


def numbered(first: int, until: int) -> list[bytes]:
    return [b"%02d" % number for number in range(first, until)]


def places(rows: DataFrame) -> list[Place]:
    """Returns queue id and offset of every row."""
    return sorted((row["queueId"], row["queueOffset"]) for row in rows.collect())


def all_places(topic: Topic) -> list[Place]:
    return sorted((queue_id, offset) for queue_id, end in topic.ends().items() for offset in range(end))


def stored_ms(queries: Queries, topic: Topic) -> dict[Place, int]:
    """Returns when the broker stored each message."""
    times = queries.batch(topic).selectExpr("queueId", "queueOffset", "unix_millis(storeTimestamp) AS ms")
    return {(row["queueId"], row["queueOffset"]): row["ms"] for row in times.collect()}


def by_queue(topic: Topic, **offsets: int) -> str:
    return json.dumps({topic.name: {"broker-a": {name.removeprefix("q"): offset for name, offset in offsets.items()}}})


def test_a_batch_reads_all_messages_from_before_its_planning(queries: Queries, topic: Topic) -> None:
    """Acceptance cases 41 and 42. Spark plans a loaded DataFrame once, so all its actions agree."""
    topic.send(*numbered(0, 9))
    loaded = queries.batch(topic)
    assert places(loaded) == all_places(topic)
    before = all_places(topic)
    topic.send(*numbered(9, 12))
    assert places(loaded) == before
    assert places(queries.batch(topic)) == all_places(topic)


@needs_spark("a union that is planned once")
def test_both_sides_of_a_union_read_what_was_planned_before(queries: Queries, topic: Topic) -> None:
    """Acceptance case 50."""
    topic.send(*numbered(0, 9))
    loaded, before = queries.batch(topic), all_places(topic)
    assert places(loaded) == before
    topic.send(*numbered(9, 12))
    assert places(loaded.union(loaded)) == sorted(2 * before)


def test_a_batch_reads_from_offsets_to_offsets(queries: Queries, topic: Topic) -> None:
    """Acceptance case 43: queues that are not named are read from start to end."""
    topic.send(*numbered(0, 9))
    read = queries.batch(
        topic, startingOffsets=by_queue(topic, q0=1, q1=2), endingOffsets=by_queue(topic, q0=2, q1=2), numPartitions="1"
    )
    assert places(read) == [(0, 1), (2, 0), (2, 1), (2, 2)]


def test_a_batch_reads_from_a_time_to_a_time(queries: Queries, topic: Topic) -> None:
    """Acceptance cases 45, 46 and 48: [start, end) in the broker's time, also together with offsets."""
    topic.send(*numbered(0, 30))
    times = stored_ms(queries, topic)
    ordered = sorted(times.values())
    start, end = ordered[9], ordered[20]
    read = queries.batch(
        topic, startingTimestamp=str(start), endingTimestamp=str(end), startingOffsetsByTimestampStrategy="latest"
    )
    assert places(read) == sorted(place for place, ms in times.items() if start <= ms < end)
    late = queries.batch(topic, startingOffsets=by_queue(topic, q0=3), endingTimestamp=str(ordered[-1] + 1))
    assert places(late) == [place for place in all_places(topic) if place >= (0, 3)]


def test_an_empty_topic_and_equal_start_and_end_are_no_rows(queries: Queries, topic: Topic) -> None:
    assert queries.batch(topic).collect() == []
    topic.send(*numbered(0, 3))
    same = by_queue(topic, q0=1, q1=0, q2=1)
    assert queries.batch(topic, startingOffsets=same, endingOffsets=same).count() == 0


def test_a_batch_starts_at_the_groups_offsets_and_does_not_change_them(queries: Queries, topic: Topic) -> None:
    topic.send(*numbered(0, 6))
    queries.run(queries.stream(topic, consumerGroup=GROUP))
    finished = topic.ends()
    topic.send(*numbered(6, 12))
    read = queries.batch(topic, "body BINARY, queueId INT", startingOffsets="group", consumerGroup=GROUP)
    assert read.columns == ["body", "queueId"]
    assert sorted(bytes(row["body"]) for row in read.collect()) == numbered(6, 12)
    assert topic.committed(GROUP) == finished


def test_a_view_in_sql_reads_as_a_batch(spark: SparkSession, topic: Topic) -> None:
    topic.send(*numbered(0, 9))
    given = topic.options | {"startingOffsets": by_queue(topic, q1=1)}
    options = ", ".join(f"{name} '{value}'" for name, value in given.items())
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW messages USING rmqpull OPTIONS ({options})")
    [counted] = spark.sql("SELECT count(*) AS rows, min(CAST(body AS STRING)) AS first FROM messages").collect()
    assert (counted["rows"], counted["first"]) == (8, "00")
    spark.sql("DROP VIEW messages")


def test_a_stream_starts_at_a_time(queries: Queries, topic: Topic) -> None:
    """Acceptance cases 6 and 10."""
    topic.send(*numbered(0, 30))
    times = stored_ms(queries, topic)
    start = sorted(times.values())[15]
    wanted = {"startingTimestamp": str(start), "startingOffsetsByTimestampStrategy": "latest"}
    rows = queries.run(queries.stream(topic, **wanted)).rows
    assert sorted((row["queueId"], row["queueOffset"]) for row in rows) == sorted(
        place for place, ms in times.items() if ms >= start
    )


def test_a_stream_starts_at_the_groups_offsets(queries: Queries, topic: Topic) -> None:
    topic.send(*numbered(0, 6))
    queries.run(queries.stream(topic, consumerGroup=GROUP))
    topic.send(*numbered(6, 12))
    again = queries.with_new_checkpoint()
    assert again.run(again.stream(topic, startingOffsets="group", consumerGroup=GROUP)).bodies == numbered(6, 12)
    assert topic.committed(GROUP) == topic.ends()
