"""A server to which Spark writes and from which it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from pyspark_rmqpull.spark_releases.release import SPARK_PASSES_LIMITS
from rmqpull_broker.core.model import StoredMessage
from tests.harness.servers import ManagedServer
from tests.harness.spark_kinds import for_this_spark
from tests.harness.spark_queries import await_end, process_all


@dataclass(frozen=True)
class SinkHarness:
    """A server, with shortcuts for Spark's writes and reads."""

    spark: SparkSession
    server: ManagedServer
    checkpoint: Path

    def rows(self, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        """Rows in one partition, in this order."""
        return self.spark.createDataFrame(list(rows), schema).coalesce(1)

    def write(self, rows: DataFrame, **options: str) -> None:
        rows.write.format("rmqpull").options(**{**self.server.options, **options}).mode("append").save()
        self.server.wait_until_readable()

    def batch(self, topic: str) -> DataFrame:
        """A batch read of a topic."""
        return self.spark.read.format("rmqpull").options(**self.server.options, topic=topic).load()

    def read(self, topic: str) -> list[Row]:
        """Everything in a topic, queue by queue."""
        return self.batch(topic).collect()

    def messages(self, topic: str) -> list[StoredMessage]:
        """All readable messages, queue by queue, from the broker itself."""
        return [row for rows in self.server.messages(topic).values() for row in rows]

    def bodies(self, topic: str) -> list[bytes]:
        """The bodies of all readable messages, queue by queue, from the broker itself."""
        return [row.message.body for row in self.messages(topic)]

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A stream of a topic from its start."""
        given = for_this_spark({**self.server.options, "topic": topic, "startingOffsets": "earliest", **options})
        return self.spark.readStream.format("rmqpull").options(**given).load()

    def run(self, stream: DataFrame, mode: str = "append", **options: str) -> Any:
        """Runs a query that writes all that is available now. Raises the error that ends it."""
        given = {**self.server.options, "checkpointLocation": str(self.checkpoint), **options}
        writer = stream.writeStream.format("rmqpull").outputMode(mode).options(**given)
        if SPARK_PASSES_LIMITS:
            query = writer.trigger(availableNow=True).start()
            await_end(query)
        else:  # AvailableNow would be one micro-batch
            query = writer.start()
            process_all(query)
            query.stop()
        self.server.wait_until_readable()
        return query


ServeSink = Callable[..., SinkHarness]
