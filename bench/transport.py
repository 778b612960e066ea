"""Transports without Spark: the connector's client, and Arrow Flight with prepared batches."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from bench.comparison import OURS, Comparison, Mismeasured, measure
from bench.flight_server import get
from bench.servers import Server, peer_server
from bench.topics import NAME, BenchContext, Topic, evenly
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.worker import prepare_worker
from rmqpull_client.connection import Connection
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_proto.columns import PULL_SCHEMA

FLIGHT = "Arrow Flight"
_SERVER = "bench.flight_server"
_SELECTIONS = (
    ("wire-default-row", "wire alone, default row", ROW_SCHEMA.fieldNames()),
    ("wire-body", "wire alone, body only", ["body"]),
)


def transport(context: BenchContext) -> Iterator[Comparison]:
    """Reads a stream of each and throws its batches away. The broker reads its rows, those of Flight are prepared."""
    prepare_worker()  # as in a task
    sizes = context.sizes
    rows = evenly(sizes.rows, sizes.queues)
    with context.topic(rows, sizes.queues, sizes.body_bytes, with_kafka=False) as topic, peer_server(_SERVER) as peer:
        for name, title, names in _SELECTIONS:
            comparison = Comparison(name, title, "rows/s", {}, {"rows": rows, "body bytes": sizes.body_bytes})
            yield measure(comparison, _contenders(topic, peer, names), sizes.runs)


def _contenders(topic: Topic, peer: Server, names: Sequence[str]) -> dict[str, Callable[[], float]]:
    pulled_names = [name for name in names if name in PULL_SCHEMA.names]  # the other columns are constant for a queue
    return {
        FLIGHT: lambda: _rate(lambda: get(peer.endpoints, names, topic.rows, topic.body_bytes), topic.rows),
        OURS: lambda: _rate(lambda: _pulled(topic, pulled_names), topic.rows),
    }


def _pulled(topic: Topic, names: Sequence[str]) -> int:
    """Reads all queues with the connector's client. Returns the number of rows."""
    end = topic.rows // topic.queues
    ranges = [QueueRange(MessageQueue(NAME, "broker-a", queue), 0, end) for queue in range(topic.queues)]
    client = connect(Connection(topic.endpoints))
    return sum(
        batch.num_rows for rows in client.read("bench", ranges, names) for queue in rows for batch in queue.batches
    )


def _rate(read: Callable[[], int], rows: int) -> float:
    begun = time.perf_counter()
    found = read()
    took_s = time.perf_counter() - begun
    if found != rows:
        raise Mismeasured(f"read {found} rows instead of {rows}: the figure would mean nothing")
    return rows / took_s
