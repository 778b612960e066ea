"""Workloads that read a topic of a real Apache RocketMQ: rmqpull, Apache's Java client, and Spark's Kafka source."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from bench.apache import CLIENT, COLUMNS, Apache, run_apache, spent_by_column
from bench.client_alone import run_side_by_side
from bench.comparison import KAFKA, OURS, Comparison, Contender, Mismeasured, contain_failure, measure_all
from bench.costs import Costs
from bench.java_load import PULL_BATCH_SIZE
from bench.reading import BODY_ONLY, DEFAULT_ROW
from bench.results import Aim
from bench.timing import stream_seconds
from bench.topics import BODY, NAME, BenchContext, evenly, of_kafka, with_selection
from rmqpull_proto.columns import PULL_SCHEMA

JAVA = "Java's DefaultLitePullConsumer"
RESPONSES = "responses counted, not decoded"
ALONE = f"{OURS} without Spark"
RAISED_SIZES = (512, 1_024)
PULLS_IN_FLIGHT = 16
"""For each queue. More are not faster when responses are only counted."""
PROCESSES = 2
"""As many as Spark has threads."""


class Selection(NamedTuple):
    """The columns of a read: for Spark, and for the client without Spark. ``aim`` is the ratio to Java."""

    name: str
    title: str
    schema: str | None
    columns: Sequence[str]
    aim: Aim


SELECTIONS = (
    Selection("stream-default-row", "default row", DEFAULT_ROW, PULL_SCHEMA.names, Aim(at_least=1.5)),
    Selection("stream-body", "body only", BODY_ONLY, [BODY], Aim(at_least=2.5)),
)


def raised_limits(pull_batch_size: int) -> dict[str, int]:
    """Returns the properties of a broker that responds with as many messages per pull."""
    return {
        "maxTransferCountOnMessageInMemory": pull_batch_size,
        "maxTransferBytesOnMessageInMemory": 4 << 20,
        "maxTransferCountOnMessageInDisk": pull_batch_size,
        "maxTransferBytesOnMessageInDisk": 4 << 20,
    }


def apache_reads(context: BenchContext) -> Iterator[Comparison]:
    """Measures stream reads of one topic: with the broker's default configuration, then with higher limits."""
    sizes = context.sizes
    rows = evenly(sizes.rows, sizes.queues)
    comparisons = [_comparison(context, rows, selection) for selection in SELECTIONS]
    with run_apache(context, comparisons, JAVA) as running:
        if running is None:
            yield from comparisons
            return
        running.fill(NAME, sizes.queues, rows, sizes.body_bytes)
        ends = running.max_offsets(NAME, sizes.queues)
        with _kafka_topic(context, rows, comparisons) as kafka_topic:
            reads = Reads(context, running, rows, ends, comparisons)
            yield from reads.measure([*reads.without_spark(), *reads.of_kafka(kafka_topic)])
        for size in RAISED_SIZES:
            running.configure(raised_limits(size))
            raised = [_comparison(context, rows, selection, size) for selection in SELECTIONS]
            yield from Reads(context, running, rows, ends, raised, size).measure(warm_ups=0)  # all are warm by now


def _comparison(context: BenchContext, rows: int, selection: Selection, raised: int | None = None) -> Comparison:
    sizes = {"rows": rows, "queues": context.sizes.queues, "body bytes": context.sizes.body_bytes}
    name, title = f"apache-{selection.name}", f"stream read, {selection.title}"
    if raised is not None:
        return Comparison(f"{name}-{raised}", f"{title}, {raised:,} messages per pull", "rows/s", {}, sizes)
    return Comparison(name, title, "rows/s", {JAVA: selection.aim}, sizes, not_run=dict(context.not_run))


@dataclass
class Reads:
    """Reads of one topic with one size of pulls. ``ends`` are the max offsets of the queues."""

    context: BenchContext
    apache: Apache
    rows: int
    ends: Sequence[int]
    comparisons: Sequence[Comparison]
    """One for each selection."""
    pull_batch_size: int = PULL_BATCH_SIZE
    costs: Costs = field(init=False)

    def __post_init__(self) -> None:
        self.costs = Costs(f"read, {self.pull_batch_size:,} messages per pull", COLUMNS)

    def measure(self, more: Sequence[Contender] = (), warm_ups: int = 1) -> Sequence[Comparison]:
        """Measures Java, Spark, the count of responses and more contenders in turn. Keeps their costs."""
        java = partial(self.apache.read, NAME, self.rows, self.context.sizes.body_bytes, self.pull_batch_size)
        contenders = [self._contender(JAVA, JAVA, self.comparisons, java)]
        for selection, comparison in self._selections():
            contenders.append(
                self._contender(OURS, f"{OURS}, {selection.title}", [comparison], self._stream(selection))
            )
        command = ["bench.undecoded", self.apache.broker_address, NAME, str(self.pull_batch_size), str(PULLS_IN_FLIGHT)]
        contenders.append(self._programs(RESPONSES, RESPONSES, self.comparisons, command))
        measure_all([*contenders, *more], self.context.sizes.runs, warm_ups)
        self.costs.drop_warm_ups(warm_ups)
        self.context.costs.append(self.costs)
        return self.comparisons

    def without_spark(self) -> Iterator[Contender]:
        """Yields the connector's client alone."""
        for selection, comparison in self._selections():
            command = ["bench.client_alone", self.apache.name_servers, NAME, ",".join(selection.columns)]
            yield self._programs(ALONE, f"{ALONE}, {selection.title}", [comparison], command)

    def of_kafka(self, topic: str | None) -> Iterator[Contender]:
        """Yields Spark's Kafka source, if there is a topic."""
        peer = self.context.kafka
        if peer is None or topic is None:
            return
        for selection, comparison in self._selections():

            def seconds(schema: str | None = selection.schema) -> float:
                read_stream = self.context.spark.readStream
                return stream_seconds(of_kafka(read_stream, peer.endpoints, topic, schema), self.rows)

            yield self._contender(KAFKA, f"{KAFKA}, {selection.title}", [comparison], seconds)

    def _selections(self) -> Iterator[tuple[Selection, Comparison]]:
        yield from zip(SELECTIONS, self.comparisons, strict=True)

    def _stream(self, selection: Selection) -> Callable[[], float]:
        def seconds() -> float:
            rows = of_apache(self.context.spark.readStream, self.apache, selection.schema, self.pull_batch_size)
            return stream_seconds(rows, self.rows)

        return seconds

    def _contender(
        self, name: str, cost_name: str, comparisons: Sequence[Comparison], seconds: Callable[[], float]
    ) -> Contender:
        watched = self.costs.watch(cost_name, self.rows, seconds, partial(spent_by_column, self.context, self.apache))
        return Contender(name, lambda: self.rows / watched(), comparisons)

    def _programs(
        self, name: str, cost_name: str, comparisons: Sequence[Comparison], command: Sequence[str]
    ) -> Contender:
        """Returns a contender that runs programs without Spark, each with some of the queues."""
        ends = [f"{queue}:{end}" for queue, end in enumerate(self.ends)]

        def rate() -> float:
            before = spent_by_column(self.context, self.apache)
            alone = run_side_by_side([[*command, *ends[part::PROCESSES]] for part in range(PROCESSES)])
            after = {**spent_by_column(self.context, self.apache), CLIENT: before[CLIENT] + alone.cpu_s}
            if alone.messages != self.rows:
                raise Mismeasured(f"it reads {alone.messages} rows instead of {self.rows}")
            self.costs.add(cost_name, before, after, self.rows)
            return self.rows / alone.seconds

        return Contender(name, rate, comparisons)


def of_apache(reader: Any, running: Apache, schema: str | None, pull_batch_size: int) -> DataFrame:
    """Returns a read by rmqpull's source."""
    options = {"nameServers": running.name_servers, "topic": NAME, "startingOffsets": "earliest"}
    if pull_batch_size != PULL_BATCH_SIZE:
        options["pullBatchSize"] = str(pull_batch_size)
    rows: DataFrame = with_selection(reader.format("rmqpull").options(**options), schema).load()
    return rows


@contextmanager
def _kafka_topic(context: BenchContext, rows: int, comparisons: Sequence[Comparison]) -> Iterator[str | None]:
    """Yields the name of a topic of Kafka with the same rows, or None without Kafka."""
    peer, sizes, name = context.kafka, context.sizes, "apache-rows"
    if peer is None:
        yield None
        return
    with contain_failure(KAFKA, *comparisons):
        peer.create(context.spark, name, sizes.queues)
        peer.fill(context.spark, name, sizes.queues, rows, sizes.body_bytes)
    try:
        yield name
    finally:
        peer.delete(context.spark, name)
