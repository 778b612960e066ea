"""Servers are away for longer than a request may take, and come back: queries continue."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from processes.apache.cluster import ApacheCluster
from tests.harness.apache import StartApache
from tests.harness.apache_servers import ApacheServer
from tests.harness.broker_processes import StartBroker
from tests.harness.server_kinds import STAGES
from tests.harness.servers import ProcessServer, StartCrashingServer
from tests.harness.spark_queries import WAIT_S, Queries, QueryRun, Topic
from tests.harness.waiting import wait_until

SHORT_S, LONG_S = 3.0, 60.0
ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"


@contextmanager
def outage(kill: Callable[[], None], start: Callable[[], None], seconds: float) -> Iterator[None]:
    """Kills servers, and starts them again after a time, while the block runs. Then they run again."""
    kill()
    returning = threading.Timer(seconds, start)
    returning.start()
    yield
    returning.join(WAIT_S)
    assert not returning.is_alive(), "the servers have not started"


def test_a_task_survives_an_outage_that_is_longer_than_a_request(
    queries: Queries, start_crashing: StartCrashingServer
) -> None:
    server = start_crashing({"away": 2})
    topic = Topic("away", server)
    bodies = [b"%02d" % number for number in range(20)]
    topic.send(*bodies)
    returning = threading.Timer(SHORT_S, server.start)

    def crash(batch_id: int) -> None:
        if batch_id == 1:
            server.kill()
            returning.start()

    limits = {"requestTimeoutMs": "2000", "serverAwayTimeoutMs": "240000", "maxOffsetsPerTrigger": "10"}
    run = queries.run(queries.stream(topic, consumerGroup="g", **limits), crash)
    returning.join(WAIT_S)
    assert run.bodies == bodies


def test_a_task_survives_an_outage_after_it_has_returned_rows(
    spark: SparkSession, queries: Queries, start_crashing: StartCrashingServer, tmp_path: Path
) -> None:
    """The task holds at its first row, so that the source, which reads ahead one MiB, is far from the end."""
    server = start_crashing({"away": 1})
    topic = Topic("away", server)
    topic.send(*(b"%02d" % number + bytes(200_000) for number in range(30)))
    has_begun, is_killed = tmp_path / "has-begun", tmp_path / "is-killed"
    returning = threading.Timer(SHORT_S, server.start)

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            has_begun.touch()
            wait_until(is_killed.exists, "killed")
            yield batch

    def crash() -> None:
        wait_until(has_begun.exists, "read the first row")
        server.kill()
        is_killed.touch()
        returning.start()

    limits = {"requestTimeoutMs": "2000", "serverAwayTimeoutMs": "240000", "pullThresholdSizeForTopic": "1"}
    stream = queries.stream(topic, consumerGroup="g", **limits).selectExpr("substr(body, 1, 2) AS body")
    spark.conf.set(ROWS_PER_BATCH, 1)
    crashing = threading.Thread(target=crash)
    crashing.start()
    try:
        run = queries.run(stream.mapInArrow(pass_on, "body BINARY"))
    finally:
        spark.conf.unset(ROWS_PER_BATCH)
        crashing.join(WAIT_S)
    returning.join(WAIT_S)  # an Apache broker registers later than it answers
    assert run.bodies == [b"%02d" % number for number in range(30)]


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_outage_in_the_middle_of_a_commit_neither_loses_nor_doubles_rows(
    spark: SparkSession, start_broker: StartBroker, tmp_path: Path, when: str
) -> None:
    """Runs once: only rmqpull-broker commits. It is killed while it holds the commit: before it has executed it, or
    before it has answered.
    """
    broker = start_broker({"copies": 1}, extensions=STAGES, data_dir=tmp_path / "data")
    server = ProcessServer(broker)
    hold = ("add", "CommitStages", "--hold", *(("--after",) if when == "after" else ()))
    options = {**server.options, "requestTimeoutMs": "2000", "serverAwayTimeoutMs": "240000"}

    def run_fault(*arguments: str) -> list[dict[str, Any]]:
        command = (sys.executable, "-m", "rmqpull_broker", "fault", *arguments, "--endpoints", broker.endpoints)
        found = json.loads(subprocess.run([*command, "--json"], check=True, capture_output=True, timeout=WAIT_S).stdout)
        return found if isinstance(found, list) else [found]

    run_fault(*hold)
    query = write_numbers(spark, {**options, "topic": "copies", "checkpointLocation": str(tmp_path / "checkpoint")})
    run = QueryRun(query)
    run.wait_until(lambda: run_fault("list")[0]["struck"] == 1, "is about to commit")
    with outage(server.kill, server.start, SHORT_S):
        pass
    begun = count_batches(query)
    run.wait_until(lambda: count_batches(query) >= begun + 2, "goes on")
    query.stop()
    rows = spark.read.format("rmqpull").options(**server.options, topic="copies").load().collect()
    numbers = [int(bytes(row["body"])) for row in rows]
    assert sorted(numbers) == list(range(len(numbers))), "each row is there once"


# ---- a minute without a real cluster, its name server included; .ci/nightly runs this


@pytest.fixture
def cluster(start_apache: StartApache) -> ApacheCluster:
    return start_apache()


@pytest.fixture
def minute(cluster: ApacheCluster) -> Callable[[], Any]:
    """Begins a minute in which nothing of the cluster runs."""

    def kill() -> None:
        for each in (*cluster.brokers, *cluster.name_servers):
            each.kill()

    def start() -> None:
        for each in (*cluster.name_servers, *cluster.brokers):
            each.start()

    return lambda: outage(kill, start, LONG_S)


def write_numbers(spark: SparkSession, options: dict[str, str]) -> StreamingQuery:
    """Writes 50 numbers in a second."""
    rate = spark.readStream.format("rate").option("rowsPerSecond", 50).load()
    rows: DataFrame = rate.selectExpr("CAST(CAST(value AS STRING) AS BINARY) AS body")
    return rows.writeStream.format("rmqpull").options(**options).start()


def count_batches(query: StreamingQuery) -> int:
    return -1 if query.lastProgress is None else int(query.lastProgress["batchId"])


@pytest.mark.nightly
@pytest.mark.apache
@pytest.mark.processes
def test_a_query_plans_and_reads_through_a_minute_without_servers(
    queries: Queries, cluster: ApacheCluster, minute: Callable[[], Any]
) -> None:
    """Runs once: what is special is Apache's name server, which forgets its brokers."""
    server = ApacheServer(cluster)
    server.create_topics({"away": 2})
    topic = Topic("away", server)
    topic.send(*(b"%03d" % number for number in range(50)))
    tasks_meet: list[Any] = []
    all_sent = threading.Event()

    def crash(batch_id: int) -> None:
        if tasks_meet:
            assert all_sent.wait(WAIT_S), "all messages are sent"
            begun.enter_context(tasks_meet.pop()())

    with ExitStack() as begun:
        run: QueryRun = queries.start(queries.stream(topic, consumerGroup="g"), crash)
        run.wait_until(lambda: len(run.rows) == 50, "has read the first messages")
        with minute():  # planning finds nobody
            pass
        topic.send(*(b"%03d" % number for number in range(50, 100)))
        run.wait_until(lambda: len(run.rows) == 100, "has planned again")
        tasks_meet.append(minute)
        topic.send(*(b"%03d" % number for number in range(100, 150)))
        all_sent.set()
        run.wait_until(lambda: len(run.rows) == 150, "has read again")
        run.query.stop()
    assert run.bodies == [b"%03d" % number for number in range(150)]


@pytest.mark.nightly
@pytest.mark.apache
@pytest.mark.processes
def test_a_query_writes_through_a_minute_without_servers(
    spark: SparkSession, cluster: ApacheCluster, minute: Callable[[], Any], tmp_path: Path
) -> None:
    """Runs once: what is special is Apache's name server, which forgets its brokers."""
    server = ApacheServer(cluster)
    server.create_topics({"copies": 2})
    query = write_numbers(
        spark, {**server.options, "topic": "copies", "checkpointLocation": str(tmp_path / "checkpoint")}
    )
    run = QueryRun(query)
    run.wait_until(lambda: count_batches(query) >= 2, "has written some batches")
    begun = count_batches(query)
    with minute():
        pass
    run.wait_until(lambda: count_batches(query) >= begun + 3, "writes again")
    query.stop()
    rows = spark.read.format("rmqpull").options(**server.options, topic="copies").load().collect()
    numbers = {int(bytes(row["body"])) for row in rows}
    assert numbers == set(range(len(numbers))), "nothing is missing"
