"""The workload that writes a batch: the same rows to rmqpull's broker, exactly once and at least once, and to Kafka."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.comparison import KAFKA, OURS, Comparison, Mismeasured, contain_failure, measure
from bench.costs import Costs
from bench.kafka import Kafka
from bench.processor_time import BROKER, KINDS, spent, wait_for_ended_queries
from bench.results import Aim
from bench.servers import broker
from bench.topics import BenchContext, of_kafka, ours

AT_LEAST_ONCE = f"{OURS}, at least once"
KAFKA_TOPIC = "written"
GUARANTEES = {OURS: "exactly-once", AT_LEAST_ONCE: "at-least-once"}
"""The values of option `delivery`. Each is written to a topic of the same name."""
PARTITIONS = 8
"""The number of Spark partitions that write, on the threads of the session."""


def writes(context: BenchContext) -> Iterator[Comparison]:
    """Measures writes of rows with a body and a property. Every run adds the same number, and all are counted at the
    end.
    """
    sizes, peer = context.sizes, context.kafka
    asked = {"rows": sizes.written_rows, "queues": sizes.queues, "body bytes": sizes.body_bytes}
    title, aims = "batch write, exactly once", {KAFKA: Aim(at_least=2)}
    comparison = Comparison("batch-write", title, "rows/s", aims, asked, not_run=dict(context.not_run))
    rows = make_rows(context.spark, sizes.written_rows, sizes.body_bytes)
    with ExitStack() as kept:
        folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="rmqpull-bench-"))
        topics = dict.fromkeys(GUARANTEES.values(), sizes.queues)
        running = kept.enter_context(broker(Path(folder), topics))
        contenders: dict[str, Callable[[], float]] = {
            name: partial(_rate, rows, sizes.written_rows, running.endpoints, guarantee)
            for name, guarantee in GUARANTEES.items()
        }
        if peer is not None:
            with contain_failure(KAFKA, comparison):
                peer.create(context.spark, KAFKA_TOPIC, sizes.queues)
            kept.callback(peer.delete, context.spark, KAFKA_TOPIC)
            contenders[KAFKA] = partial(_rate_of_kafka, rows, sizes.written_rows, peer)
        costs, taken = Costs("batch write", KINDS), partial(_spent, peer)
        watched = {name: costs.watch(name, sizes.written_rows, rate, taken) for name, rate in contenders.items()}
        measure(comparison, watched, sizes.runs)
        costs.drop_warm_ups()
        context.costs.append(costs)
        _check(comparison, context, running.endpoints)  # before a contender gets its figures
    yield comparison


def make_rows(spark: SparkSession, count: int, body_bytes: int) -> DataFrame:
    """Returns rows to write: decimal numbers of ``body_bytes`` digits."""
    body = F.lpad(F.col("id").cast("string"), body_bytes, "0").cast("binary").alias("body")
    return spark.range(0, count, numPartitions=PARTITIONS).select(body)


def write_rows(rows: DataFrame, options: Mapping[str, str]) -> float:
    """Writes rows with one property each by rmqpull's sink. Returns the seconds."""
    messages = rows.withColumn("properties", F.create_map(F.lit("source"), F.lit("bench")))
    writer = messages.write.format("rmqpull").options(**options)
    begun = time.perf_counter()
    writer.mode("append").save()
    return time.perf_counter() - begun


def write_rows_to_kafka(rows: DataFrame, peer: Kafka) -> float:
    """Writes rows with one header each by Spark's Kafka sink. Returns the seconds."""
    header = F.struct(F.lit("source").alias("key"), F.lit(b"bench").alias("value"))
    messages = rows.select(F.col("body").alias("value"), F.array(header).alias("headers"))
    writer = messages.write.format("kafka").option("kafka.bootstrap.servers", peer.endpoints)
    writer = writer.option("topic", KAFKA_TOPIC).option("includeHeaders", "true")
    begun = time.perf_counter()
    writer.save()
    return time.perf_counter() - begun


def _spent(peer: Kafka | None) -> dict[str, float]:
    """Returns the processor time so far. Kafka is a broker too."""
    wait_for_ended_queries()
    return spent({} if peer is None else {peer.process.pid: BROKER})


def _rate(rows: DataFrame, count: int, endpoints: str, guarantee: str) -> float:
    return count / write_rows(rows, {"endpoints": endpoints, "topic": guarantee, "delivery": guarantee})


def _rate_of_kafka(rows: DataFrame, count: int, peer: Kafka) -> float:
    return count / write_rows_to_kafka(rows, peer)


def _check(comparison: Comparison, context: BenchContext, endpoints: str) -> None:
    """Marks contenders as failed whose topic does not have the rows of all runs exactly once."""
    read = context.spark.read
    readers = {name: partial(ours, read, endpoints, topic=guarantee) for name, guarantee in GUARANTEES.items()}
    if context.kafka is not None:
        readers[KAFKA] = partial(of_kafka, read, context.kafka.endpoints, KAFKA_TOPIC)
    wanted = context.sizes.written_rows * (context.sizes.runs + 1)
    for name, reader in readers.items():
        if name not in comparison.failed:
            with contain_failure(name, comparison):
                if (found := reader().count()) != wanted:
                    raise Mismeasured(f"its topic has {found} rows after all runs instead of {wanted}")
