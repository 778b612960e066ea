"""Where queries start, how far their micro-batches go, and where they continue."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import StreamingQueryException

from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import Queries, Topic

GROUP = "billing"


def numbered(first: int, until: int) -> list[bytes]:
    return [b"%02d" % number for number in range(first, until)]


@needs_spark("AvailableNow within limits")
def test_available_now_reads_in_limited_batches_and_leaves_later_messages_to_the_next_run(
    queries: Queries, topic: Topic
) -> None:
    """Acceptance cases 11 and 19: Spark counts as input the rows that were read."""
    topic.send(*numbered(0, 12))
    ends = topic.ends()

    def send_more(batch_id: int) -> None:
        if batch_id == 0:
            topic.send(*numbered(12, 15))

    stream = queries.stream(topic, consumerGroup=GROUP, maxOffsetsPerTrigger="6")
    first = queries.run(stream, send_more)
    assert first.bodies == numbered(0, 12)
    assert [len(batch) for batch in first.batches.values()] == [6, 6]
    assert [progress.numInputRows for progress in first.query.recentProgress if progress.numInputRows] == [6, 6]
    assert topic.committed(GROUP) == ends

    second = queries.run(stream)
    assert second.bodies == numbered(12, 15)
    assert topic.committed(GROUP) == topic.ends()


def test_a_running_query_reads_new_messages_without_empty_batches_and_sets_the_groups_offsets(
    queries: Queries, topic: Topic
) -> None:
    topic.send(*numbered(0, 3))
    run = queries.start(queries.stream(topic, consumerGroup=GROUP, idleWaitMs="100"))
    for _ in range(4):
        run.process_all()
    assert [len(batch) for batch in run.batches.values()] == [3]
    topic.send(*numbered(3, 6))
    run.process_all()
    run.query.stop()
    assert run.bodies == numbered(0, 6)
    assert min(map(len, run.batches.values())) > 0
    assert topic.committed(GROUP) == topic.ends()
    assert not run.query.isActive


def test_a_query_starts_at_the_given_offsets(queries: Queries, topic: Topic) -> None:
    topic.send(*numbered(0, 9))
    starting = {topic.name: {"broker-a": {"0": 1, "1": "earliest"}}}
    rows = queries.run(queries.stream(topic, startingOffsets=json.dumps(starting))).rows
    # Other queues start at "latest".
    assert sorted((row["queueId"], row["queueOffset"]) for row in rows) == [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_messages_after_a_failed_first_batch_are_not_lost_with_latest(queries: Queries, topic: Topic) -> None:
    """Acceptance case 23."""
    topic.send(*numbered(0, 3))
    stream = queries.stream(topic, startingOffsets="latest")

    def fail(_: int) -> None:
        raise RuntimeError("the sink is full")

    with pytest.raises(StreamingQueryException, match="the sink is full"):
        queries.run(stream, fail)
    topic.send(*numbered(3, 8))
    assert queries.run(stream).bodies == numbered(3, 8)
