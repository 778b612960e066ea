"""The broker's metrics for Prometheus: a page that is built for each request. Loaded only when it is enabled.

The event loop copies the counters and reads offsets in pieces. A thread makes the page, so that other calls do not wait
for the series of 100,000 topics.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.ports import Storage
from rmqpull_broker.core.steps import walk
from rmqpull_broker.server.grpc.wire.status import find_code_name
from rmqpull_broker.server.runtime.metrics import Histogram, Metrics
from rmqpull_broker.server.runtime.parking import PullParker
from rmqpull_broker.server.runtime.pops import Pops
from rmqpull_broker.server.runtime.transport_cycles import cut_cycles

CONNECTIONS_MAX = 32
REQUEST_BYTES_MAX = 8_192
REQUEST_TIMEOUT_S = 5.0
LAG_SERIES_MAX = 10_000
"""Pairs of group and topic whose lag is shown, those with the largest lag; the same for messages in flight."""

_PREFIX = "rmqpull_broker"
_GROUP_AND_TOPIC = ("group", "topic")

_Counts = Counter[tuple[str, str]]
"""By group and topic."""

_logger = logging.getLogger(__name__)


class Exposition:
    """Serves one broker's metrics at ``/metrics``."""

    def __init__(self, state: BrokerState, storage: Storage, metrics: Metrics, parker: PullParker, pops: Pops) -> None:
        self._state = state
        self._storage = storage
        self._metrics = metrics
        self._parker = parker
        self._pops = pops
        self._server: asyncio.Server | None = None
        self._connections = 0
        self._building = asyncio.Lock()
        self._process = CollectorRegistry()
        ProcessCollector(registry=self._process)

    async def start(self, host: str, port: int) -> int:
        """Listens. Returns the port, a free one when ``port`` is 0. Raises OSError."""
        self._server = await asyncio.start_server(self._answer, host, port, limit=REQUEST_BYTES_MAX)
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    def close(self) -> None:
        """Stops listening, without waiting for open requests."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= CONNECTIONS_MAX:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_TIMEOUT_S)
                writer.write(await self._response(head))
                await asyncio.wait_for(writer.drain(), REQUEST_TIMEOUT_S)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.TimeoutError, OSError) as error:
            _logger.debug("a request for metrics failed: %s", error)
            error.__traceback__ = None  # breaks a cycle: it refers to frames that refer to the error
        finally:
            try:
                await _close(writer)
            finally:
                self._connections -= 1

    async def _response(self, head: bytes) -> bytes:
        method, path, *_ = [*head.split(b"\r\n", 1)[0].split(), b"", b""]
        if path.split(b"?")[0] not in (b"/metrics", b"/"):
            return _http("404 Not Found", "text/plain", b"the metrics are at /metrics\n")
        if method not in (b"GET", b"HEAD"):
            return _http("405 Method Not Allowed", "text/plain", b"use GET\n")
        page = await self.build_page()
        return _http("200 OK", CONTENT_TYPE_LATEST, page, with_body=method == b"GET")

    async def build_page(self) -> bytes:
        """Builds the page, in Prometheus' text format. One at a time, because a page has a sample for every series."""
        async with self._building:
            return await self._build()

    async def _build(self) -> bytes:
        counted, gauges, lags, in_flight = (
            self._metrics.copy(),
            list(self._gauges()),
            await self._count_lags(),
            await self._count_in_flight(),
        )
        return await asyncio.to_thread(self._render, counted, gauges, lags, in_flight)

    def _render(self, counted: Metrics, gauges: list[Metric], lags: _Counts, in_flight: _Counts) -> bytes:
        families = (*_count(counted), *_deliveries(counted, in_flight), *gauges, _lag(lags))
        registry = CollectorRegistry()
        registry.register(_Collected(families))
        return generate_latest(registry) + generate_latest(self._process)

    async def _count_lags(self) -> _Counts:
        lags: _Counts = Counter()
        for piece in self._state.consumer_offsets.walk():
            for (group, queue), offset in piece:
                lags[group, queue.topic] += max(0, self._state.bounds(queue).max_offset - offset)
            await asyncio.sleep(0)
        return lags

    async def _count_in_flight(self) -> _Counts:
        """Counts the messages in flight of each group, by the topics in which they are stored."""
        counts: _Counts = Counter()
        for piece in walk(self._state.popped.list_queues()):
            for group, queue in piece:
                counts[group, queue.topic] += self._state.popped.count(group, queue)
            await asyncio.sleep(0)
        return counts

    def _gauges(self) -> Iterator[Metric]:
        for name, doc, value in (
            ("parked_pulls", "Parked pulls: they wait for messages.", len(self._parker)),
            ("waiting_receives", "Receives that wait for messages.", self._pops.waiting_count),
            ("topics", "Topics, including the broker's own.", len(self._state.topics)),
            ("groups", "Consumer groups.", len(self._state.groups)),
            ("commit_log_bytes", "Bytes of the commit log, in memory or on disk.", self._storage.byte_count),
        ):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", doc, value)


async def _close(writer: asyncio.StreamWriter) -> None:
    """Closes a connection when its response is read, or after some seconds, and cuts its reference cycles."""
    transport = writer.transport
    writer.close()
    try:
        await asyncio.wait_for(writer.wait_closed(), REQUEST_TIMEOUT_S)
    except (asyncio.TimeoutError, OSError):
        transport.abort()
    finally:
        asyncio.get_running_loop().call_soon(cut_cycles, transport)  # after its end, if that is due now


def _count(counted: Metrics) -> Iterator[Metric]:
    yield _by_label("messages_in", "Messages stored since the start.", "topic", counted.messages_in)
    yield _by_label("bytes_in", "Bytes of the bodies of messages stored since the start.", "topic", counted.bytes_in)
    yield _by_label("messages_out", "Messages pulled since the start.", "topic", counted.messages_out)
    yield _by_label("bytes_out", "Bytes of the bodies of messages pulled.", "topic", counted.bytes_out)
    yield _by_label("pulls", "Reads of a queue by a pull, by their result.", "status", counted.pulls)
    calls = CounterMetricFamily(f"{_PREFIX}_calls", "Calls, by status code.", labels=("rpc", "code"))
    for (rpc, code), count in counted.calls.items():
        calls.add_metric((rpc, code if isinstance(code, str) else find_code_name(code)), count)
    yield calls
    seconds = HistogramMetricFamily(
        f"{_PREFIX}_call_seconds",
        "Time from a call to its response, including the time that pulls are parked.",
        labels=("rpc",),
    )
    for rpc, histogram in counted.call_seconds.items():
        seconds.add_metric((rpc,), _buckets(histogram), histogram.sum)
    yield seconds
    for name, doc, histogram in (
        ("sync_seconds", "Time of a write to the commit log with its sync.", counted.sync_seconds),
        ("sync_commands", "Commands in one write to the commit log.", counted.group_sizes),
    ):
        yield HistogramMetricFamily(f"{_PREFIX}_{name}", doc, _buckets(histogram), histogram.sum)
    failures = "Failed writes to the commit log."
    yield CounterMetricFamily(f"{_PREFIX}_sync_failures", failures, counted.sync_failures)
    gaps = "Commits of a query's batch with missing batch numbers before it, including refused commits."
    yield CounterMetricFamily(f"{_PREFIX}_commit_gaps", gaps, counted.commit_gaps)


def _deliveries(counted: Metrics, in_flight: _Counts) -> Iterator[Metric]:
    """The metrics of messages that groups acknowledge one by one, by the topics in which they are stored."""
    for name, doc, counts in (
        ("messages_delivered", "Messages delivered to groups that acknowledge them.", counted.delivered),
        ("messages_redelivered", "Of these, messages that the group had received before.", counted.redelivered),
        ("messages_acknowledged", "Messages that a group has acknowledged.", counted.acknowledged),
        ("messages_dead_lettered", "Messages that became dead letters of a group.", counted.dead_lettered),
    ):
        yield _by_group(CounterMetricFamily(f"{_PREFIX}_{name}", doc, labels=_GROUP_AND_TOPIC), counts.items())
    doc = "Messages that a group has received, and that are neither acknowledged nor visible again."
    family = GaugeMetricFamily(f"{_PREFIX}_messages_in_flight", doc, labels=_GROUP_AND_TOPIC)
    yield _by_group(family, in_flight.most_common(LAG_SERIES_MAX))


def _lag(lags: _Counts) -> Metric:
    doc = "Messages between a group's offsets and the max offsets of those queues."
    family = GaugeMetricFamily(f"{_PREFIX}_consumer_lag", doc, labels=_GROUP_AND_TOPIC)
    return _by_group(family, lags.most_common(LAG_SERIES_MAX))


class _Collected:
    """Metrics in the form that a registry collects."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def _by_group(family: CounterMetricFamily | GaugeMetricFamily, counts: Iterable[tuple[tuple[str, str], int]]) -> Metric:
    for labels, count in counts:
        family.add_metric(labels, count)
    return family


def _by_label(name: str, doc: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"{_PREFIX}_{name}", doc, labels=(label,))
    for value, count in counts.items():
        family.add_metric((value,), count)
    return family


def _buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Cumulative counts, as Prometheus expects them."""
    total, buckets = 0, []
    for bound, count in zip(
        [*(str(float(bound)) for bound in histogram.bounds), "+Inf"], histogram.counts, strict=True
    ):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _http(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (body if with_body else b"")
