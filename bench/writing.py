"""The workload that writes a batch: the same rows to rmqpull's broker and to Kafka, synced and not, and to nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F

from bench.comparison import CEILING, KAFKA, OURS, Comparison, Mismeasured, contain_failure, measure
from bench.costs import Costs
from bench.kafka import Kafka
from bench.processor_time import BROKER, KINDS, spent, wait_for_ended_queries
from bench.results import Aim
from bench.servers import Server, broker
from bench.topics import BenchContext, of_kafka, ours

AT_LEAST_ONCE = f"{OURS}, at least once"
UNSYNCED = f"{OURS}, exactly once, not synced"
SYNCED_KAFKA = f"{KAFKA}, synced"
KAFKA_TOPICS = {KAFKA: "written", SYNCED_KAFKA: "synced"}
KAFKA_SETTINGS: Mapping[str, Mapping[str, str]] = {KAFKA: {}, SYNCED_KAFKA: {"flush.messages": "1"}}
"""Kafka's topics by contender, and their settings. By default, it syncs nothing before it answers."""
PARTITIONS = 8
"""The number of Spark partitions that write, on the threads of the session."""


@dataclass(frozen=True)
class Target:
    """Where a contender of this project writes: a topic of its own."""

    endpoints: str
    topic: str
    delivery: str


def writes(context: BenchContext) -> Iterator[Comparison]:
    """Measures writes of rows with a body and a property. Every run adds the same number, and all are counted at the
    end.
    """
    sizes, peer, count = context.sizes, context.kafka, context.sizes.written_rows
    asked = {"rows": count, "queues": sizes.queues, "body bytes": sizes.body_bytes}
    title, aims = "batch write, exactly once", {KAFKA: Aim(at_least=1), CEILING: Aim(at_least=0.4)}
    comparison = Comparison("batch-write", title, "rows/s", aims, asked, not_run=dict(context.not_run))
    rows = make_rows(context.spark, count, sizes.body_bytes)
    with ExitStack() as kept:
        synced = kept.enter_context(_run_broker("SYNC_FLUSH", sizes.queues, "once", "repeatedly"))
        unsynced = kept.enter_context(_run_broker("ASYNC_FLUSH", sizes.queues, "unsynced"))
        targets = {
            OURS: Target(synced.endpoints, "once", "exactly-once"),
            AT_LEAST_ONCE: Target(synced.endpoints, "repeatedly", "at-least-once"),
            UNSYNCED: Target(unsynced.endpoints, "unsynced", "exactly-once"),
        }
        contenders: dict[str, Callable[[], float]] = {
            CEILING: partial(drop_rows, rows, count),
            **{name: partial(write_rows, rows, vars(target)) for name, target in targets.items()},
        }
        contenders |= kept.enter_context(run_kafka_sinks(context, rows, comparison, list(KAFKA_TOPICS)))
        costs, taken = Costs("batch write", KINDS), partial(_spent, peer)
        rates = {name: partial(rate, count, seconds) for name, seconds in contenders.items()}
        watched = {name: costs.watch(name, count, workload, taken) for name, workload in rates.items()}
        measure(comparison, watched, sizes.runs)
        costs.drop_warm_ups()
        context.costs.append(costs)
        _check(comparison, context, targets)  # before a contender gets its figures
    yield comparison


@contextmanager
def _run_broker(flush: str, queues: int, *topics: str) -> Iterator[Server]:
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder,
        broker(Path(folder), dict.fromkeys(topics, queues), "--property", f"flushDiskType={flush}") as running,
    ):
        yield running


@contextmanager
def run_kafka_sinks(
    context: BenchContext, rows: DataFrame, comparison: Comparison, names: Sequence[str]
) -> Iterator[dict[str, Callable[[], float]]]:
    """Yields these contenders of Kafka's, each with a topic of its own, until the block ends. Each returns seconds.

    There are none without Kafka.
    """
    spark, peer = context.spark, context.kafka
    sinks: dict[str, Callable[[], float]] = {}
    if peer is None:
        yield sinks
        return
    with ExitStack() as kept:
        for name in names:
            topic = KAFKA_TOPICS[name]
            with contain_failure(name, comparison):
                peer.create(spark, topic, context.sizes.queues, KAFKA_SETTINGS[name])
                kept.callback(peer.delete, spark, topic)
                sinks[name] = partial(write_rows_to_kafka, rows, peer, topic)
        yield sinks


def rate(count: int, seconds: Callable[[], float]) -> float:
    """Runs a workload. Returns its rows per second."""
    return count / seconds()


def make_rows(spark: SparkSession, count: int, body_bytes: int) -> DataFrame:
    """Returns rows to write: decimal numbers of ``body_bytes`` digits."""
    body = F.lpad(F.col("id").cast("string"), body_bytes, "0").cast("binary").alias("body")
    return spark.range(0, count, numPartitions=PARTITIONS).select(body)


def write_rows(rows: DataFrame, options: Mapping[str, str]) -> float:
    """Writes rows with one property each by rmqpull's sink. Returns the seconds."""
    return _save(_with_property(rows).write.format("rmqpull").options(**options))


def write_rows_to_kafka(rows: DataFrame, peer: Kafka, topic: str) -> float:
    """Writes rows with one header each by Spark's Kafka sink. Returns the seconds."""
    header = F.struct(F.lit("source").alias("key"), F.lit(b"bench").alias("value"))
    messages = rows.select(F.col("body").alias("value"), F.array(header).alias("headers"))
    writer = messages.write.format("kafka").option("kafka.bootstrap.servers", peer.endpoints)
    return _save(writer.option("topic", topic).option("includeHeaders", "true"))


def drop_rows(rows: DataFrame, count: int) -> float:
    """Writes rows with one property each to a Python sink that drops them. Returns the seconds."""
    return _save(_with_property(rows).write.format("ceiling").option("rows", count))


def _with_property(rows: DataFrame) -> DataFrame:
    return rows.withColumn("properties", F.create_map(F.lit("source"), F.lit("bench")))


def _save(writer: DataFrameWriter) -> float:
    begun = time.perf_counter()
    writer.mode("append").save()
    return time.perf_counter() - begun


def _spent(peer: Kafka | None) -> dict[str, float]:
    """Returns the processor time so far. Kafka is a broker too."""
    wait_for_ended_queries()
    return spent({} if peer is None else {peer.process.pid: BROKER})


def _check(comparison: Comparison, context: BenchContext, targets: Mapping[str, Target]) -> None:
    """Marks contenders as failed whose topic does not have the rows of all runs exactly once."""
    read = context.spark.read
    readers = {name: partial(ours, read, target.endpoints, topic=target.topic) for name, target in targets.items()}
    if context.kafka is not None:
        endpoints = context.kafka.endpoints
        readers |= {name: partial(of_kafka, read, endpoints, topic) for name, topic in KAFKA_TOPICS.items()}
    wanted = context.sizes.written_rows * (context.sizes.runs + 1)
    for name, reader in readers.items():
        if name not in comparison.failed:
            with contain_failure(name, comparison):
                if (found := reader().count()) != wanted:
                    raise Mismeasured(f"its topic has {found} rows after all runs instead of {wanted}")
