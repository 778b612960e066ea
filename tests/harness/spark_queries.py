"""Queries of the Spark session in this process, and the topics that they read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_rmqpull.spark_releases.release import SPARK_PASSES_LIMITS
from rmqpull_broker.core.model import Message
from tests.harness.servers import Server
from tests.harness.spark_kinds import for_this_spark

WAIT_S = 240


@dataclass(frozen=True)
class Topic:
    """A topic of a server, or several with their names separated by commas."""

    name: str
    server: Server

    @property
    def options(self) -> dict[str, str]:
        """The options of the source that choose the topic."""
        return {**self.server.options, "topic": self.name}

    def send(self, *messages: Message | bytes) -> None:
        """Sends one message after the other, to the queues in turn."""
        self.server.send(self.name, *messages)

    def ends(self) -> dict[int, int]:
        """Returns the max offset of each queue."""
        return {queue.queue_id: bounds.max_offset for queue, bounds in self.server.bounds(self.name).items()}

    def committed(self, group: str) -> dict[int, int]:
        """Returns the consumer offset of a group, on the queues that have one."""
        return {queue.queue_id: offset for queue, offset in self.server.consumer_offsets(group, self.name).items()}


def await_end(query: StreamingQuery) -> None:
    """Returns when the query has ended. Raises its error, and fails after WAIT_S."""
    assert query.awaitTermination(WAIT_S), f"the query has not ended within {WAIT_S} s"


def process_all(query: StreamingQuery) -> None:
    """Returns when the query has finished all that is available now. Raises its error, and fails after WAIT_S.

    Spark's call has no time limit, and returns when the query is stopped.
    """
    late = threading.Event()

    def give_up() -> None:
        late.set()
        query.stop()

    timer = threading.Timer(WAIT_S, give_up)
    timer.daemon = True
    timer.start()
    try:
        query.processAllAvailable()
    finally:
        timer.cancel()
    assert not late.is_set(), f"the query has not finished what is available within {WAIT_S} s"


@dataclass
class QueryRun:
    """A running query, and the rows of each of its micro-batches."""

    query: StreamingQuery
    batches: dict[int, list[Row]] = field(default_factory=dict)

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches.values() for row in batch]

    @property
    def bodies(self) -> list[bytes]:
        return sorted(bytes(row["body"]) for row in self.rows)

    def process_all(self) -> None:
        """Returns when the query has finished all that is available now. Raises its error, and fails after WAIT_S."""
        process_all(self.query)

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Returns when it has happened. Raises the error of a query that ends before, and fails after WAIT_S."""
        give_up = time.monotonic() + WAIT_S
        while not happened():
            if not self.query.isActive:
                raise self.query.exception() or AssertionError(f"the query was stopped before {what}")
            assert time.monotonic() < give_up, f"not {what} within {WAIT_S} s"
            time.sleep(0.02)


def choose(topic: Topic, **options: str) -> dict[str, str]:
    """Returns options that choose a topic, unless they choose topics themselves, with further options."""
    chosen = topic.server.options if {"topicPattern", "assign"} & options.keys() else topic.options
    return {**chosen, **options}


class Queries:
    """Reads topics, in batches or as streams that are collected in this process."""

    def __init__(self, session: SparkSession, checkpoint: Path) -> None:
        self.session = session
        self.checkpoint = checkpoint

    def stream(self, topic: Topic, schema: str | None = None, **options: str) -> DataFrame:
        """Returns a stream from the earliest message, unless the options say otherwise."""
        given = for_this_spark(choose(topic, **{"startingOffsets": "earliest"} | options))
        source = self.session.readStream.format("rmqpull").options(**given)
        return (source.schema(schema) if schema else source).load()

    def with_new_checkpoint(self) -> Queries:
        """Returns the same with an empty checkpoint, for another query."""
        return Queries(self.session, self.checkpoint.with_name(f"{self.checkpoint.name}-new"))

    def batch(self, topic: Topic, schema: str | None = None, **options: str) -> DataFrame:
        """Returns a batch read of a topic."""
        source = self.session.read.format("rmqpull").options(**choose(topic, **options))
        return (source.schema(schema) if schema else source).load()

    def start(
        self, stream: DataFrame, on_batch: Callable[[int], None] = lambda _: None, *, available_now: bool = False
    ) -> QueryRun:
        """Starts a query. ``on_batch`` is called with the id of each micro-batch before its rows are read."""
        batches: dict[int, list[Row]] = {}

        def collect(batch: DataFrame, batch_id: int) -> None:
            on_batch(batch_id)
            batches[batch_id] = batch.collect()

        writer = stream.writeStream.foreachBatch(collect).option("checkpointLocation", str(self.checkpoint))
        query = (writer.trigger(availableNow=True) if available_now else writer).start()
        return QueryRun(query, batches)

    def run(self, stream: DataFrame, on_batch: Callable[[int], None] = lambda _: None) -> QueryRun:
        """Runs a query within its limits until it has read all that is available now. Raises its error."""
        if not SPARK_PASSES_LIMITS:  # AvailableNow would be one micro-batch
            run = self.start(stream, on_batch)
            run.process_all()
            run.query.stop()
            return run
        run = self.start(stream, on_batch, available_now=True)
        await_end(run.query)
        return run
