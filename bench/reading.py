"""Workloads that read a topic: whole, in part, filtered, with large bodies, with many queues, from its end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pyspark.sql import functions as F

from bench.comparison import CEILING, KAFKA, OURS, Comparison, Mismeasured, contain_failure, measure
from bench.ready_batches import OFTEN_TAG, RARE_TAG
from bench.results import Aim
from bench.servers import broker
from bench.timing import batch_seconds, stream_seconds
from bench.topics import NAME, BenchContext, Topic, evenly, fill, newest

DEFAULT_ROW, BODY_ONLY = None, "body BINARY"
RARE = 100
"""One message in this many has the rare tag."""
NEWEST_ROWS = 10_000
STANDARD_ROWS = 20_000
SMALLEST = "smallest topic"
FILTERED_IN_SPARK = "all read, filtered in Spark"
FILTERED_OF_KAFKA = f"{KAFKA}, filtered in Spark"


def reads(context: BenchContext) -> Iterator[Comparison]:
    """Measures stream and batch reads of a whole topic."""
    sizes = context.sizes
    rows = evenly(sizes.rows, sizes.queues)
    with context.topic(rows, sizes.queues, sizes.body_bytes) as topic:
        topic.check()
        aims = {KAFKA: Aim(at_least=2.5), CEILING: Aim(at_least=0.7)}
        yield _stream_read(context, topic, "stream-default-row", "stream read, default row", DEFAULT_ROW, aims)
        aims = {KAFKA: Aim(at_least=4), CEILING: Aim(at_least=0.55)}
        yield _stream_read(context, topic, "stream-body", "stream read, body only", BODY_ONLY, aims)
        batch = _comparison(context, topic, "batch-default-row", "batch read, default row")
        contenders = {
            name: lambda reader=reader: topic.rows / batch_seconds(reader())
            for name, reader in topic.contenders(is_stream=False).items()
        }
        yield measure(batch, contenders, sizes.runs)


def _comparison(
    context: BenchContext,
    topic: Topic,
    name: str,
    title: str,
    aims: Mapping[str, Aim] | None = None,
    unit: str = "rows/s",
) -> Comparison:
    sizes = {"rows": topic.rows, "queues": topic.queues, "body bytes": topic.body_bytes}
    return Comparison(name, title, unit, aims or {}, sizes, not_run=dict(context.not_run), failed=dict(topic.failed))


def _stream_read(
    context: BenchContext,
    topic: Topic,
    name: str,
    title: str,
    selection: str | None = DEFAULT_ROW,
    aims: Mapping[str, Aim] | None = None,
    unit: str = "rows/s",
) -> Comparison:
    worth = topic.rows * topic.body_bytes / 1e6 if unit == "MB/s" else topic.rows
    contenders = {
        reader_name: lambda reader=reader: worth / stream_seconds(reader(), topic.rows)
        for reader_name, reader in topic.contenders(is_stream=True, selection=selection).items()
    }
    return measure(_comparison(context, topic, name, title, aims, unit), contenders, context.sizes.runs)


def filtered(context: BenchContext) -> Iterator[Comparison]:
    """Measures a tag filter that keeps 1 % of the messages: in the broker, and in Spark after a read of everything."""
    sizes = context.sizes
    rows = evenly(sizes.rows, sizes.queues)
    with context.topic(rows, sizes.queues, sizes.body_bytes, rare=RARE) as topic:
        kept = -(-rows // RARE)
        contenders = {
            OURS: lambda: rows / stream_seconds(topic.ours(True, filterExpression=RARE_TAG), kept),
            FILTERED_IN_SPARK: lambda: rows / stream_seconds(topic.ours(True).where(F.col("tags") == RARE_TAG), rows),
        }
        if topic.has_kafka:
            is_rare = F.col("key") == F.lit(RARE_TAG).cast("binary")
            contenders[FILTERED_OF_KAFKA] = lambda: rows / stream_seconds(topic.of_kafka(True).where(is_rare), rows)
        _check_kept(topic, kept)
        aims = {FILTERED_IN_SPARK: Aim(at_least=10)}
        comparison = _comparison(context, topic, "filter-1-percent", "tag filter that keeps 1 %", aims, "messages/s")
        comparison.not_run = {f"{name}, filtered in Spark": why for name, why in context.not_run.items()}
        comparison.failed = {f"{name}, filtered in Spark": why for name, why in topic.failed.items()}
        yield measure(comparison, contenders, sizes.runs)


def _check_kept(topic: Topic, kept: int) -> None:
    """Raises Mismeasured unless broker and Spark keep the same number of rows."""
    by_broker = topic.ours(False, filterExpression=RARE_TAG).count()
    by_spark = topic.ours(False).where(F.col("tags") != OFTEN_TAG).count()
    if (by_broker, by_spark) != (kept, kept):
        raise Mismeasured(f"the filter keeps {by_broker} rows at the broker and {by_spark} in Spark instead of {kept}")


def large_bodies(context: BenchContext) -> Iterator[Comparison]:
    """Measures larger bodies, in megabytes per second."""
    sizes = context.sizes
    for body_bytes in sizes.body_sizes:
        rows = evenly(max(1, sizes.body_read_mb * 1_000_000 // body_bytes), sizes.queues)
        with context.topic(rows, sizes.queues, body_bytes) as topic:
            size = f"{body_bytes // 1024} KB" if body_bytes >= 1024 else f"{body_bytes} B"
            yield _stream_read(context, topic, f"stream-{body_bytes}", f"stream read, bodies of {size}", unit="MB/s")


def queue_counts(context: BenchContext) -> Iterator[Comparison]:
    """Measures topics of few and of many queues. Each queue is a task."""
    sizes = context.sizes
    for queues in sizes.queue_counts:
        with context.topic(evenly(sizes.queue_rows, queues), queues, sizes.body_bytes) as topic:
            word = "queue" if queues == 1 else "queues"
            yield _stream_read(context, topic, f"stream-{queues}-queues", f"stream read, {queues} {word}")


def standard(context: BenchContext) -> Iterator[Comparison]:
    """Measures a broker without the columnar extension, which is read message by message."""
    sizes = context.sizes
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder:
        with broker(Path(folder), {NAME: sizes.queues}) as columnar:
            fill(columnar.endpoints, evenly(STANDARD_ROWS, sizes.queues), sizes.body_bytes)
        with broker(Path(folder), None, "--extensions", "none") as running:
            rows = evenly(STANDARD_ROWS, sizes.queues)
            topic = Topic(context.spark, running.endpoints, None, rows, sizes.queues, sizes.body_bytes)
            comparison = _stream_read(context, topic, "stream-standard", "stream read, standard protocol")
            comparison.not_run = {}
            yield comparison


def newest_rows(context: BenchContext) -> Iterator[Comparison]:
    """Measures the newest rows of small and large topics, which should take equally long. Runs of all sizes are
    interleaved.
    """
    yield from _newest_rows(context, {}, context.sizes.topic_sizes)


def _newest_rows(context: BenchContext, topics: dict[int, Topic], left: tuple[int, ...]) -> list[Comparison]:
    """Fills one topic after the other, then reads them in turn."""
    if left:
        rows = evenly(left[0], context.sizes.queues)
        with context.topic(rows, context.sizes.queues, context.sizes.body_bytes) as topic:
            return _newest_rows(context, {**topics, rows: topic}, left[1:])
    comparisons = {rows: _newest_comparison(context, topic, min(topics)) for rows, topic in topics.items()}
    for number in range(context.sizes.newest_runs + 1):
        for rows, topic in topics.items():
            _newest_run(comparisons[rows], topic, is_counted=number > 0)
    smallest = comparisons[min(topics)]
    for comparison in comparisons.values():
        if comparison is not smallest and OURS in smallest.figures:
            comparison.figures[SMALLEST] = list(smallest.figures[OURS])
    return list(comparisons.values())


def _newest_comparison(context: BenchContext, topic: Topic, smallest: int) -> Comparison:
    aims = {} if topic.rows == smallest else {SMALLEST: Aim(0.9, 1.1)}
    title = f"newest {_newest_count(topic):,} rows of {topic.rows:,}"
    return _comparison(context, topic, f"newest-of-{topic.rows}", title, aims, "ms")


def _newest_count(topic: Topic) -> int:
    """Returns the number of newest rows, a multiple of the queues."""
    return min(evenly(NEWEST_ROWS, topic.queues), topic.rows)


def _newest_run(comparison: Comparison, topic: Topic, is_counted: bool) -> None:
    count = _newest_count(topic)
    readers = {OURS: topic.ours(False, startingOffsets=newest(NAME, topic.rows, topic.queues, count, "broker-a"))}
    if topic.has_kafka:
        starting = newest(topic.kafka_name, topic.rows, topic.queues, count)
        readers[KAFKA] = topic.of_kafka(False, startingOffsets=starting)
    for name, reader in readers.items():
        if name in comparison.failed:
            continue
        with contain_failure(name, comparison):
            if not is_counted and (read := reader.count()) != count:
                raise Mismeasured(f"it reads {read} newest rows instead of {count}")
            took_ms = batch_seconds(reader) * 1000
            if is_counted:
                comparison.add(name, took_ms)
