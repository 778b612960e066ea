"""What waits for a server that is away ends when its query is stopped or its job is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.harness.server_kinds import STAGES
from tests.harness.spark_sink import ServeSink, SinkHarness
from tests.harness.waiting import WAIT_S, wait_until

HOUR = {"requestTimeoutMs": "10000", "serverAwayTimeoutMs": "3600000"}
"""Who waits until the end of this limit fails the test."""


@pytest.fixture
def kind() -> str:
    """Waiting is the same on all servers; only this one commits."""
    return STAGES


@contextmanager
def away(sink: SinkHarness, request_name: str) -> Iterator[Callable[[], None]]:
    """Cuts the connection at each request of a kind, as if the broker were gone. Yields a wait for such requests."""
    faults = sink.server.broker.faults
    rule_id = faults.disconnect(request_name, times=None)

    def count() -> int:
        return next(report.injected for report in faults.reports() if report.rule_id == rule_id)

    yield lambda: wait_until(lambda: count() >= 3, "repeated")
    faults.remove(rule_id)


def start_copying(sink: SinkHarness) -> StreamingQuery:
    """Starts a query that copies, exactly once, and returns when everything has answered it."""
    sink.server.send("orders", b"1")
    options = {**sink.server.options, **HOUR, "topic": "copies", "checkpointLocation": str(sink.checkpoint)}
    rows = sink.stream("orders", **HOUR).select("body")
    query = rows.writeStream.format("rmqpull").options(**options).start()
    wait_until(lambda: sink.bodies("copies") == [b"1"], "copied")
    return query


def count_running_tasks(spark: SparkSession) -> int:
    context = spark.sparkContext._jsc.sc()
    return sum(int(executor.numRunningTasks()) for executor in context.statusTracker().getExecutorInfos())


@pytest.mark.parametrize(
    "request_name",
    [
        pytest.param("QueryBounds", marks=pytest.mark.nightly),
        "PullColumns",
        pytest.param("StageColumns", marks=pytest.mark.nightly),
    ],
)
def test_a_query_is_stopped_while_its_planning_or_a_task_waits(serve: ServeSink, request_name: str) -> None:
    sink = serve({"orders": 1, "copies": 1})
    query = start_copying(sink)
    with away(sink, request_name) as wait_for_repeats:
        sink.server.send("orders", b"2")
        wait_for_repeats()
        stopping = threading.Thread(target=query.stop, daemon=True)
        stopping.start()
        stopping.join(WAIT_S)
        assert not stopping.is_alive(), "the query is stopped"
        wait_until(lambda: count_running_tasks(sink.spark) == 0, "ended its tasks")


def test_a_job_is_cancelled_while_its_task_waits(serve: ServeSink) -> None:
    """Spark does not interrupt the task here: its worker does not know, and Spark ends the process."""
    sink = serve({"orders": 1})
    sink.server.send("orders", b"1")
    context = sink.spark.sparkContext

    def read() -> None:
        context.setJobGroup("reads", "a batch read", interruptOnCancel=False)
        sink.spark.read.format("rmqpull").options(**sink.server.options, **HOUR, topic="orders").load().collect()

    with ThreadPoolExecutor(1) as pool, away(sink, "PullColumns") as wait_for_repeats:
        reading = pool.submit(read)
        wait_for_repeats()
        context.cancelJobGroup("reads")
        with pytest.raises((PySparkException, Py4JJavaError), match="cancelled"):
            reading.result(WAIT_S)
        wait_until(lambda: count_running_tasks(sink.spark) == 0, "ended its tasks")


def test_a_cancelled_write_leaves_no_stage_and_no_row(serve: ServeSink, tmp_path: Path) -> None:
    """One task has staged its rows, and another one still makes them."""
    sink = serve({"copies": 1})
    context = sink.spark.sparkContext
    release = tmp_path / "released"

    def make(index: int, bodies: Iterable[bytes]) -> Iterator[tuple[bytes]]:
        for body in bodies:
            give_up = time.monotonic() + WAIT_S
            while index == 1 and not release.exists() and time.monotonic() < give_up:
                time.sleep(0.05)
            yield (body,)

    def write() -> None:
        context.setJobGroup("writes", "a batch write", interruptOnCancel=False)
        rows = context.parallelize([b"1", b"2"], 2).mapPartitionsWithIndex(make)
        sink.write(sink.spark.createDataFrame(rows, "body binary"), topic="copies")

    def count_stages() -> int:
        return sink.server.broker.look(lambda state: len(state.stages.all()))

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write)
        try:
            wait_until(lambda: count_stages() > 0, "staged")
            context.cancelJobGroup("writes")
            with pytest.raises((PySparkException, Py4JJavaError), match="cancelled"):
                writing.result(WAIT_S)
        finally:
            release.touch()
        wait_until(lambda: count_stages() == 0, "dropped its stages")
    assert sink.bodies("copies") == []


def test_a_stop_during_a_commit_has_sparks_time_limit_and_no_row_is_lost_or_doubled(serve: ServeSink) -> None:
    """Spark ignores the stop while it reads from the process that commits, and tells that process nothing."""
    sink = serve({"orders": 1, "copies": 1})
    query = start_copying(sink)
    sink.spark.conf.set("spark.sql.streaming.stopTimeout", "1s")
    try:
        with away(sink, "CommitStages") as wait_for_repeats:
            sink.server.send("orders", b"2")
            wait_for_repeats()
            with pytest.raises((PySparkException, Py4JJavaError), match=r"(?i)timeout"):
                query.stop()
            assert sink.bodies("copies") == [b"1"]
        wait_until(lambda: not query.isActive, "ended, with the broker back")
    finally:
        sink.spark.conf.unset("spark.sql.streaming.stopTimeout")
    sink.run(sink.stream("orders", **HOUR).select("body"), topic="copies")
    assert sink.bodies("copies") == [b"1", b"2"]
