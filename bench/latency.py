"""Micro-batch latency: from the start of a send until ``foreachBatch`` gets the message, one message at a time."""

from __future__ import annotations

import random
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from pyspark.sql import DataFrame

from bench.broker_load import message
from bench.comparison import KAFKA, OURS, Comparison, Mismeasured, contain_failure
from bench.results import Aim
from bench.topics import BODY, NAME, BenchContext, Topic
from rmqpull_client.connection import Connection
from rmqpull_client.transports.grpc.channel import get_channel
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rpc import MESSAGING

WARM_UPS = 5
ARRIVES_WITHIN_S = 60
STARTS_WITHIN_S = 180
PAUSE_S = (0.05, 0.55)
"""The pause before the next send is random, so that no contender always gets a message at the same point of its
waiting.
"""

Send = Callable[[bytes], None]


def latency(context: BenchContext) -> Iterator[Comparison]:
    """Measures median and 99th percentile of each run. A run is a query, and the contenders take turns."""
    sizes = {"messages of a run": context.sizes.messages, "queues": context.sizes.queues}
    not_run = dict(context.not_run)
    p50 = Comparison("latency-p50", "latency, p50", "ms", {KAFKA: Aim(at_most=0.5)}, sizes, not_run=not_run)
    p99 = Comparison("latency-p99", "latency, p99", "ms", {}, sizes, not_run=not_run)
    with context.topic(context.sizes.queues, context.sizes.queues, context.sizes.body_bytes) as topic:
        p50.failed, p99.failed = dict(topic.failed), dict(topic.failed)
        for number in range(context.sizes.latency_runs):
            for name, rows, sender in _contenders(context, topic):
                if name in p50.failed:
                    continue
                with contain_failure(name, p50, p99):
                    with sender as send:
                        took_ms = arrivals_ms(rows, send, context.sizes.messages, seed=number)
                    p50.add(name, percentile(took_ms, 50))
                    p99.add(name, percentile(took_ms, 99))
    yield p50
    yield p99


def _contenders(context: BenchContext, topic: Topic) -> Iterator[tuple[str, DataFrame, AbstractContextManager[Send]]]:
    yield OURS, topic.ours(True, startingOffsets="latest"), _sender(topic.endpoints)
    if topic.has_kafka and topic.kafka is not None:
        rows = topic.of_kafka(True, startingOffsets="latest").withColumnRenamed("value", BODY)
        yield KAFKA, rows, topic.kafka.sender(context.spark, topic.kafka_name)


@contextmanager
def _sender(endpoints: str) -> Iterator[Send]:
    """Yields a function that sends over the standard protocol, as any producer does."""
    channel = get_channel(Connection(endpoints))

    def send(body: bytes) -> None:
        channel.call(MESSAGING.methods["SendMessage"], messaging.SendMessageRequest(messages=[message(NAME, body)]))

    yield send


class _Arrivals:
    """The bodies that arrived, and when."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._at: dict[bytes, float] = {}

    def take(self, rows: DataFrame, _: int) -> None:
        """Takes a micro-batch, for ``foreachBatch``."""
        bodies = [bytes(row[0]) for row in rows.select(BODY).collect()]
        now = time.perf_counter()
        with self._condition:
            self._at |= dict.fromkeys(bodies, now)
            self._condition.notify_all()

    def wait(self, body: bytes, within_s: float) -> float | None:
        """Waits for a body. Returns when it arrived, or None."""
        with self._condition:
            self._condition.wait_for(lambda: body in self._at, within_s)
            return self._at.get(body)


def arrivals_ms(rows: DataFrame, send: Send, count: int, seed: int) -> list[float]:
    """Returns the milliseconds of each message, with Spark's default trigger."""
    arrivals = _Arrivals()
    pauses = random.Random(seed)
    took_ms = []
    with tempfile.TemporaryDirectory() as checkpoint:
        query = rows.writeStream.foreachBatch(arrivals.take).option("checkpointLocation", checkpoint).start()
        try:
            if not _reads(arrivals, send):
                raise Mismeasured(f"a query read nothing within {STARTS_WITHIN_S} s: {query.exception()}")
            for number in range(WARM_UPS + count):
                body = uuid.uuid4().bytes
                begun = time.perf_counter()
                send(body)
                came = arrivals.wait(body, ARRIVES_WITHIN_S)
                if came is None:
                    raise Mismeasured(f"a message did not arrive within {ARRIVES_WITHIN_S} s: {query.exception()}")
                if number >= WARM_UPS:
                    took_ms.append((came - begun) * 1000)
                time.sleep(pauses.uniform(*PAUSE_S))
        finally:
            query.stop()
    return took_ms


def _reads(arrivals: _Arrivals, send: Send) -> bool:
    """Sends until the query reads: a query that starts at the end of a topic does not see earlier messages."""
    for _ in range(STARTS_WITHIN_S):
        body = uuid.uuid4().bytes
        send(body)
        if arrivals.wait(body, 1) is not None:
            return True
    return False


def percentile(values: Sequence[float], percent: int) -> float:
    """Returns the smallest value that ``percent`` of all values do not exceed."""
    in_order = sorted(values)
    return in_order[max(0, -(-len(in_order) * percent // 100) - 1)]
