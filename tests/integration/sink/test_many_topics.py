"""One task writes rows for many topics, exactly once."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from processes.process_table import Process, list_descendants, read_command_line
from processes.spark import WORKER, kind_of
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_client.transports.port import TransactionId
from tests.harness.broker_processes import StartBroker
from tests.harness.server_kinds import STAGES, needs
from tests.harness.spark_sink import ServeSink
from tests.harness.waiting import WAIT_S

ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
MIB = 1 << 20


@needs("stages")
def test_one_task_writes_a_hundred_topics_once_and_each_queue_in_order(serve: ServeSink, spark: SparkSession) -> None:
    """There are 10,200 pairs of a topic and an Arrow batch, more than a stage once allowed calls."""
    names = [f"topic-{number:03}" for number in range(100)]
    sink = serve(dict.fromkeys(names, 2))
    before = spark.conf.get(ROWS_PER_BATCH)
    spark.conf.set(ROWS_PER_BATCH, "1000")
    try:
        rows = spark.range(0, 102_000, 1, 1)
        sink.write(rows.selectExpr("printf('topic-%03d', id % 100) AS topic", "CAST(id AS STRING) AS body"))
    finally:
        spark.conf.set(ROWS_PER_BATCH, str(before))
    for number, name in enumerate(names):
        messages = sink.messages(name)  # queue by queue
        bodies = [int(row.message.body) for row in messages]
        assert sorted(bodies) == list(range(number, 102_000, 100))
        is_first = [row.queue_offset == 0 for row in messages]
        assert all(one < other or is_first[index + 1] for index, (one, other) in enumerate(pairwise(bodies)))


def test_a_broker_killed_within_a_commit_stores_the_rest_once(start_broker: StartBroker, tmp_path: Path) -> None:
    """Runs once: only a broker with stages commits."""
    names = [f"topic-{number:02}" for number in range(20)]
    broker = start_broker(dict.fromkeys(names, 2), data_dir=tmp_path, extensions=STAGES)
    connection = Connection(broker.endpoints, 60_000)
    producer, batch = get_producer(connection), TransactionId("query", 7)
    rows = pa.record_batch({"body": [b"x"] * 1_000})
    for sequence in range(200):
        producer.start_stage(batch, "s", sequence, [(name, 50) for name in names], rows, False, 60_000)()

    def counts() -> set[int]:
        of_topics = connect(connection).query_bounds(names).values()
        return {sum(queue.max_offset for queue in bounds.queues.values()) for bounds in of_topics}

    with ThreadPoolExecutor(1) as beside:
        committed = beside.submit(producer.commit_stages, batch, [("s", 200)], 60_000)
        while not committed.done() and counts() == {0}:
            pass
        broker.kill()
        broker.start()
        committed.result(WAIT_S)
    assert counts() == {200 * 50}


@pytest.mark.large
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("row_count", "topic_count"), [(1_020_000, 100), (10_000_000, 1_000)], ids=["100 topics", "1000 topics"]
)
def test_millions_of_rows_of_one_task_are_written_once_to_all_topics(
    spark: SparkSession,
    start_broker: StartBroker,
    tmp_path: Path,
    row_count: int,
    topic_count: int,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One task writes to a broker with a data directory. Reading all topics finds each row once, in its topic.

    Runs once: only a broker with stages commits.
    """
    names = [f"topic-{number:03}" for number in range(topic_count)]
    broker = start_broker(dict.fromkeys(names, 4), data_dir=tmp_path, extensions=STAGES)
    rows = spark.range(0, row_count, 1, 1).selectExpr(
        f"printf('topic-%03d', id % {topic_count}) AS topic", "printf('%0100d', id) AS body"
    )
    # The commit of so many rows takes minutes on a busy machine.
    options = {"endpoints": broker.endpoints, "delivery": "exactly-once", "transactionTimeoutMs": "3600000"}
    started_s = time.monotonic()
    with peak_of_workers() as peaks:
        rows.write.format("rmqpull").options(**options).mode("append").save()
    written_s = time.monotonic() - started_s
    of_topics = connect(Connection(broker.endpoints, 60_000)).query_bounds(names)
    counts = {name: sum(queue.max_offset for queue in bounds.queues.values()) for name, bounds in of_topics.items()}
    assert counts == dict.fromkeys(names, row_count // topic_count)
    broker_mib = Process(broker.pid).peak_resident_bytes() / MIB
    worker_mib = max(peaks.values()) / MIB
    with capsys.disabled():
        sys.stdout.write(
            f"\n{row_count:,} rows of {topic_count:,} topics by one task: {written_s:.0f} s, "
            f"{row_count / written_s:,.0f} rows/s; at most {worker_mib:.0f} MiB in a Python worker, "
            f"{broker_mib:.0f} MiB in the broker\n"
        )
    # The number of a row determines its topic, so this shows that each row is in its topic, once.
    read = spark.read.format("rmqpull").options(
        endpoints=broker.endpoints, topicPattern="topic-.*", numPartitions="8", columns="topic,body"
    )
    numbered = read.load().selectExpr("topic", "CAST(CAST(body AS STRING) AS BIGINT) AS id")
    found = numbered.selectExpr(
        "COUNT(*)",
        "COUNT(DISTINCT id)",
        f"COUNT_IF(topic != printf('topic-%03d', id % {topic_count}))",
        "MIN(id)",
        "MAX(id)",
    )
    assert tuple(found.first() or ()) == (row_count, row_count, 0, 0, row_count - 1)
    assert worker_mib < 600, "the memory of a task must not depend on the number of topics"


@contextmanager
def peak_of_workers() -> Iterator[dict[int, int]]:
    """The peak memory of each Python worker of this process's Spark, by process id."""
    peaks: dict[int, int] = {}
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.5):
            for pid in list_descendants(os.getpid()):
                with suppress(OSError):
                    if kind_of(read_command_line(pid)) == WORKER:
                        peaks[pid] = max(peaks.get(pid, 0), Process(pid).peak_resident_bytes())

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peaks
    finally:
        done.set()
        watcher.join(WAIT_S)
        assert not watcher.is_alive(), "the watcher did not end"
