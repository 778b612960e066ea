"""Queries of the Spark session in this process, and the topics that they read."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from rmqpull_client.connection import Connection
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING

TIMEOUT_MS = 60_000


WAIT_S = 240


@dataclass(frozen=True)
class Topic:
    """A topic of a broker. Sends use the standard protocol, which every broker serves."""

    name: str
    endpoints: str

    def send(self, *bodies: bytes, **system: Any) -> None:
        """Sends one message after the other. The broker puts them into its queues in turn."""
        for body in bodies:
            message = v2.Message(topic=v2.Resource(name=self.name), body=body)
            message.system_properties.MergeFrom(v2.SystemProperties(message_id="m", **system))
            self.send_message(message)

    def send_message(self, message: v2.Message) -> None:
        request = service.SendMessageRequest(messages=[message])
        get_channel(Connection(self.endpoints, TIMEOUT_MS)).call(MESSAGING.methods["SendMessage"], request)

    def ends(self) -> dict[int, int]:
        """Returns the max offset of each queue."""
        bounds = connect(Connection(self.endpoints, TIMEOUT_MS)).query_bounds([self.name])[self.name].queues
        return {queue.queue_id: limits.max_offset for queue, limits in bounds.items()}

    def committed(self, group: str) -> dict[int, int | None]:
        """Returns the consumer offset of a group on each queue."""
        client = connect(Connection(self.endpoints, TIMEOUT_MS))
        queues = list(client.query_bounds([self.name])[self.name].queues)
        return {queue.queue_id: offset for queue, offset in client.get_consumer_offsets(group, queues).items()}


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

    def wait_until(self, happened: Callable[[], bool], what: str) -> None:
        """Returns when it has happened. Raises the error of a query that ends before, and fails after WAIT_S."""
        give_up = time.monotonic() + WAIT_S
        while not happened():
            if not self.query.isActive:
                raise self.query.exception() or AssertionError(f"the query was stopped before {what}")
            assert time.monotonic() < give_up, f"not {what} within {WAIT_S} s"
            time.sleep(0.02)


class Queries:
    """Reads topics, in batches or as streams that are collected in this process."""

    def __init__(self, session: SparkSession, checkpoint: Path) -> None:
        self.session = session
        self.checkpoint = checkpoint

    def stream(self, topic: Topic, schema: str | None = None, **options: str) -> DataFrame:
        """Returns a stream from the earliest message, unless the options say otherwise."""
        given = {"endpoints": topic.endpoints, "topic": topic.name, "startingOffsets": "earliest"} | options
        source = self.session.readStream.format("rmqpull").options(**given)
        return (source.schema(schema) if schema else source).load()

    def with_new_checkpoint(self) -> Queries:
        """Returns the same with an empty checkpoint, for another query."""
        return Queries(self.session, self.checkpoint.with_name(f"{self.checkpoint.name}-new"))

    def batch(self, topic: Topic, schema: str | None = None, **options: str) -> DataFrame:
        """Returns a batch read of a topic."""
        source = self.session.read.format("rmqpull").options(endpoints=topic.endpoints, topic=topic.name, **options)
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
        """Runs a query until it has read all that is available now. Raises the error that ends it."""
        run = self.start(stream, on_batch, available_now=True)
        assert run.query.awaitTermination(WAIT_S), f"the query has not ended within {WAIT_S} s"
        return run
