"""The gate against slower reads: compares the ratio of our rows per second to those of a bare transfer with the
recorded one.

The bare transfer does only what every source must do: a server sends prepared batches by gRPC, and a Python source
gives them to Spark. So the ratio says how much the rest costs, and differs little between machines. Both are read in
turn in one session on two cores, so that other work on the machine slows both. Each is judged by its fastest run: other
processes make runs slower and never faster, so the fastest of several runs varies little. A read that is 15 % slower
falls below ROOM of the recorded ratio and fails. Only micro-batches are timed, since the start of a query takes equally
long for both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import click

from bench.ceiling import prepare_server
from bench.machine_load import pin_cores
from bench.machine_lock import measure_alone
from bench.reading import BODY_ONLY, DEFAULT_ROW
from bench.servers import BARE, peer_server
from bench.session import session
from bench.sizes import QUICK
from bench.timing import batches_seconds
from bench.topics import BenchContext, Topic, evenly
from pyspark_rmqpull.schema import ROW_SCHEMA

RECORDED = Path(__file__).with_name("gate.json")
ROOM = 0.9
"""How much of the recorded ratio a read must reach: a slowdown of 10 % passes, one of 15 % does not."""
ROUNDS_MIN = 7
ROUNDS_MAX = 12
"""A read that seems slower gets more rounds, and fails only if it stays slower."""
ROUNDS_TO_RECORD = 12
ROWS = 3_200_000
READS = {"default row": (DEFAULT_ROW, ROW_SCHEMA.fieldNames()), "body only": (BODY_ONLY, ["body"])}


@dataclass
class Rounds:
    """The seconds of each round, of the bare transfer and of our source."""

    transfer: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    def add(self, seconds: tuple[float, float]) -> None:
        """Adds one round: the seconds of the transfer and ours."""
        self.transfer.append(seconds[0])
        self.ours.append(seconds[1])

    @property
    def ratio(self) -> float:
        """Our rate divided by that of the transfer, each in its fastest round."""
        return min(self.transfer) / min(self.ours)


def judge(measure: Callable[[], tuple[float, float]], recorded: float) -> tuple[bool, Rounds]:
    """Measures ROUNDS_MIN rounds, and up to ROUNDS_MAX while the read seems slower. Returns the verdict and the
    rounds.
    """
    rounds = Rounds()
    while len(rounds.ours) < ROUNDS_MAX:
        rounds.add(measure())
        if len(rounds.ours) >= ROUNDS_MIN and rounds.ratio >= recorded * ROOM:
            return True, rounds
    return False, rounds


def measured(rows: int) -> Iterator[tuple[str, Callable[[], tuple[float, float]]]]:
    """Yields each read with a function that measures a round of it, in seconds."""
    with (
        session(with_kafka=False) as opened,
        BenchContext(opened.spark, QUICK).topic(rows, QUICK.queues, QUICK.body_bytes) as topic,
        peer_server(BARE) as bare,
    ):
        for name, (selection, columns) in READS.items():
            prepare_server(bare.endpoints, columns, topic.body_bytes)
            measure = partial(measure_round, topic, bare.endpoints, selection)
            measure()  # warms up
            yield name, measure


def measure_round(topic: Topic, bare: str, selection: str | None) -> tuple[float, float]:
    """Returns the seconds of one bare transfer and of one read by our source."""
    transfer = batches_seconds(topic.transfer(bare, is_stream=True, selection=selection), topic.rows)
    return transfer, batches_seconds(topic.ours(is_stream=True, selection=selection), topic.rows)


@click.command()
@click.option("--record", is_flag=True, help="Record the ratios of this machine, which should be idle.")
def main(record: bool) -> None:
    """Exit with 1 if a read has become slower."""
    measure_alone()
    pin_cores()
    rows = evenly(ROWS, QUICK.queues)
    kept = {"rows": rows} if record else json.loads(RECORDED.read_text(encoding="utf-8"))
    if kept["rows"] != rows:
        sys.exit(f"{RECORDED} was recorded over {kept['rows']:,} rows, and the gate reads {rows:,}. Record it again.")
    is_slower = False
    for name, measure in measured(rows):
        if record:
            rounds = Rounds()
            for _ in range(ROUNDS_TO_RECORD):
                rounds.add(measure())
            kept[name] = round(rounds.ratio, 2)
            print(f"gate: {name}: {kept[name]} of the bare transfer, recorded")
            continue
        passed, rounds = judge(measure, kept[name])
        word = "passed" if passed else "SLOWER"
        print(
            f"gate: {name}: {word}: {rounds.ratio:.2f} of the bare transfer after {len(rounds.ours)} rounds, "
            f"recorded {kept[name]}, at least {kept[name] * ROOM:.2f} required"
        )
        is_slower |= not passed
    if record:
        RECORDED.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    sys.exit(is_slower)


if __name__ == "__main__":
    main()
