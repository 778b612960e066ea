"""The gate against slower reads: rows per second by those of the engine's ceiling, beside what was recorded once.

Both are measured in turn in one session, so that what else the machine does slows both. A read passes with the first
pair whose ratio is at least ROOM of the recorded one. Only when none of ROUNDS_MAX pairs comes so far, reads have
become slower: noise would have to hit the one and spare the other every time.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import click
from alone import measure_alone
from comparison import CEILING, OURS
from pyspark.sql import DataFrame
from reading import BODY_ONLY, DEFAULT_ROW
from session import session
from sizes import QUICK
from timing import stream_seconds
from topics import Stage, evenly

RECORDED = Path(__file__).with_name("gate.json")
ROOM = 0.6
ROUNDS_MAX = 8
ROUNDS_TO_RECORD = 7
ROWS = 1_600_000
READS = {"default row": DEFAULT_ROW, "body only": BODY_ONLY}


def passes(ratios: Sequence[float], recorded: float) -> bool:
    """Whether one of the ratios has come far enough."""
    return max(ratios) >= recorded * ROOM


def decide(pairs: Callable[[], float], recorded: float) -> tuple[bool, list[float]]:
    """Takes ratios until one passes, at most ROUNDS_MAX; gives the verdict and all that were taken."""
    ratios: list[float] = []
    while len(ratios) < ROUNDS_MAX:
        ratios.append(pairs())
        if passes(ratios, recorded):
            return True, ratios
    return False, ratios


def measured() -> Iterator[tuple[str, Callable[[], float]]]:
    """Each read with a function that measures one pair and gives its ratio."""
    with session(with_kafka=False) as opened:
        rows = evenly(ROWS, QUICK.queues)
        with Stage(opened.spark, QUICK).topic(rows, QUICK.queues, QUICK.body_bytes) as topic:
            for name, selection in READS.items():
                pair = partial(ratio, topic.contenders(is_stream=True, selection=selection), rows)
                pair()  # warms up
                yield name, pair


def ratio(readers: Mapping[str, Callable[[], DataFrame]], rows: int) -> float:
    """Of one pair of runs: our rate by the ceiling's."""
    return stream_seconds(readers[CEILING](), rows) / stream_seconds(readers[OURS](), rows)


@click.command()
@click.option("--record", is_flag=True, help="Records the medians of this machine, which should do nothing else.")
def main(record: bool) -> None:
    """Exits 1 when a read has become slower."""
    measure_alone()
    recorded = {} if record else json.loads(RECORDED.read_text(encoding="utf-8"))
    is_slower = False
    for name, pair in measured():
        if record:
            recorded[name] = round(statistics.median(pair() for _ in range(ROUNDS_TO_RECORD)), 2)
            print(f"gate: {name}: {recorded[name]} of the ceiling, recorded")
            continue
        passed, ratios = decide(pair, recorded[name])
        word = "passed" if passed else "SLOWER"
        shown = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"gate: {name}: {word}: {shown} of the ceiling, at least {recorded[name] * ROOM:.2f} is asked for")
        is_slower |= not passed
    if record:
        RECORDED.write_text(json.dumps(recorded, indent=2) + "\n", encoding="utf-8")
    sys.exit(is_slower)


if __name__ == "__main__":
    main()
