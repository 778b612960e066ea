"""The sizes of a benchmark: those of a whole run, of a quick run, and from the command line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    S = TypeVar("S", bound=DataclassInstance)
C = TypeVar("C", bound=Callable[..., Any])


def size(default: Any, doc: str) -> Any:
    """A size of a run, which is an option of the command too."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True)
class Sizes:
    """All sizes. The defaults are those of a whole run."""

    runs: int = size(3, "Runs of each measurement, after one that does not count.")
    rows: int = size(8_000_000, "Rows of the topic for whole reads.")
    queues: int = size(8, "Queues of that topic, and partitions in Kafka.")
    body_bytes: int = size(100, "Bytes of each body.")
    written_rows: int = size(4_000_000, "Rows of each batch write.")
    staged_rows: int = size(10_000_000, "Rows of one large commit.")
    commits: int = size(10_000, "Commits of 1,000 rows each, which are read afterwards.")
    stream_batches: int = size(100, "Micro-batches of each stream write.")
    body_sizes: tuple[int, ...] = size((4_096, 262_144), "Sizes of large bodies to compare, in bytes.")
    body_read_mb: int = size(500, "Megabytes to read of each of these sizes.")
    queue_counts: tuple[int, ...] = size((1, 4, 16, 64), "Numbers of queues to compare.")
    queue_rows: int = size(1_600_000, "Rows of each of these topics.")
    topic_sizes: tuple[int, ...] = size(
        (10_000, 1_000_000, 10_000_000), "Rows of the topics for reads of the newest rows."
    )
    newest_runs: int = size(15, "Runs of reading the newest rows; each takes less than a second.")
    latency_runs: int = size(3, "Latency runs of each source.")
    messages: int = size(100, "Messages of each latency run, sent one at a time.")
    memory_mb: int = size(10_000, "Megabytes to read while memory is measured.")
    cold_runs: int = size(3, "First queries, each in a new session.")


QUICK = Sizes(
    runs=2,
    rows=800_000,
    written_rows=200_000,
    staged_rows=500_000,
    commits=200,
    stream_batches=20,
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

APACHE = Sizes(rows=6_000_000, written_rows=6_000_000)
APACHE_QUICK = Sizes(runs=1, rows=400_000, written_rows=200_000)
"""The sizes of the workloads on a real Apache RocketMQ."""


class Numbers(click.ParamType[tuple[int, ...]]):
    """One or several numbers, separated by commas."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """Returns the numbers, or refuses the text."""
        try:
            numbers = tuple(sorted({int(number) for number in value.split(",")}))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers such as 10000,1000000", param, ctx)
        if numbers[0] < 1:
            self.fail(f"{value!r} has a number below 1", param, ctx)
        return numbers


def size_options(sizes: type[DataclassInstance]) -> Callable[[C], C]:
    """Adds an option for every size to a command."""

    def add(command: C) -> C:
        for entry in reversed(fields(sizes)):
            kind = Numbers() if isinstance(entry.default, tuple) else click.IntRange(min=1)
            name = f"--{entry.name.replace('_', '-')}"
            command = click.option(name, type=kind, help=entry.metadata["doc"])(command)
        return command

    return add


def chosen(preset: S, asked: dict[str, Any]) -> S:
    """Returns the preset with the sizes that were given instead."""
    return replace(preset, **{name: value for name, value in asked.items() if value is not None})
