"""Works that need a Spark session of their own: the first query of one, and the memory that a long read takes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from comparison import CEILING, KAFKA, OURS, Comparison, measure
from probe import JVM, SOURCE, WORKER, ask
from results import Aim
from topics import Stage, Topic, evenly

COLD_ROWS = 10_000
MEMORY_BODY_BYTES = 1_000
FLAT = Aim(at_most=400)
GROWTH = "first half of the read"


def cold(stage: Stage) -> Iterator[Comparison]:
    """The first query of a session, which starts Python workers and loads classes; the JVM's own start is not in it."""
    with stage.topic(COLD_ROWS, stage.sizes.queues, stage.sizes.body_bytes) as topic:
        contenders = {name: partial(ask, "cold", name, place, COLD_ROWS) for name, place in _places(topic).items()}
        comparison = Comparison("cold-first-query", "first query of a session", "s", {}, {"rows": COLD_ROWS})
        comparison.not_run = dict(stage.not_run)
        yield measure(comparison, contenders, stage.sizes.cold_runs, warm_ups=0)


def _places(topic: Topic) -> dict[str, tuple[str, str]]:
    places = {CEILING: ("-", "-"), OURS: (topic.endpoints, "-")}
    return places | ({KAFKA: (topic.kafka.endpoints, topic.kafka_name)} if topic.kafka else {})


def memory(stage: Stage) -> Iterator[Comparison]:
    """The largest resident set of each kind of process while a stream reads many gigabytes, and whether it grows."""
    rows = evenly(stage.sizes.memory_mb * 1_000_000 // MEMORY_BODY_BYTES, stage.sizes.queues)
    with stage.topic(rows, stage.sizes.queues, MEMORY_BODY_BYTES) as topic:
        peaks = {name: ask("memory", name, place, rows) for name, place in _places(topic).items() if name != CEILING}
    sizes = {"rows": rows, "body bytes": MEMORY_BODY_BYTES}
    for kind, slug in ((SOURCE, "source"), (WORKER, "worker"), (JVM, "jvm")):
        aims = {KAFKA: Aim(at_most=1.1)} if kind == JVM else {OURS: FLAT, GROWTH: Aim(at_most=1.1)}
        comparison = Comparison(f"memory-{slug}", f"resident set, {kind}", "MB", aims, sizes)
        for name, of_kinds in peaks.items():
            if kind in of_kinds and (name == OURS or kind == JVM):  # Kafka's source runs in the JVM alone
                comparison.figures[name] = [max(of_kinds[kind])]
        if kind != JVM and kind in peaks[OURS]:
            comparison.figures[GROWTH] = [peaks[OURS][kind][0]]
        if kind == JVM:
            comparison.not_run = dict(stage.not_run)
        yield comparison
