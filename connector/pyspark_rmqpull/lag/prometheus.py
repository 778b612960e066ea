"""The lag of a session's queries as Prometheus metrics::

    listener = RmqpullLagListener()
    spark.streams.addListener(listener)
    REGISTRY.register(LagCollector(listener))
    start_http_server(9464)

Each scrape makes the series of the queries that are running, so a query that has ended leaves none.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from pyspark_rmqpull.lag.listener import RmqpullLagListener
from rmqpull_client.timestamps import parse_timestamp

QUEUES_MAX = 10_000
"""How many queues have their own series, those with the largest lag. ``rmqpull_queues_left_out`` counts the others."""

_OF_QUERY = ("query", "query_id")
_OF_QUEUE = (*_OF_QUERY, "source", "topic", "broker", "queue")


class LagCollector(Collector):
    """Exports the lags that a listener knows. At most ``queues_max`` queues have their own series."""

    def __init__(self, listener: RmqpullLagListener, queues_max: int = QUEUES_MAX) -> None:
        self._listener = listener
        self._queues_max = queues_max

    def collect(self) -> Iterator[Metric]:
        """Makes the metrics of one scrape."""
        behind = GaugeMetricFamily(
            "rmqpull_offsets_behind_latest", "Offsets from a query to the end of a queue.", labels=_OF_QUEUE
        )
        lost = CounterMetricFamily(
            "rmqpull_rows_lost", "Rows of a queue that were lost before the query read them.", labels=_OF_QUEUE
        )
        planned = GaugeMetricFamily(
            "rmqpull_batch_planned_timestamp_seconds",
            "When the newest finished micro-batch of a query was planned.",
            labels=_OF_QUERY,
        )
        left_out = GaugeMetricFamily("rmqpull_queues_left_out", "Queues without their own series.")
        running = list(self._listener.running.values())
        for query in running:
            if (planned_ms := _parse_milliseconds(query.timestamp)) is not None:
                planned.add_metric((query.label, query.query_id), planned_ms / 1000)
        queues = [(queue.offsets_behind, query, queue) for query in running for queue in query.queues]
        for offsets_behind, query, queue in heapq.nlargest(self._queues_max, queues, key=lambda entry: entry[0]):
            labels = (query.label, query.query_id, str(queue.source), *map(str, queue.queue))
            behind.add_metric(labels, offsets_behind)
            if queue.rows_lost is not None:
                lost.add_metric(labels, queue.rows_lost)
        left_out.add_metric((), max(0, len(queues) - self._queues_max))
        yield from (behind, lost, planned, left_out)


def _parse_milliseconds(timestamp: str) -> int | None:
    try:
        return parse_timestamp(timestamp)
    except ValueError:
        return None
