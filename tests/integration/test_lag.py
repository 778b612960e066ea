"""The lag of real queries: by a function, from the listener, and scraped by Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from pyspark.sql import DataFrame, SparkSession

from pyspark_rmqpull.lag import QueryLag, RmqpullLagListener, lag
from pyspark_rmqpull.lag.prometheus import LagCollector
from tests.harness.spark_queries import Queries, Topic


class ReportedLags(list[QueryLag]):
    """A harness: the lags that a listener reports, on a thread of Spark's."""

    def __init__(self, session: SparkSession) -> None:
        super().__init__()
        self._session = session
        self.listener = RmqpullLagListener(self.append)

    def wait_for_all(self) -> ReportedLags:
        """Waits until Spark has delivered all events."""
        jvm = self._session._jsc.sc()
        jvm.listenerBus().waitUntilEmpty()
        return self


@pytest.fixture
def reported(spark: SparkSession) -> Iterator[ReportedLags]:
    reported = ReportedLags(spark)
    spark.streams.addListener(reported.listener)
    yield reported
    spark.streams.removeListener(reported.listener)


def test_the_lag_of_a_limited_query_grows_and_returns_to_zero(
    queries: Queries, topic: Topic, reported: ReportedLags
) -> None:
    """Acceptance case 34: with limit 1 the lag is above 0."""
    topic.send(*[b"x"] * 9)
    run = queries.run(queries.stream(topic, maxOffsetsPerTrigger="3"))
    batches = [found for found in reported.wait_for_all() if found.batch_id is not None]
    assert [found.offsets_behind_latest for found in batches[:3]] == [6, 3, 0]
    assert [found.metrics["avgOffsetsBehindLatest"] for found in batches[:3]] == ["2.0", "1.0", "0.0"]
    assert {queue.queue.topic for queue in batches[0].queues} == {topic.name}
    assert reported.listener.last == batches[-1]
    assert lag(run.query) == lag(run.query.lastProgress)
    assert lag(run.query).offsets_behind_latest == 0


def test_a_query_without_a_limit_is_not_behind(queries: Queries, topic: Topic) -> None:
    """Acceptance case 34: messages that arrive after a batch was planned are not in its lag."""
    topic.send(*[b"x"] * 6)
    run = queries.start(queries.stream(topic), lambda batch_id: topic.send(b"later") if batch_id == 0 else None)
    run.process_all()
    run.query.stop()
    assert [lag(progress).offsets_behind_latest for progress in run.query.recentProgress] == [0] * len(
        run.query.recentProgress
    )
    assert len(run.bodies) == 7


@pytest.fixture
def lines(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of another source, with one row."""
    folder = tmp_path / "lines"
    folder.mkdir()
    (folder / "one.txt").write_text("foreign")
    return spark.readStream.text(str(folder)).selectExpr("CAST(value AS BINARY) AS body")


def test_each_source_has_its_own_lag_and_other_sources_have_none(
    queries: Queries, topic: Topic, reported: ReportedLags, lines: DataFrame
) -> None:
    topic.send(*[b"x"] * 6)
    limited = queries.stream(topic, maxOffsetsPerTrigger="3").select("body")
    run = queries.run(limited.union(lines).union(queries.stream(topic).select("body")))
    first = lag(run.query.recentProgress[0])
    assert {queue.source for queue in first.queues} == {0, 2}
    assert [first.of_source(index).offsets_behind_latest for index in (0, 1, 2)] == [3, 0, 0]
    assert reported.wait_for_all()[0] == first


def test_queries_of_other_sources_are_not_reported(queries: Queries, reported: ReportedLags, lines: DataFrame) -> None:
    """Runs once: no server is asked."""
    run = queries.run(lines)
    assert run.bodies == [b"foreign"]
    assert reported.wait_for_all() == []
    assert lag(run.query).queues == ()


def test_prometheus_sees_only_running_queries(queries: Queries, topic: Topic, reported: ReportedLags) -> None:
    registry = CollectorRegistry()
    registry.register(LagCollector(reported.listener))
    topic.send(*[b"x"] * 3)
    run = queries.start(queries.stream(topic))
    run.process_all()
    reported.wait_for_all()
    of_queue = {"query": str(run.query.id), "query_id": str(run.query.id), "source": "0", "topic": topic.name}
    labels = {**of_queue, "broker": "broker-a", "queue": "2"}
    assert registry.get_sample_value("rmqpull_offsets_behind_latest", labels) == 0
    run.query.stop()
    reported.wait_for_all()
    assert registry.get_sample_value("rmqpull_offsets_behind_latest", labels) is None
