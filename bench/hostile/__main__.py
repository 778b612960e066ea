"""Attacks a broker in many ways, each from a process limited to half a core, beside a healthy Java client."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click

from bench.hostile.attack import Attack
from bench.hostile.attacks import ATTACKS
from bench.hostile.figures import Measured, find_p99_ms_max, list_misses, make_document
from bench.hostile.run import Course, measure, measure_alone
from bench.java_load import java_load
from bench.machine_load import Others, pin_cores
from bench.machine_lock import measure_alone as lock_machine
from bench.results import machine
from processes.maven import SoftwareMissing

RESULTS = Path(__file__).parents[1] / "results" / "hostile.json"
ALONE_RUNS = 3


def choose(names: str) -> list[Attack]:
    """Returns the attacks with these names, separated by commas, or all if no name is given.

    Raises click.BadParameter.
    """
    asked = [name for name in names.split(",") if name]
    if unknown := [name for name in asked if name not in ATTACKS]:
        raise click.BadParameter(f"{', '.join(unknown)}; there are {', '.join(ATTACKS)}", param_hint="--attacks")
    return [ATTACKS[name] for name in asked] or list(ATTACKS.values())


def run(attacks: list[Attack], course: Course) -> Iterator[tuple[list[float], list[Measured]]]:
    """Runs the attacks. Yields after each what was measured so far: the client alone, and beside the attacks."""
    alone = [measure_alone(course, number) for number in range(ALONE_RUNS)]
    measured: list[Measured] = []
    bound = find_p99_ms_max(alone)
    click.echo(f"alone: p99 {', '.join(f'{one:.1f}' for one in alone)} ms; bound {bound:.0f} ms")
    for attack in attacks:
        one = measure(attack, course)
        measured.append(one)
        click.echo(
            f"{one.name}: p50 {one.p50_ms:.1f}, p99 {one.p99_ms:.1f}, max {one.max_ms:.0f} ms of {one.messages}; "
            f"{one.before_mb:.0f}, {one.during_mb:.0f}, {one.after_mb:.0f} MB; lost {one.lost} of {one.acknowledged}; "
            f"cores {one.attacker_cores:.2f} and {one.broker_cores:.2f}; {', '.join(list_misses(one, bound)) or 'met'}"
        )
        yield alone, measured


@click.command()
@click.option("--attacks", "names", default="", help="Names of attacks, separated by commas. Default: all.")
@click.option(
    "--seconds",
    default=8.0,
    show_default=True,
    help="How long the healthy client sends beside each attack, in seconds.",
)
@click.option("--json", "file", type=click.Path(dir_okay=False, path_type=Path), help="File for the figures.")
def main(names: str, seconds: float, file: Path | None) -> None:
    """Attack, print what the healthy client has seen, and write all figures as JSON."""
    attacks = choose(names)
    lock_machine()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # then brokers and attacks are stopped too
    cores, others = pin_cores(), Others()
    file = file or (RESULTS.with_name("latest.json") if names else RESULTS)
    missed = 0
    try:
        with tempfile.TemporaryDirectory(prefix="rmqpull-bench-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with java_load(folder) as java:
                for alone, measured in run(attacks, Course(seconds, folder, java)):
                    of_run = {
                        **machine(),
                        "cores": cores,
                        **others.describe_run(),
                    }
                    kept = make_document(of_run, {"seconds of an attack": seconds}, alone, measured)
                    file.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
                    missed = sum(bool(list_misses(one, find_p99_ms_max(alone))) for one in measured)
    except SoftwareMissing as missing:
        raise click.ClickException(str(missing)) from None
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
