"""Compares rmqpull on releases of PySpark, each in its own environment and beside Spark's Kafka source.

The older releases have the oldest packages that setup.py allows, on Python 3.10 if this machine has it.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from bench.comparison import KAFKA, OURS, comparisons_of
from bench.machine_load import Others
from bench.results import machine

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "bench" / "results" / "spark.json"
OLDER, NEWEST = ("4.0", "4.1"), "4.3"
RELEASES = (*OLDER, NEWEST)
WORKLOADS = ("reads", "write")
RATIO_MIN = 0.9
"""The share of the newest release's rate that an older release must reach."""
FORMAT = 1

Figures = dict[str, dict[str, list[float]]]
"""The figures of each contender on each release."""


def run_suite(release: str, folder: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Runs the workloads with a release, and returns the JSON of the run. Raises ClickException."""
    made = subprocess.run(["scripts/spark-environment", release], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if made.returncode:
        raise click.ClickException(f"there is no environment with PySpark {release}")
    python = str((ROOT / made.stdout.strip()).absolute())
    file = folder / f"{release}.json"
    file.unlink(missing_ok=True)
    packages = os.pathsep.join(str(ROOT / root) for root in ("connector", "broker_emulator", "proto"))
    environment = {**os.environ, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": python, "PYTHONPATH": packages}
    command = [
        python,
        "-m",
        "bench.suite",
        "--quick",
        "--workloads",
        ",".join(WORKLOADS),
        "--json",
        str(file),
        *arguments,
    ]
    # Its exit code says whether aims are met, and those are for whole runs.
    subprocess.run(command, cwd=ROOT, env=environment)
    if not file.exists():
        raise click.ClickException(f"the workloads have not run with PySpark {release}")
    kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return kept


class Collected:
    """The figures of all runs so far."""

    def __init__(self) -> None:
        self.titles: dict[str, tuple[str, str]] = {}
        self.figures: dict[str, Figures] = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        self.versions: dict[str, str] = {}
        # That of the busiest run, since each one's own processes are others for this one when they have ended.
        self.cores_of_others = 0.0

    def add(self, release: str, kept: Mapping[str, Any]) -> None:
        """Adds a run of a release. Raises ClickException where rmqpull has failed. Kafka's source may be missing."""
        of_machine = kept["machine"]
        self.cores_of_others = max(self.cores_of_others, float(of_machine.get("cores used by others", 0)))
        self.versions[release] = (
            f"{of_machine['spark']}, Python {of_machine['python']}, pyarrow {of_machine['pyarrow']}, "
            f"its Kafka source {of_machine.get('spark-sql-kafka', 'not run')}"
        )
        for comparison in comparisons_of(kept):
            if OURS in comparison.failed:
                raise click.ClickException(f"{comparison.title} with PySpark {release}: {comparison.failed}")
            self.titles[comparison.name] = (comparison.title, comparison.unit)
            for contender in (OURS, KAFKA):
                self.figures[comparison.name][contender][release] += comparison.figures.get(contender, [])

    def as_json(self, conditions: Mapping[str, str]) -> dict[str, Any]:
        """Returns the figures as JSON."""
        workloads = [
            {"name": name, "title": title, "unit": unit, "figures": self.figures[name]}
            for name, (title, unit) in self.titles.items()
        ]
        return {"format": FORMAT, "machine": dict(conditions), "releases": self.versions, "works": workloads}


def rows(kept: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yields a line for each workload and release: medians, and ratios to the newest release and to Kafka's source."""
    for workload in kept["works"]:
        ours, kafka = workload["figures"][OURS], workload["figures"].get(KAFKA, {})
        newest = statistics.median(ours[NEWEST])
        for release in RELEASES:
            median = statistics.median(ours[release])
            title, unit = (workload["title"], workload["unit"]) if release == RELEASES[0] else ("", "")
            ratio = "" if release == NEWEST else f"{median / newest:.2f}"
            verdict = "" if release == NEWEST else "met" if median / newest >= RATIO_MIN else "missed"
            peer = statistics.median(kafka[release]) if kafka.get(release) else None
            of_peer = ("not run", "") if peer is None else (f"{peer:,.0f}", f"{median / peer:.2f}")
            yield title, unit, release, f"{median:,.0f}", ratio, verdict, *of_peer


def markdown(kept: Mapping[str, Any] | None) -> str:
    """Returns the table for the docs; ``kept`` is the JSON of a run. Raises ValueError if it is not a run."""
    if kept is None:
        return "Not measured yet."
    if kept.get("format") != FORMAT:
        raise ValueError(f"The results have format {kept.get('format')!r}; this reads {FORMAT}. Run: make bench-spark")
    head = ("workload", "unit", "PySpark", "rmqpull", f"to {NEWEST}", f">= {RATIO_MIN}", "Kafka", "rmqpull / Kafka")
    lines = [head, ("---",) * len(head), *rows(kept)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    releases = "".join(f"\n- {release}: {told}" for release, told in kept["releases"].items())
    return f"{table}\n{releases}\n\n{', '.join(f'{name} {value}' for name, value in kept['machine'].items())}."


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--passes", default=2, show_default=True, help="Number of runs of each release; the releases take turns.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def main(passes: int, arguments: tuple[str, ...]) -> None:
    """Measure each release in turn, print a table, and write all figures as JSON.

    ARGUMENTS are those of the workloads, such as --rows 2000000.
    """
    collected, whole = Collected(), Others()
    with tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder:
        for number in range(passes):
            for release in reversed(RELEASES) if number % 2 else RELEASES:
                collected.add(release, run_suite(release, Path(folder), arguments))
    of_machine = machine()
    conditions = {
        **{name: of_machine[name] for name in ("cores", "memory", "system")},
        **whole.describe_run(),
        "cores used by others": f"{collected.cores_of_others:.2f}",
    }
    kept = collected.as_json(conditions)
    RESULTS.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    click.echo(markdown(kept))
    sys.exit(any("missed" in line for line in rows(kept)))


if __name__ == "__main__":
    main()
