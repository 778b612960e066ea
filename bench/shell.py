"""Measures the command line rmqpull on a real Apache RocketMQ: its commands beside `mqadmin`, and its exports.

An export has read and written all messages of a topic, or it does not count. The reader alone is the client of the
connector, which drops the rows.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import click
from rich.console import Console

from bench.apache import CLIENT, Apache, apache
from bench.client_alone import run_side_by_side
from bench.comparison import OURS, Comparison, Contender, Mismeasured, document, measure, measure_all
from bench.costs import Costs
from bench.machine_load import Others, pin_cores, refuse_a_busy_machine
from bench.machine_lock import measure_alone
from bench.processor_time import BROKER
from bench.result_tables import conditions, cost_table, reasons, table
from bench.results import Aim, machine
from bench.shell_commands import Ran, read_children_cpu_s, run_mqadmin, run_rmqpull
from bench.sizes import chosen, size, size_options
from processes.apache.releases import RELEASE_5
from processes.maven import SoftwareMissing
from processes.process_table import Process
from rmqpull_proto.columns import PULL_SCHEMA

RESULTS = Path(__file__).with_name("results")
TOPIC, GROUP = "exported", "readers"
MQADMIN = "mqadmin"
PROCESSES = 2
ONE = f"{OURS}, one process"
ALONE = "the reader alone"
JAVA = "Java's DefaultLitePullConsumer"
FIRST_OUTPUT_S_MAX = 0.4
EXPORTED_PER_S_MIN = 500_000


class Start(NamedTuple):
    """A command of rmqpull, and the command of Apache's that answers the same question."""

    name: str
    title: str
    arguments: Sequence[str]
    of_mqadmin: Sequence[str]


STARTS = (
    Start("topics", "topics", ["topics"], ["topicList"]),
    Start("lag", "lag of a group", ["lag", GROUP, "--topic", TOPIC], ["consumerProgress", "-g", GROUP, "-t", TOPIC]),
    Start("help", "help", ["--help"], []),
)


@dataclass(frozen=True)
class ShellSizes:
    """All sizes. The defaults are those of a whole run."""

    starts: int = size(15, "Runs of each command, after one that does not count.")
    runs: int = size(5, "Runs of each export, after one that does not count.")
    rows: int = size(4_000_000, "Messages of the topic.")
    queues: int = size(8, "Queues of the topic.")
    body_bytes: int = size(100, "Bytes of each body.")


def measure_start(running: Apache, folder: Path, start: Start, runs: int) -> list[Comparison]:
    """Measures a command: the seconds until its first output, and its processor time."""
    first = Comparison(
        f"shell-{start.name}", f"{start.title}, first output", "s", {OURS: Aim(at_most=FIRST_OUTPUT_S_MAX)}
    )
    spent = Comparison(f"shell-{start.name}-cpu", f"{start.title}, processor time", "s")

    def measure_one(name: str, run: Callable[[], Ran]) -> float:
        ran = run()
        spent.add(name, ran.cpu_s)
        return ran.first_output_s

    programs = {
        OURS: partial(run_rmqpull, running.name_servers, folder, *start.arguments),
        MQADMIN: partial(run_mqadmin, running.name_servers, folder, *start.of_mqadmin),
    }
    contenders = [Contender(name, partial(measure_one, name, run), [first]) for name, run in programs.items()]
    measure_all(
        contenders, runs, warm_ups=1, alternates=True
    )  # the warm-up compiles modules, and fills caches of files
    spent.figures = {name: figures[1:] for name, figures in spent.figures.items() if name in first.figures}
    return [first, spent]


@dataclass
class Exports:
    """Exports of a topic with so many messages. ``ends`` are the max offsets of its queues."""

    running: Apache
    folder: Path
    sizes: ShellSizes
    ends: Sequence[int]
    costs: Costs = field(default_factory=lambda: Costs("export to Parquet", (BROKER, CLIENT)))

    def measure(self) -> Comparison:
        """Measures exports with two processes and with one, the reader alone, and Java's consumer."""
        workloads: Mapping[str, Callable[[], float]] = {
            OURS: partial(self._export, PROCESSES),
            ONE: partial(self._export, 1),
            ALONE: self._read,
            JAVA: partial(self.running.read, TOPIC, self.sizes.rows, self.sizes.body_bytes),
        }
        aims = {OURS: Aim(at_least=EXPORTED_PER_S_MIN)}
        comparison = Comparison("shell-export", "export to Parquet", "messages/s", aims)
        contenders = {name: partial(self._measure_rate, name, seconds) for name, seconds in workloads.items()}
        measure(comparison, contenders, self.sizes.runs)
        self.costs.drop_warm_ups()
        return comparison

    def _measure_rate(self, name: str, seconds: Callable[[], float]) -> float:
        return self.sizes.rows / self.costs.watch(name, self.sizes.rows, seconds, self._read_cpu_s)()

    def _read_cpu_s(self) -> dict[str, float]:
        java_s, broker_s = (
            Process(pid).cpu_s() for pid in (self.running.java.process.pid, self.running.cluster.brokers[0].pid)
        )
        return {BROKER: broker_s, CLIENT: java_s + read_children_cpu_s()}

    def _export(self, process_count: int) -> float:
        """Returns the seconds of the whole command."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            flags = ("--processes", str(process_count), "--json")
            ran = run_rmqpull(self.running.name_servers, self.folder, "export", TOPIC, f"{name}/files", *flags)
        self._check(json.loads(ran.first_line)["messages"])
        return ran.whole_s

    def _read(self) -> float:
        """Returns the seconds of reading the same columns in as many processes, without the start of Python."""
        ends = [f"{queue}:{end}" for queue, end in enumerate(self.ends)]
        command = ["bench.client_alone", self.running.name_servers, TOPIC, ",".join(PULL_SCHEMA.names)]
        parts = [part for part in (ends[number::PROCESSES] for number in range(PROCESSES)) if part]
        alone = run_side_by_side([[*command, *part] for part in parts])
        self._check(alone.messages)
        return alone.seconds

    def _check(self, messages: int) -> None:
        if messages != self.sizes.rows:
            raise Mismeasured(f"it has {messages} messages instead of {self.sizes.rows}")


def run_workloads(sizes: ShellSizes) -> tuple[list[Comparison], Costs]:
    """Runs all workloads. Raises SoftwareMissing and ProcessFailed."""
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name,
        apache() as running,
    ):
        running.fill(TOPIC, sizes.queues, sizes.rows, sizes.body_bytes)
        ends, folder = running.max_offsets(TOPIC, sizes.queues), Path(name)
        running.cluster.administration.create_group(GROUP)
        for queue in range(sizes.queues):
            running.cluster.administration.set_offset(GROUP, TOPIC, queue, 0)
        starts = [one for start in STARTS for one in measure_start(running, folder, start, sizes.starts)]
        exports = Exports(running, folder, sizes, ends)
        return [*starts, exports.measure()], exports.costs


@click.command()
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
@size_options(ShellSizes)
def main(file: Path | None, **asked: Any) -> None:
    """Measure, print a table, and write all figures as JSON."""
    measure_alone()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then servers are stopped too
    sizes = chosen(ShellSizes(), asked)
    is_whole = file is None and all(value is None for value in asked.values())
    console = Console(width=160)
    cores = pin_cores()
    refuse_a_busy_machine(is_whole, console)
    file = file or RESULTS / ("shell.json" if is_whole else "latest.json")
    others = Others()
    try:
        comparisons, costs = run_workloads(sizes)
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    of_run = {**machine(), "cores": cores, "rocketmq": RELEASE_5.server, **others.describe_run()}
    asked_sizes = {one.name: getattr(sizes, one.name) for one in fields(sizes)}
    kept = document(comparisons, of_run, asked_sizes, [costs])
    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    console.print(table(comparisons), cost_table([costs]), conditions(kept), *reasons(comparisons), sep="\n")
    sys.exit(1 if any(comparison.failed for comparison in comparisons) else 0)


if __name__ == "__main__":
    main()
