"""The same messages in rmqpull's broker and in Kafka, and the data frames that read them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.comparison import CEILING, KAFKA, OURS, Mismeasured, reason_of
from bench.costs import Costs
from bench.kafka import Kafka
from bench.ready_batches import published, rows_of_a_batch
from bench.servers import broker
from bench.sizes import Sizes
from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect

NAME = "rows"
BODY = "body"
FILL_TIMEOUT_MS = 60_000


@dataclass
class BenchContext:
    """What all workloads need: one Spark session for all sources, Kafka unless it is missing, and the sizes."""

    spark: SparkSession
    sizes: Sizes
    kafka: Kafka | None = None
    not_run: dict[str, str] = field(default_factory=dict)
    """Why contenders are missing."""
    costs: list[Costs] = field(default_factory=list)
    """Where the time of some workloads went. The workloads add them."""

    @contextmanager
    def topic(self, rows: int, queues: int, body_bytes: int, rare: int = 0, with_kafka: bool = True) -> Iterator[Topic]:
        """Yields a topic that is filled in both brokers, and deletes it at the end of the block.

        If Kafka's cannot be filled, the topic names Kafka as failed, and the others can still be measured.
        """
        kafka = self.kafka if with_kafka else None
        with (
            tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder,
            broker(Path(folder), {NAME: queues}) as running,
        ):
            fill(running.endpoints, rows, body_bytes, rare)
            topic = Topic(self.spark, running.endpoints, kafka, rows, queues, body_bytes)
            if kafka is None:
                yield topic
                return
            kafka.create(self.spark, topic.kafka_name, queues)
            try:
                try:
                    kafka.fill(self.spark, topic.kafka_name, queues, rows, body_bytes, rare)
                except Exception as error:  # noqa: BLE001 (whatever it is: the others' figures are worth keeping)
                    topic.failed[KAFKA] = f"its topic could not be filled: {reason_of(error)}"
                yield topic
            finally:
                kafka.delete(self.spark, topic.kafka_name)


def fill(endpoints: str, rows: int, body_bytes: int, rare: int = 0) -> None:
    """Publishes so many rows."""
    client = connect(Connection(endpoints, FILL_TIMEOUT_MS))
    share = rows_of_a_batch(body_bytes)
    batch = published(share, body_bytes, rare)
    for begin in range(0, rows, share):
        client.publish(NAME, batch.slice(0, min(share, rows - begin)))


@dataclass(frozen=True)
class Topic:
    """A filled topic. Its data frames come from ``spark.read`` or ``spark.readStream``.

    ``failed`` says which contenders cannot be measured on it, and why.
    """

    spark: SparkSession
    endpoints: str
    kafka: Kafka | None
    rows: int
    queues: int
    body_bytes: int
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def has_kafka(self) -> bool:
        """Whether Kafka has the same messages."""
        return self.kafka is not None and KAFKA not in self.failed

    @property
    def kafka_name(self) -> str:
        """The name in Kafka, a new one for each topic, since Kafka deletes topics slowly."""
        return f"rows-{self.rows}-{self.queues}-{self.body_bytes}-{self.endpoints.rpartition(':')[2]}"

    def reader(self, is_stream: bool) -> Any:
        """Returns Spark's reader of streams or of batches."""
        return self.spark.readStream if is_stream else self.spark.read

    def ours(self, is_stream: bool, selection: str | None = None, **options: str) -> DataFrame:
        """Returns a read by rmqpull's source, with these options."""
        return ours(self.reader(is_stream), self.endpoints, selection, **options)

    def of_kafka(self, is_stream: bool, selection: str | None = None, **options: str) -> DataFrame:
        """Returns a read by Spark's Kafka source: all columns with headers, or the value alone."""
        assert self.kafka is not None
        return of_kafka(self.reader(is_stream), self.kafka.endpoints, self.kafka_name, selection, **options)

    def ceiling(self, is_stream: bool, selection: str | None = None, reader: Any = None) -> DataFrame:
        """Returns the same number of prepared rows, in the same number of partitions."""
        reader = (reader or self.reader(is_stream)).format("ceiling").option("partitions", self.queues)
        reader = reader.option("bodyBytes", self.body_bytes).option("rowsPerPartition", self.rows // self.queues)
        rows: DataFrame = with_selection(reader, selection).load()
        return rows

    def transfer(self, endpoints: str, is_stream: bool, selection: str | None = None) -> DataFrame:
        """Returns the same rows, which a bare server at ``endpoints`` sends."""
        reader = self.reader(is_stream).option("endpoints", endpoints)
        return self.ceiling(is_stream, selection, reader)

    def contenders(self, is_stream: bool, selection: str | None = None) -> dict[str, Callable[[], DataFrame]]:
        """Returns the contenders that can read all of it, by name."""
        readers = {
            CEILING: lambda: self.ceiling(is_stream, selection),
            OURS: lambda: self.ours(is_stream, selection),
            KAFKA: lambda: self.of_kafka(is_stream, selection),
        }
        if not self.has_kafka:
            del readers[KAFKA]
        return {name: reader for name, reader in readers.items() if name not in self.failed}

    def check(self) -> None:
        """Marks contenders as failed that do not read every row with its body and its property."""
        for name, reader in self.contenders(is_stream=False).items():
            try:
                self._check(name, reader())
            except Exception as error:  # noqa: BLE001 (whatever it is: the others' figures are worth keeping)
                self.failed[name] = reason_of(error)

    def _check(self, name: str, rows: DataFrame) -> None:
        body, properties = ("value", "headers") if name == KAFKA else (BODY, "properties")
        found = rows.agg(F.count(F.lit(1)), F.sum(F.octet_length(body)), F.sum(F.size(properties))).first()
        read, wanted = tuple(found or ()), (self.rows, self.rows * self.body_bytes, self.rows)
        if read != wanted:
            raise Mismeasured(f"it reads {read} rows, bytes and properties instead of {wanted}")


def ours(reader: Any, endpoints: str, selection: str | None = None, **options: str) -> DataFrame:
    """Returns a read by rmqpull's source."""
    reader = reader.format("rmqpull").option("endpoints", endpoints).option("topic", NAME)
    reader = reader.options(**{"startingOffsets": "earliest", **options})
    rows: DataFrame = with_selection(reader, selection).load()
    return rows


def of_kafka(reader: Any, endpoints: str, topic: str, selection: str | None = None, **options: str) -> DataFrame:
    """Returns a read by Spark's Kafka source. It cannot leave out columns, so a selection follows the read."""
    reader = reader.format("kafka").option("kafka.bootstrap.servers", endpoints).option("subscribe", topic)
    reader = reader.option("startingOffsets", "earliest").option("includeHeaders", str(selection is None).lower())
    rows: DataFrame = reader.options(**options).load()
    return rows.select(F.col("value").alias(BODY)) if selection else rows


def with_selection(reader: Any, selection: str | None) -> Any:
    """Returns a reader of the selected columns, or of all."""
    return reader.schema(selection) if selection else reader


def newest(topic: str, rows: int, queues: int, count: int, *names: str) -> str:
    """Returns the option ``startingOffsets`` for the newest ``count`` rows of evenly filled queues.

    ``names`` come between topic and queues: for RocketMQ, the name of the broker.
    """
    offsets: Any = {str(queue): (rows - count) // queues for queue in range(queues)}
    for name in reversed((topic, *names)):
        offsets = {name: offsets}
    return json.dumps(offsets)


def evenly(rows: int, queues: int) -> int:
    """Rounds rows up to a multiple of the queues, so that all queues of all contenders have the same number."""
    return -(-rows // queues) * queues
