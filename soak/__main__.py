"""``python -m soak``: runs rounds until a number of kills or minutes is reached."""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import click

from bench.machine_lock import keep_benchmarks_away
from processes.children import Children, Signals
from processes.spark import SHORT_LIVED_JAVA
from soak.plan import RMQPULL_BROKER, SERVERS, SINK, SOURCE, Round
from soak.results import Summary, commit_of_code
from soak.rounds import RoundRun
from soak.runs import keep, name_results, write_page
from soak.schedule import draw_round


def rounds(what: str, server: str, seed: int, kills: int | None, kills_per_round: int, first: int) -> Iterator[Round]:
    """Yields the rounds of a seed from number ``first``, with this many kills in total, or without end."""
    number = first
    while kills is None or kills > 0:
        count = kills_per_round if kills is None else min(kills, kills_per_round)
        plan = draw_round(seed, number, count, what, server)
        kills = None if kills is None else kills - plan.kills
        number += 1
        yield plan


@click.command()
@click.option("--what", default=SOURCE, type=click.Choice([SOURCE, SINK]), help="What to test.  [default: source]")
@click.option(
    "--server", default=RMQPULL_BROKER, type=click.Choice(SERVERS), help="The server.  [default: rmqpull-broker]"
)
@click.option("--seed", default=1, help="Seed of the random schedule.  [default: 1]")
@click.option("--kills", type=click.IntRange(min=1), help="How many processes to kill.  [default: 300]")
@click.option(
    "--minutes", type=click.FloatRange(min=0), help="Instead of --kills: start no new round after this many minutes."
)
@click.option("--kills-per-round", default=24, type=click.IntRange(min=1), help="Kills in each round.  [default: 24]")
@click.option("--first-round", default=0, type=click.IntRange(min=0), help="Number of the first round.  [default: 0]")
@click.option("--dry-run", is_flag=True, help="Only print the schedule.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the result to this file.")
@click.option("--folder", type=click.Path(path_type=Path), help="Keep data and logs in this new folder.")
@click.option("--docs", is_flag=True, help="Add the result to docs and update docs/soak.md.")
@click.option("--page", "page_only", is_flag=True, help="Only update docs/soak.md from the runs in docs.")
def main(
    what: str,
    server: str,
    seed: int,
    kills: int | None,
    minutes: float | None,
    kills_per_round: int,
    first_round: int,
    dry_run: bool,
    json_file: Path | None,
    folder: Path | None,
    docs: bool,
    page_only: bool,
) -> None:
    """Kill the broker, the query and Spark's processes on a random schedule, and check the output.

    The exit code is 1 if a row is lost, repeated, altered or out of order. To run one round again:
    --seed 1 --first-round 7 --kills 24.
    """
    if page_only:
        write_page()
        return
    if kills is None and minutes is None:
        kills = 300
    plans = rounds(what, server, seed, kills, kills_per_round, first_round)
    if dry_run:
        # How many rounds fit into a number of minutes is not known in advance.
        for plan in plans if minutes is None else [next(plans)]:
            say("\n".join(plan.lines()))
        return
    keep_benchmarks_away()
    end = math.inf if minutes is None else time.monotonic() + minutes * 60
    summary = Summary(seed=seed, what=what, server=server, first_round=first_round, commit=commit_of_code())
    try:
        with tempfile.TemporaryDirectory(prefix="rmqpull-soak-") as temporary:
            for plan in takewhile(lambda _: time.monotonic() < end, plans):
                run_round(plan, folder or Path(temporary), summary)
    finally:  # an interrupted soak keeps the rounds that it has finished
        write(summary, json_file, docs)
    say(summary.verdict())
    sys.exit(bool(summary.findings))


def run_round(plan: Round, folder: Path, summary: Summary) -> None:
    """Runs a round and adds its result. All its processes have ended then."""
    say(next(plan.lines()))
    round_folder = folder / f"round-{plan.number}"
    scratch = round_folder / "scratch"
    scratch.mkdir(parents=True)
    # Killed processes leave their temporary files.
    env = {**os.environ, "JDK_JAVA_OPTIONS": SHORT_LIVED_JAVA, "SPARK_LOCAL_DIRS": str(scratch)}
    with Children(env, Signals()) as children:
        summary.add(RoundRun(plan, round_folder, children, say).run())
    say(summary.line())


def write(summary: Summary, json_file: Path | None, docs: bool) -> None:
    """Writes the files that were asked for."""
    run = summary.document()
    if json_file is not None:
        json_file.write_text(json.dumps(run, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    if docs and not keep(name_results(summary.what, summary.server), run):
        say("This run is not added to docs: it has findings, or no finished round.")


def say(line: str) -> None:
    """Prints without buffering, because people watch a soak."""
    print(line, flush=True)


if __name__ == "__main__":
    main()
