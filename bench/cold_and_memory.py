"""Workloads that need a Spark session of their own: its first query, and the memory of a long read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial

from bench.comparison import CEILING, KAFKA, OURS, Comparison, contain_failure, measure
from bench.probe import ask
from bench.results import Aim
from bench.topics import BenchContext, Topic, evenly
from processes.spark import JVM, SOURCE, WORKER

COLD_ROWS = 10_000
MEMORY_BODY_BYTES = 1_000
FLAT = Aim(at_most=400)
GROWTH = "first half of the read"


def cold(context: BenchContext) -> Iterator[Comparison]:
    """Measures the first query of a session, which starts Python workers and loads classes. The JVM runs already."""
    with context.topic(COLD_ROWS, context.sizes.queues, context.sizes.body_bytes) as topic:
        contenders = {name: partial(ask, "cold", name, target, COLD_ROWS) for name, target in _targets(topic).items()}
        comparison = Comparison("cold-first-query", "first query of a session", "s", {}, {"rows": COLD_ROWS})
        comparison.not_run, comparison.failed = dict(context.not_run), dict(topic.failed)
        yield measure(comparison, contenders, context.sizes.cold_runs, warm_ups=0)


def _targets(topic: Topic) -> dict[str, tuple[str, str]]:
    targets = {CEILING: ("-", "-"), OURS: (topic.endpoints, "-")}
    if topic.has_kafka and topic.kafka is not None:
        targets[KAFKA] = topic.kafka.endpoints, topic.kafka_name
    return targets


def memory(context: BenchContext) -> Iterator[Comparison]:
    """Measures the largest resident set of each kind of process while a stream reads many gigabytes, and whether it
    grows.
    """
    rows = evenly(context.sizes.memory_mb * 1_000_000 // MEMORY_BODY_BYTES, context.sizes.queues)
    sizes = {"rows": rows, "body bytes": MEMORY_BODY_BYTES}
    comparisons = {}
    for kind, slug in ((SOURCE, "source"), (WORKER, "worker"), (JVM, "jvm")):
        aims = {KAFKA: Aim(at_most=1.1)} if kind == JVM else {OURS: FLAT, GROWTH: Aim(at_most=1.1)}
        comparisons[kind] = Comparison(f"memory-{slug}", f"resident set, {kind}", "MB", aims, sizes)
    in_jvm = comparisons[JVM]  # Kafka's source runs in the JVM only
    in_jvm.not_run = dict(context.not_run)
    with context.topic(rows, context.sizes.queues, MEMORY_BODY_BYTES) as topic:
        in_jvm.failed = dict(topic.failed)
        for name, target in _targets(topic).items():
            if name != CEILING:
                measured = comparisons.values() if name == OURS else [in_jvm]
                with contain_failure(name, *measured):
                    _keep_peaks(comparisons, name, ask("memory", name, target, rows))
    yield from comparisons.values()


def _keep_peaks(comparisons: Mapping[str, Comparison], name: str, peaks: Mapping[str, tuple[float, float]]) -> None:
    """Adds the largest resident sets of a contender: of all its kinds of processes, or of the JVM with Kafka's
    source.
    """
    for kind, comparison in comparisons.items():
        if kind in peaks and (name == OURS or kind == JVM):
            comparison.add(name, max(peaks[kind]))
            if kind != JVM:
                comparison.add(GROWTH, peaks[kind][0])
