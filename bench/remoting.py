"""Compares the emulator with Apache's broker over the remoting protocol: Apache's Java clients put the load on both.

Both servers run at the same time and take turns. The clients need as much of the machine as the servers, so the
processor time of both sides is shown, too. Absolute figures depend on the machine, so compare ratios.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from bench.comparison import OURS, Comparison, document
from bench.costs import Costs
from bench.java_load import java_load
from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.remoting_servers import APACHE, ASYNC, SYNC, apache_servers, emulator
from bench.remoting_sizes import QUICK, RemotingSizes
from bench.remoting_starts import starts
from bench.remoting_workloads import Pair, list_topics, workloads
from bench.result_tables import conditions, cost_table, reasons, table
from bench.results import machine
from bench.sizes import chosen, size_options
from processes.apache.releases import RELEASE_5
from processes.maven import SoftwareMissing

RESULTS = Path(__file__).with_name("results")


@dataclass
class Found:
    """What a run has so far."""

    comparisons: list[Comparison] = field(default_factory=list)
    costs: list[Costs] = field(default_factory=list)


@contextmanager
def pair(sizes: RemotingSizes, flush: str) -> Iterator[Pair]:
    """Runs both servers and the clients until the block ends. Raises SoftwareMissing and ProcessFailed."""
    topics, queues = list_topics(sizes), sizes.queues
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name,
        java_load(folder := Path(name)) as java,
        emulator(folder / "emulator", topics, queues, flush) as ours,
        apache_servers(folder / "apache", topics, queues, flush) as apache,
    ):
        yield Pair({OURS: ours, APACHE: apache}, java, sizes, flush)


def measured(sizes: RemotingSizes) -> Iterator[Found]:
    """Runs all workloads. Yields after each what was measured so far."""
    found = Found()
    for flush in (SYNC, ASYNC):
        with pair(sizes, flush) as running:
            for comparisons, costs in workloads(running):
                found.comparisons += comparisons
                found.costs += costs
                yield found
    found.comparisons += starts(sizes.starts)
    yield found


@click.command()
@click.option("--quick", is_flag=True, help="Smaller sizes, in about a minute.")
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(RemotingSizes)
def main(quick: bool, file: Path | None, **asked: Any) -> None:
    """Measure, print a table, and write all figures as JSON."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    sizes = chosen(QUICK if quick else RemotingSizes(), asked)
    is_whole = file is None and not quick and all(value is None for value in asked.values())
    console = Console(width=160)
    cores = pin_cores()
    refuse_a_busy_machine(is_whole, console)
    file = file or RESULTS / "latest.json"
    others = Others()
    try:
        for found in measured(sizes):
            run = others.describe_run()
            of_run = {**machine(), "cores": cores, "rocketmq": RELEASE_5.server, **run}
            asked_sizes = {size.name: getattr(sizes, size.name) for size in fields(sizes)}
            kept = document(found.comparisons, of_run, asked_sizes, found.costs)
            file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")  # an interrupted run keeps its figures
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    console.print(table(found.comparisons), cost_table(found.costs))
    console.print(conditions(kept), *reasons(found.comparisons), sep="\n")
    if is_whole:
        file.rename(RESULTS / "broker.json")
    sys.exit(1 if any(comparison.failed for comparison in found.comparisons) else 0)


if __name__ == "__main__":
    main()
