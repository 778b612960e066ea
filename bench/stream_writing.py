"""The workload that writes a stream in small micro-batches: how long Spark waits for the sink to commit each."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from bench.comparison import CEILING, KAFKA, OURS, Comparison, Mismeasured, contain_failure, measure
from bench.latency import percentile
from bench.results import Aim
from bench.servers import broker
from bench.topics import BenchContext

BATCH_ROWS = 10_000
PARTITIONS = 2
WARM_UPS = 5
TOPIC = "streamed"
RUN_S_MAX = 600.0
_LOOK_S = 0.05


def stream_writes(context: BenchContext) -> Iterator[Comparison]:
    """Measures the median time of Spark's step addBatch, which writes the rows of a micro-batch and commits them.

    The rows are those of Spark's own source of fixed micro-batches. Ours are stored exactly once, Kafka's at least
    once, and the ceiling's by no one: a Python sink drops them. In each run the contenders take turns, with a new
    query.
    """
    sizes, peer = context.sizes, context.kafka
    asked = {"micro-batches": sizes.stream_batches, "rows of each": BATCH_ROWS, "queues": sizes.queues}
    title, aims = "commit of a micro-batch, p50", {KAFKA: Aim(at_most=1)}
    comparison = Comparison("stream-write", title, "ms", aims, asked, not_run=dict(context.not_run))
    with ExitStack() as kept:
        folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="rmqpull-bench-"))
        running = kept.enter_context(broker(Path(folder) / "data", {TOPIC: sizes.queues}))
        write = partial(_measure_query, context.spark, sizes.stream_batches, sizes.body_bytes)
        ours = {"endpoints": running.endpoints, "topic": TOPIC, "delivery": "exactly-once"}
        contenders: dict[str, Callable[[], float]] = {
            CEILING: partial(write, "ceiling", "body", {}),
            OURS: partial(write, "rmqpull", "body", ours),
        }
        if peer is not None:
            with contain_failure(KAFKA, comparison):
                peer.create(context.spark, TOPIC, sizes.queues)
            kept.callback(peer.delete, context.spark, TOPIC)
            options = {"kafka.bootstrap.servers": peer.endpoints, "topic": TOPIC}
            contenders[KAFKA] = partial(write, "kafka", "value", options)
        measure(comparison, contenders, sizes.runs)
    yield comparison


def _measure_query(
    spark: SparkSession, batches: int, body_bytes: int, sink: str, column: str, options: dict[str, str]
) -> float:
    """Runs a query for so many micro-batches. Returns the median in milliseconds. Raises Mismeasured."""
    source = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", BATCH_ROWS)
    numbers = source.option("numPartitions", PARTITIONS).load()
    rows = numbers.select(F.lpad(F.col("value").cast("string"), body_bytes, "0").cast("binary").alias(column))
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as checkpoint:
        writer = rows.writeStream.format(sink).options(**options).option("checkpointLocation", checkpoint)
        query = writer.start()
        try:
            took_ms = _follow(query, WARM_UPS + batches)[WARM_UPS:]
        finally:
            query.stop()
    return percentile(took_ms, 50)


def _follow(query: StreamingQuery, batches: int) -> list[float]:
    """Returns the milliseconds of addBatch of the first micro-batches."""
    took_ms = dict[int, float]()
    deadline_s = time.monotonic() + RUN_S_MAX
    while len(took_ms) < batches:
        if not query.isActive or time.monotonic() > deadline_s:
            raise Mismeasured(f"only {len(took_ms)} of {batches} micro-batches were written: {query.exception()}")
        progress: list[Any] = list(query.recentProgress)
        for batch in progress:
            if batch["numInputRows"] == BATCH_ROWS:
                took_ms[batch["batchId"]] = float(batch["durationMs"]["addBatch"])
        time.sleep(_LOOK_S)
    return [took_ms[number] for number in sorted(took_ms)[:batches]]
