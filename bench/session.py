"""The Spark session of a run, with every source in it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench.artifacts import source_jars
from bench.ceiling import CeilingSource
from processes.maven import SoftwareMissing

THREADS = 2


@dataclass(frozen=True)
class KafkaSource:
    """Spark's Kafka source in a session: its version, or why it is missing."""

    version: str = ""
    missing: str = ""
    jars: tuple[Path, ...] = ()


@dataclass(frozen=True)
class Session:
    """A session with all available sources."""

    spark: SparkSession
    kafka_source: KafkaSource


@contextmanager
def session(with_kafka: bool = True) -> Iterator[Session]:
    """Yields a session with rmqpull, the ceiling and, if Maven can get it, Spark's Kafka source."""
    builder = SparkSession.builder.master(f"local[{THREADS}]").appName("rmqpull bench")
    source = _kafka_source() if with_kafka else KafkaSource(missing="it was left out")
    if source.jars:
        builder = builder.config("spark.driver.extraClassPath", os.pathsep.join(map(str, source.jars)))
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")  # Kafka's clients warn about every deleted topic
    spark.dataSource.register(CeilingSource)
    try:
        yield Session(spark, source)
    finally:
        spark.stop()


def _kafka_source() -> KafkaSource:
    try:
        version, jars = source_jars()
    except SoftwareMissing as missing:
        return KafkaSource(missing=str(missing))
    return KafkaSource(version, jars=tuple(jars))
