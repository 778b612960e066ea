"""Kafka and Spark's Kafka source, only for benchmarks."""

from __future__ import annotations

from pathlib import Path

from pyspark import __version__ as SPARK_VERSION

from processes.maven import Artifact, SoftwareMissing, fetch_jars

KAFKA_VERSION = "3.9.2"
"""The release that Spark 4.2's source is built with, for server and client."""
TOKEN_PROVIDER_VERSION_OLDER = "4.0.0"
SOURCE_VERSION_OLDER = "4.2.0"
"""Versions of source and token provider for Spark releases without their own in Maven. They run on Spark 4.3."""
POOL_VERSION = "2.12.1"

SERVER = (Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, is_alone=False),)


def source_candidates() -> list[tuple[Artifact, ...]]:
    """Returns what Spark's Kafka source needs besides Spark. The first that Maven can get is used."""
    return [
        (
            Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", source),
            Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", token_provider),
            Artifact("org.apache.kafka", "kafka-clients", KAFKA_VERSION),
            Artifact("org.apache.commons", "commons-pool2", POOL_VERSION),
        )
        for source, token_provider in (
            (SPARK_VERSION, SPARK_VERSION),
            (SOURCE_VERSION_OLDER, TOKEN_PROVIDER_VERSION_OLDER),
        )
    ]


def source_jars() -> tuple[str, list[Path]]:
    """Returns the version of Spark's Kafka source, and its jars. Raises SoftwareMissing."""
    refusals = []
    for artifacts in source_candidates():
        try:
            return artifacts[0].version, fetch_jars(artifacts)
        except SoftwareMissing as missing:
            refusals.append(str(missing))
    raise SoftwareMissing(refusals[-1])
