"""Where the time of a read goes: seconds of a core per million rows, for each process.

Processor time does not contain waits, and changes little if others use the machine too. It helps to improve the source;
the suite measures what users see.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable

import click
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table

from bench.comparison import CEILING, OURS
from bench.machine_lock import measure_alone
from bench.processor_time import KINDS, spent, wait_for_ended_queries
from bench.reading import BODY_ONLY, DEFAULT_ROW
from bench.session import session
from bench.sizes import QUICK
from bench.timing import stream_seconds
from bench.topics import BenchContext, evenly

READS = {"default row": DEFAULT_ROW, "body only": BODY_ONLY}


def cost(reader: Callable[[], DataFrame], rows: int) -> dict[str, float]:
    """Returns the processor time of a stream read by kind of process, in seconds per million rows."""
    before = spent()
    stream_seconds(reader(), rows)
    wait_for_ended_queries()
    after = spent()
    return {kind: (after[kind] - before[kind]) / rows * 1e6 for kind in KINDS}


@click.command()
@click.option("--rows", type=click.IntRange(min=1), default=6_400_000, help="Messages of the topic.")
@click.option("--runs", type=click.IntRange(min=1), default=3, help="Runs of each read, after one that does not count.")
def main(rows: int, runs: int) -> None:
    """Print a table of medians."""
    measure_alone()
    taken: dict[tuple[str, str], list[dict[str, float]]] = defaultdict(list)
    with session(with_kafka=False) as opened:
        rows = evenly(rows, QUICK.queues)
        with BenchContext(opened.spark, QUICK).topic(rows, QUICK.queues, QUICK.body_bytes) as topic:
            for number in range(runs + 1):
                for name, selection in READS.items():
                    contenders = topic.contenders(is_stream=True, selection=selection)
                    for who in (CEILING, OURS):
                        took = cost(contenders[who], rows)
                        if number:
                            taken[name, who].append(took)
    table = Table("seconds of a core for a million rows", *KINDS, "sum")
    for (name, who), costs in taken.items():
        medians = [statistics.median(took[kind] for took in costs) for kind in KINDS]
        total = statistics.median(sum(took.values()) for took in costs)
        table.add_row(f"{name}, {who}", *(f"{median:.2f}" for median in medians), f"{total:.2f}")
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
