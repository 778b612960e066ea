"""What queries read under each trigger, within limits and after restarts, on every release of Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from pyspark_rmqpull import drain
from pyspark_rmqpull.lag import lag
from tests.harness.server_kinds import COLUMNS
from tests.harness.spark_kinds import needs_spark
from tests.harness.spark_queries import Queries, QueryRun, Topic, await_end

pytestmark = pytest.mark.parametrize("kind", [COLUMNS])


def numbered(first: int, until: int) -> list[bytes]:
    return [b"%02d" % number for number in range(first, until)]


def sizes(run: QueryRun) -> list[int]:
    return [len(batch) for batch in run.batches.values()]


def run_available_now(queries: Queries, stream: DataFrame) -> QueryRun:
    """Runs a query with the trigger AvailableNow, as this Spark runs it."""
    run = queries.start(stream, available_now=True)
    await_end(run.query)
    return run


# --- a backlog within limits ------------------------------------------------------------------------------------------


def test_drain_keeps_limits_reads_everything_and_sets_the_groups_offsets(queries: Queries, topic: Topic) -> None:
    topic.send(*numbered(0, 9))
    held: list[list[bytes]] = []

    def collect(batch: DataFrame, _: int) -> None:
        held.append([bytes(row["body"]) for row in batch.collect()])

    stream = queries.stream(topic, maxOffsetsPerTrigger="3", trigger="processingTime", consumerGroup="g")
    writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(queries.checkpoint))
    drained = drain(writer)
    assert [len(batch) for batch in held] == [3, 3, 3]
    assert sorted(body for batch in held for body in batch) == numbered(0, 9)
    assert drained.offsets_behind_latest == 0
    assert len(drained.queues) == 3
    assert topic.committed("g") == topic.ends()

    assert drain(writer).offsets_behind_latest == 0
    assert len(held) == 3


@needs_spark("AvailableNow as one micro-batch")
def test_a_wrong_trigger_leaves_messages_and_the_lag_says_so(
    queries: Queries, topic: Topic, caplog: pytest.LogCaptureFixture
) -> None:
    topic.send(*numbered(0, 9))
    wrong = queries.stream(topic, maxOffsetsPerTrigger="3", trigger="processingTime")
    run = run_available_now(queries, wrong)
    assert sizes(run) == [3]
    assert lag(run.query).offsets_behind_latest == 6
    assert [record.getMessage()[:80] for record in caplog.records if "leaves 6 messages unread" in record.getMessage()]

    right = queries.stream(topic, maxOffsetsPerTrigger="3", trigger="availableNow")
    rest = run_available_now(queries, right)
    assert sizes(rest) == [6]
    assert sorted(run.bodies + rest.bodies) == numbered(0, 9)
    assert lag(rest.query).offsets_behind_latest == 0


@needs_spark("AvailableNow as one micro-batch")
def test_a_limit_without_trigger_is_refused_when_the_query_is_planned(spark: SparkSession, topic: Topic) -> None:
    source = spark.readStream.format("rmqpull").options(**topic.options, maxOffsetsPerTrigger="3")
    with pytest.raises(Exception, match=r"need option trigger on PySpark .*Set trigger to processingTime"):
        source.load()


@pytest.fixture
def wrapper(spark: SparkSession) -> Iterator[None]:
    name = "spark.sql.streaming.triggerAvailableNowWrapper.enabled"
    spark.conf.set(name, "true")
    yield
    spark.conf.unset(name)


@needs_spark("AvailableNow as one micro-batch")
@pytest.mark.parametrize("options", [{}, {"maxOffsetsPerTrigger": "3", "trigger": "processingTime"}])
def test_the_wrapper_of_available_now_is_refused_before_anything_is_read(
    queries: Queries, topic: Topic, wrapper: None, spark: SparkSession, options: dict[str, str]
) -> None:
    refusal = "triggerAvailableNowWrapper.enabled is on"
    topic.send(*numbered(0, 3))
    stream = queries.stream(topic, **options)
    with pytest.raises(Exception, match=refusal):
        run_available_now(queries, stream)

    new = queries.with_new_checkpoint()
    first = new.run(stream)  # another trigger is not wrapped
    topic.send(*numbered(3, 6))
    with pytest.raises(Exception, match=refusal):
        run_available_now(new, stream)
    assert sorted(first.bodies + new.run(stream).bodies) == numbered(0, 6)


# --- restarts ---------------------------------------------------------------------------------------------------------


def fail(_: int) -> None:
    raise RuntimeError("the sink is full")


def fail_at_one(batch_id: int) -> None:
    if batch_id == 1:
        fail(batch_id)


def test_a_batch_that_runs_again_ignores_a_changed_limit_and_the_next_one_keeps_it(
    queries: Queries, topic: Topic
) -> None:
    topic.send(*numbered(0, 15))
    with pytest.raises(Exception, match="the sink is full"):
        queries.run(queries.stream(topic, maxOffsetsPerTrigger="3", consumerGroup="g"), fail_at_one)
    assert topic.committed("g") == {0: 1, 1: 1, 2: 1}
    again = queries.run(queries.stream(topic, maxOffsetsPerTrigger="6", consumerGroup="g"))
    assert {batch_id: len(rows) for batch_id, rows in again.batches.items()} == {1: 3, 2: 6, 3: 3}
    assert topic.committed("g") == topic.ends()


def test_a_source_without_new_messages_keeps_its_place_when_a_batch_runs_again(
    queries: Queries, topic: Topic, second_topic: Topic
) -> None:
    both = queries.stream(topic).union(queries.stream(second_topic))
    topic.send(*numbered(0, 3))
    second_topic.send(*numbered(50, 53))
    queries.run(both)
    topic.send(*numbered(3, 6))
    with pytest.raises(Exception, match="the sink is full"):
        queries.run(both, fail)
    second_topic.send(*numbered(53, 56))
    again = queries.run(both)
    assert again.bodies == [*numbered(3, 6), *numbered(53, 56)]


@pytest.fixture
def one_state_store(spark: SparkSession) -> Iterator[None]:
    """A join keeps its rows in one partition, not in 200, each of which would be a task of a micro-batch."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "1")
    yield
    spark.conf.set(name, str(before))


def test_a_self_join_finds_each_message_once_also_after_a_restart(
    queries: Queries, topic: Topic, one_state_store: None
) -> None:
    stream = queries.stream(topic).select("body")
    joined = stream.join(queries.stream(topic).select("body"), "body")
    topic.send(*numbered(0, 3))
    first = queries.run(joined)
    topic.send(*numbered(3, 6))
    second = queries.run(joined)
    assert [first.bodies, second.bodies] == [numbered(0, 3), numbered(3, 6)]
