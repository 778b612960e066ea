"""Brokers of all three kinds, in this process, and writes to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from tests.integration.processes import WAIT_S

KINDS = ["columns,admin,stages", "columns,admin", "none"]


@dataclass(frozen=True)
class Sink:
    """A broker, and what Spark writes to it and reads from it."""

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
        """What can be read, as the broker has it, queue by queue."""
        return [row.message.body for row in self.broker.messages(topic)]

    def stream(self, topic: str, **options: str) -> DataFrame:
        """A stream of a topic from its begin."""
        given = {"endpoints": self.broker.endpoints, "topic": topic, "startingOffsets": "earliest", **options}
        return self.spark.readStream.format("rmqpull").options(**given).load()

    def run(self, stream: DataFrame, mode: str = "append", **options: str) -> Any:
        """A query that writes what is there now. Raises what ends it."""
        given = {"endpoints": self.broker.endpoints, "checkpointLocation": str(self.checkpoint), **options}
        writer = stream.writeStream.format("rmqpull").outputMode(mode).options(**given)
        query = writer.trigger(availableNow=True).start()
        assert query.awaitTermination(WAIT_S), f"the query has not ended within {WAIT_S} s"
        return query


Serve = Callable[..., Sink]


@pytest.fixture(params=KINDS)
def extensions(request: pytest.FixtureRequest) -> str:
    """Tests that write are run against every kind of server, unless they say otherwise."""
    return str(request.param)


@pytest.fixture
def serve(spark: SparkSession, extensions: str, tmp_path: Path) -> Iterator[Serve]:
    """Serves topics until the test ends."""
    with ExitStack() as stack:

        def start(topics: Topics | None = None, **given: Any) -> Sink:
            broker = stack.enter_context(running_broker(topics or {"orders": 1}, extensions=extensions, **given))
            return Sink(spark, broker, tmp_path / "checkpoint")

        yield start
        for query in spark.streams.active:
            query.stop()
