"""A broker to which Spark writes and from which it reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from rmqpull_broker.testing import RunningBroker
from tests.harness.spark_processes import WAIT_S


@dataclass(frozen=True)
class SinkHarness:
    """A broker, with shortcuts for Spark's writes and reads."""

    spark: SparkSession
    broker: RunningBroker
    checkpoint: Path

    def rows(self, schema: str, *rows: tuple[Any, ...]) -> DataFrame:
        """Rows in one partition, in this order."""
        return self.spark.createDataFrame(list(rows), schema).coalesce(1)

    def write(self, rows: DataFrame, **options: str) -> None:
        given = {"endpoints": self.broker.endpoints, **options}
        rows.write.format("rmqpull").options(**given).mode("append").save()

    def batch(self, topic: str) -> DataFrame:
        """A batch read of a topic."""
        return self.spark.read.format("rmqpull").options(endpoints=self.broker.endpoints, topic=topic).load()

    def read(self, topic: str) -> list[Row]:
        """Everything in a topic, queue by queue."""
        return self.batch(topic).collect()

    def bodies(self, topic: str) -> list[bytes]:
        """The bodies of all readable messages, queue by queue, from the broker itself."""
        return [row.message.body for row in self.broker.messages(topic)]

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A stream of a topic from its start."""
        given = {"endpoints": self.broker.endpoints, "topic": topic, "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("rmqpull").options(**given).load()

    def run(self, stream: DataFrame, mode: str = "append", **options: str) -> Any:
        """Runs a query that writes all that is available now. Raises the error that ends it."""
        given = {"endpoints": self.broker.endpoints, "checkpointLocation": str(self.checkpoint), **options}
        writer = stream.writeStream.format("rmqpull").outputMode(mode).options(**given)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S), f"the query has not ended within {WAIT_S} s"
        return query


ServeSink = Callable[..., SinkHarness]
