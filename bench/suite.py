"""Compares rmqpull with Spark's Kafka source, the engine's own ceiling and Arrow Flight, in one run on one machine.

With ``--apache``, it compares rmqpull on a real Apache RocketMQ with Apache's Java clients and with Kafka.

Absolute figures depend on the machine, so compare ratios. A contender that cannot run is listed with the reason.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
from pyspark import __version__ as SPARK_VERSION
from rich.console import Console

from bench.apache import VERSION as ROCKETMQ_VERSION
from bench.apache_reading import apache_reads
from bench.apache_writing import apache_writes
from bench.artifacts import KAFKA_VERSION
from bench.cold_and_memory import cold, memory
from bench.commits import commits
from bench.comparison import KAFKA, OURS, Comparison, document, reason_of
from bench.costs import Costs
from bench.kafka import Kafka, kafka
from bench.latency import latency
from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.reading import filtered, large_bodies, newest_rows, queue_counts, reads, standard
from bench.result_tables import conditions, cost_table, reasons, table
from bench.results import machine
from bench.session import THREADS, session
from bench.sizes import APACHE, APACHE_QUICK, QUICK, Sizes, chosen, size_options
from bench.stream_writing import stream_writes
from bench.topics import BenchContext
from bench.transport import transport
from bench.writing import writes
from processes.maven import SoftwareMissing

RESULTS = Path(__file__).with_name("results")
WORKLOADS: dict[str, Callable[[BenchContext], Iterator[Comparison]]] = {
    "reads": reads,
    "latency": latency,
    "filter": filtered,
    "newest": newest_rows,
    "cold": cold,
    "wire": transport,
    "write": writes,
    "stream-write": stream_writes,
    "commits": commits,
    "bodies": large_bodies,
    "queues": queue_counts,
    "standard": standard,
    "memory": memory,
    "apache-reads": apache_reads,
    "apache-writes": apache_writes,
}
QUICK_WORKLOADS = ("reads", "write", "latency", "filter", "newest")


@dataclass(frozen=True)
class Suite:
    """The workloads of a whole run and of a quick run, with their sizes. ``name`` is that of the file with the results.

    ``shown_sizes`` are the sizes that matter.
    """

    name: str
    workloads: tuple[str, ...]
    sizes: Sizes
    quick_workloads: tuple[str, ...]
    quick_sizes: Sizes
    shown_sizes: tuple[str, ...]


_APACHE_WORKLOADS = ("apache-reads", "apache-writes")
_OTHER_WORKLOADS = tuple(name for name in WORKLOADS if name not in _APACHE_WORKLOADS)
ON_APACHE = Suite(
    "apache",
    workloads=_APACHE_WORKLOADS,
    sizes=APACHE,
    quick_workloads=_APACHE_WORKLOADS,
    quick_sizes=APACHE_QUICK,
    shown_sizes=("runs", "rows", "written_rows", "queues", "body_bytes"),
)
ON_OURS = Suite(
    "full",
    workloads=_OTHER_WORKLOADS,
    sizes=Sizes(),
    quick_workloads=QUICK_WORKLOADS,
    quick_sizes=QUICK,
    shown_sizes=tuple(size.name for size in fields(Sizes)),
)


@dataclass
class Measured:
    """What a run has so far. ``kafka_source`` is the version of Spark's Kafka source."""

    kafka_source: str
    comparisons: list[Comparison] = field(default_factory=list)
    workloads: list[str] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)


class Workloads(click.ParamType[tuple[str, ...]]):
    """Names of workloads, separated by commas."""

    name = "workloads"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Returns the names, and refuses unknown ones."""
        names = tuple(value.split(","))
        for name in names:
            if name not in WORKLOADS:
                self.fail(f"there is no workload {name!r}; there are {', '.join(WORKLOADS)}", param, ctx)
        return names


@click.command()
@click.option("--quick", is_flag=True, help="The most important workloads with smaller sizes, in under 5 minutes.")
@click.option("--apache", "on_apache", is_flag=True, help="Measure on a real Apache RocketMQ, which Maven fetches.")
@click.option(
    "--workloads",
    "--works",
    type=Workloads(),
    help=f"Run only these workloads, separated by commas: {', '.join(WORKLOADS)}. --works is the old name.",
)
@click.option("--without-kafka", is_flag=True, help="Leave Kafka out.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(Sizes)
def main(
    quick: bool,
    on_apache: bool,
    workloads: tuple[str, ...] | None,
    without_kafka: bool,
    file: Path | None,
    **asked: Any,
) -> None:
    """Measure, print a table, and write all figures as JSON; a whole run also draws the chart for docs."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    suite = ON_APACHE if on_apache else ON_OURS
    sizes = chosen(suite.quick_sizes if quick else suite.sizes, asked)
    names = workloads or (suite.quick_workloads if quick else suite.workloads)
    console = Console(width=160)
    is_whole = file is None and not quick and workloads is None
    cores = pin_cores()
    refuse_a_busy_machine(is_whole, console)
    file = file or RESULTS / "latest.json"
    file.parent.mkdir(exist_ok=True)
    others = Others()
    for found in measured(sizes, names, not without_kafka, console):
        run = others.describe_run()
        conditions_of_run = {**machine(), "cores": cores, **versions(found), **run}
        measured_sizes = {name: getattr(sizes, name) for name in suite.shown_sizes}
        kept = document(found.comparisons, conditions_of_run, {"works": found.workloads, **measured_sizes}, found.costs)
        file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")  # an interrupted run keeps its figures
    console.print(table(found.comparisons), *map(cost_table, [found.costs] if found.costs else []))
    console.print(conditions(kept), *reasons(found.comparisons), sep="\n")
    if is_whole:
        file.rename(RESULTS / f"{suite.name}.json")
        from bench.chart import draw_kept  # other runs need no matplotlib

        draw_kept([RESULTS / f"{whole.name}.json" for whole in (ON_OURS, ON_APACHE)])
    sys.exit(1 if any(comparison.failed for comparison in found.comparisons) else 0)


def versions(found: Measured) -> dict[str, str]:
    """Returns the versions of the engine and its peers."""
    peer = {"kafka": KAFKA_VERSION, "spark-sql-kafka": found.kafka_source} if found.kafka_source else {}
    rocketmq = {"rocketmq": ROCKETMQ_VERSION} if set(found.workloads) & set(ON_APACHE.workloads) else {}
    return {"spark": f"{SPARK_VERSION} local[{THREADS}]", **rocketmq, **peer}


def measured(sizes: Sizes, workloads: tuple[str, ...], with_kafka: bool, console: Console) -> Iterator[Measured]:
    """Runs the workloads one after the other, in one session and with one Kafka.

    Yields after each workload what was measured so far. A workload that fails is a line of its own, and the others are
    still run.
    """
    with ExitStack() as running:
        peer, missing = _kafka(running) if with_kafka else (None, "it was left out")
        # The session ends before Kafka, or its clients would complain.
        opened = running.enter_context(session(with_kafka=peer is not None))
        context = BenchContext(opened.spark, sizes)
        if opened.kafka_source.version:
            context.kafka = peer
        else:
            context.not_run = {KAFKA: missing or opened.kafka_source.missing}
        found = Measured(opened.kafka_source.version, costs=context.costs)
        for name in workloads:
            begun = time.perf_counter()
            try:
                found.comparisons += WORKLOADS[name](context)
            except Exception as error:  # noqa: BLE001 (the other workloads of a long run are worth keeping)
                failure = Comparison(name, f"{name}, the whole workload", "", failed={OURS: reason_of(error)})
                found.comparisons.append(failure)
            found.workloads.append(name)
            console.print(f"{name} took {time.perf_counter() - begun:.0f} s")
            for reason in reasons([one for one in found.comparisons if one.failed]):
                console.print(reason, markup=False)
            yield found


def _kafka(running: ExitStack) -> tuple[Kafka | None, str]:
    """Yields Kafka, or the reason why it is missing."""
    try:
        return running.enter_context(kafka()), ""
    except SoftwareMissing as missing:
        return None, str(missing)


if __name__ == "__main__":
    main()
