"""How much is measured: the sizes of a whole run, of a quick one, and what a person asks for instead."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

import click


def size(default: Any, doc: str) -> Any:
    """One size of a run, which is an option of the command too."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Sizes:
    """Sizes of everything that is measured. The defaults are those of a whole run."""

    runs: int = size(3, "Counted runs of each measurement, after one that is not.")
    rows: int = size(8_000_000, "Rows of the topic that is read whole.")
    queues: int = size(8, "Its queues, and Kafka's partitions.")
    body_bytes: int = size(100, "Bytes of each body.")
    written_rows: int = size(1_000_000, "Rows of each batch that is written.")
    body_sizes: tuple[int, ...] = size((4_096, 262_144), "Bytes of the larger bodies that are compared.")
    body_read_mb: int = size(500, "Megabytes of each of these that are read.")
    queue_counts: tuple[int, ...] = size((1, 4, 16, 64), "Numbers of queues that are compared.")
    queue_rows: int = size(1_600_000, "Rows of each of these topics.")
    topic_sizes: tuple[int, ...] = size((10_000, 1_000_000, 10_000_000), "Rows of topics whose newest are read.")
    newest_runs: int = size(15, "Counted runs of reading the newest rows: one takes well under a second.")
    latency_runs: int = size(3, "Latency runs of each source.")
    messages: int = size(100, "Messages of each latency run, sent one by one.")
    memory_mb: int = size(10_000, "Megabytes that are read while memory is watched.")
    cold_runs: int = size(3, "First queries, each in a session of its own.")


QUICK = Sizes(
    runs=2,
    rows=800_000,
    written_rows=200_000,
    body_sizes=(4_096,),
    body_read_mb=100,
    queue_counts=(1, 16),
    queue_rows=400_000,
    topic_sizes=(10_000, 1_000_000),
    newest_runs=3,
    latency_runs=2,
    messages=10,
    memory_mb=500,
    cold_runs=1,
)


class Numbers(click.ParamType[tuple[int, ...]]):
    """One or several numbers, with commas between."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The numbers; refuses what is none."""
        try:
            numbers = tuple(sorted({int(number) for number in value.split(",")}))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 10000,1000000", param, ctx)
        if numbers[0] < 1:
            self.fail(f"{value!r} has a number below 1", param, ctx)
        return numbers


def size_options(command: Any) -> Any:
    """Gives a command an option for every size."""
    for entry in reversed(fields(Sizes)):
        kind = Numbers() if isinstance(entry.default, tuple) else click.IntRange(min=1)
        command = click.option(f"--{entry.name.replace('_', '-')}", type=kind, help=entry.metadata["doc"])(command)
    return command


def chosen(preset: Sizes, asked: dict[str, Any]) -> Sizes:
    """The preset with what was asked for instead."""
    return replace(preset, **{name: value for name, value in asked.items() if value is not None})
