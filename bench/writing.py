"""The work that writes a batch: the same rows into rmqpull's broker, exactly once and at least once, and into Kafka."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from comparison import KAFKA, OURS, Comparison, Mismeasured, measure
from kafka import Kafka
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from results import Aim
from servers import broker, server
from topics import NAME, Stage, of_kafka, ours

AT_LEAST_ONCE = f"{OURS}, at least once"
KAFKA_TOPIC = "written"
PARTITIONS = 8
"""Spark partitions that write, on the session's threads."""


def writes(stage: Stage) -> Iterator[Comparison]:
    """Rows of one body and one property; every run adds as many, and all of them are counted at the end."""
    sizes, peer = stage.sizes, stage.kafka
    asked = {"rows": sizes.written_rows, "queues": sizes.queues, "body bytes": sizes.body_bytes}
    title, aims = "batch write, exactly once", {KAFKA: Aim(at_least=2)}
    comparison = Comparison("batch-write", title, "rows/s", aims, asked, not_run=dict(stage.not_run))
    rows = _rows(stage.spark, sizes.written_rows, sizes.body_bytes)
    with ExitStack() as kept:
        folder = kept.enter_context(tempfile.TemporaryDirectory(prefix="rmqpull-bench-"))
        running = kept.enter_context(server(*broker(Path(folder), [f"{NAME}:{sizes.queues}"])))
        contenders = {
            OURS: lambda: sizes.written_rows / _seconds(rows, running.endpoints),
            AT_LEAST_ONCE: lambda: sizes.written_rows / _seconds(rows, running.endpoints, delivery="at-least-once"),
        }
        if peer is not None:
            peer.create(stage.spark, KAFKA_TOPIC, sizes.queues)
            kept.callback(peer.delete, stage.spark, KAFKA_TOPIC)
            contenders[KAFKA] = lambda: sizes.written_rows / _kafka_seconds(rows, peer)
        measure(comparison, contenders, sizes.runs)
        _check(stage, running.endpoints)  # before anybody is given a figure
    yield comparison


def _rows(spark: SparkSession, count: int, body_bytes: int) -> DataFrame:
    body = F.lpad(F.col("id").cast("string"), body_bytes, "0").cast("binary").alias("body")
    return spark.range(0, count, numPartitions=PARTITIONS).select(body)


def _seconds(rows: DataFrame, endpoints: str, **options: str) -> float:
    messages = rows.withColumn("properties", F.create_map(F.lit("source"), F.lit("bench")))
    writer = messages.write.format("rmqpull").options(endpoints=endpoints, topic=NAME, **options).mode("append")
    begun = time.perf_counter()
    writer.save()
    return time.perf_counter() - begun


def _kafka_seconds(rows: DataFrame, peer: Kafka) -> float:
    header = F.struct(F.lit("source").alias("key"), F.lit(b"bench").alias("value"))
    messages = rows.select(F.col("body").alias("value"), F.array(header).alias("headers"))
    writer = messages.write.format("kafka").option("kafka.bootstrap.servers", peer.endpoints)
    writer = writer.option("topic", KAFKA_TOPIC).option("includeHeaders", "true")
    begun = time.perf_counter()
    writer.save()
    return time.perf_counter() - begun


def _check(stage: Stage, endpoints: str) -> None:
    """Raises Mismeasured unless every run wrote every row once; ours wrote with both guarantees."""
    each = stage.sizes.written_rows * (stage.sizes.runs + 1)
    counts = {OURS: (2 * each, ours(stage.spark.read, endpoints).count())}
    if stage.kafka is not None:
        counts[KAFKA] = each, of_kafka(stage.spark.read, stage.kafka.endpoints, KAFKA_TOPIC).count()
    for name, (wanted, count) in counts.items():
        if count != wanted:
            raise Mismeasured(f"{name} has {count} rows after all runs instead of {wanted}")
