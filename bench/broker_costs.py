"""The broker by itself: what it costs to start, to send, to pull, to wait and to come back.

Prints one table: the median of interleaved runs, their lowest and highest, and, where there is one, the ratio to the
peer of the same run: a bare gRPC server that answers the same calls with what it has ready.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path

import click
from load import parked_wake_ups, publish_rate, pull_rate, send_rate
from rich.console import Console
from rich.table import Table
from servers import BARE, broker, server

NEWEST = 10_000
ALL_COLUMNS: tuple[str, ...] = ()


class Results:
    """Figures by what they measure, in the order of their first run."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], list[float]] = {}
        self._peers: dict[str, str] = {}

    def add(self, work: str, unit: str, figure: float, peer: str = "") -> None:
        """One run's figure; ``peer`` names the work that it is compared with."""
        self._figures.setdefault((work, unit), []).append(figure)
        self._peers[work] = peer

    def table(self) -> Table:
        """What is printed."""
        table = Table("work", "unit", "median", "lowest", "highest", "of its peer")
        medians = {work: statistics.median(figures) for (work, _), figures in self._figures.items()}
        for (work, unit), figures in self._figures.items():
            peer = medians.get(self._peers[work])
            ratio = f"{medians[work] / peer:.2f}" if peer else ""
            table.add_row(work, unit, *map(_figure, (medians[work], min(figures), max(figures))), ratio)
        return table


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def starts(results: Results) -> None:
    """From the command to the ready line, and what it takes then."""
    with server(*broker()) as started:
        results.add("start to ready", "s", started.ready_s)
        results.add("resident set when ready", "MB", started.resident_mb())
    with tempfile.TemporaryDirectory() as folder, server(*broker(Path(folder))) as started:
        results.add("start to ready, empty data directory", "s", started.ready_s)


def sends(results: Results, messages: int) -> None:
    """Single and batch sends of 100 bytes, kept in memory and on disk (SYNC_FLUSH)."""
    with server(*BARE) as bare:
        results.add(
            "bare gRPC, one message per call", "messages/s", asyncio.run(send_rate(bare.endpoints, "t", messages, 1))
        )
        many = asyncio.run(send_rate(bare.endpoints, "t", messages * 8, 32))
        results.add("bare gRPC, 32 messages per call", "messages/s", many)
    with tempfile.TemporaryDirectory() as folder:
        for place, data_dir in (("in memory", None), ("synced to disk", Path(folder))):
            with server(*broker(data_dir, ["t:8"])) as running:
                one = asyncio.run(send_rate(running.endpoints, "t", messages, 1))
                many = asyncio.run(send_rate(running.endpoints, "t", messages * 8, 32))
            results.add(f"single sends, {place}", "messages/s", one, "bare gRPC, one message per call")
            results.add(f"sends of 32, {place}", "messages/s", many, "bare gRPC, 32 messages per call")


def columns(results: Results, rows: int) -> None:
    """Columns in and out of one queue, on disk."""
    with server(*BARE) as bare:
        results.add("bare gRPC, columns in", "rows/s", asyncio.run(publish_rate(bare.endpoints, "t", rows, 50_000)))
        results.add("bare gRPC, columns out", "rows/s", asyncio.run(pull_rate(bare.endpoints, "t", 0, rows, ["body"])))
    with tempfile.TemporaryDirectory() as folder, server(*broker(Path(folder), ["t:1"])) as running:
        published = asyncio.run(publish_rate(running.endpoints, "t", rows, 50_000))
        body = asyncio.run(pull_rate(running.endpoints, "t", 0, rows, ["body"]))
        every = asyncio.run(pull_rate(running.endpoints, "t", 0, rows, ALL_COLUMNS))
    results.add("columnar publish, synced to disk", "rows/s", published, "bare gRPC, columns in")
    results.add("columnar pull, body", "rows/s", body, "bare gRPC, columns out")
    results.add("columnar pull, every column", "rows/s", every)


def waits(results: Results, parked: int) -> None:
    """Parked pulls: one, and one among many."""
    with server(*broker(None, ["t:1"])) as running:
        _wake_ups(results, "1 parked pull", asyncio.run(parked_wake_ups(running.endpoints, "t", 1, 300, lambda: None)))
    with server(*broker(None, ["t:1"])) as running:

        def look() -> None:
            results.add(f"resident set with {parked:,} parked pulls", "MB", running.resident_mb())

        _wake_ups(
            results, f"{parked:,} parked pulls", asyncio.run(parked_wake_ups(running.endpoints, "t", parked, 300, look))
        )


def _wake_ups(results: Results, among: str, took_ms: list[float]) -> None:
    hundredths = statistics.quantiles(took_ms, n=100)
    results.add(f"wake-up among {among}, p50", "ms", hundredths[49])
    results.add(f"wake-up among {among}, p99", "ms", hundredths[98])


def large_topics(results: Results, sizes: list[int], runs: int) -> None:
    """The newest messages of topics of several sizes, and how long a start takes with all of them on disk."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        topics = {f"t{size}": size for size in sizes}
        with server(*broker(data_dir, [f"{topic}:1" for topic in topics])) as running:
            for topic, size in topics.items():
                asyncio.run(publish_rate(running.endpoints, topic, size, min(size, 50_000)))
            for _ in range(20 * runs):
                for topic, size in topics.items():
                    rate = asyncio.run(pull_rate(running.endpoints, topic, size - NEWEST, NEWEST, ALL_COLUMNS))
                    results.add(f"newest {NEWEST:,} of {size:,}", "rows/s", rate, f"newest {NEWEST:,} of {sizes[0]:,}")
        millions = sum(sizes) / 1e6
        with server(*broker(data_dir)) as again:
            results.add(f"start with {millions:.2f} million messages, snapshot", "s", again.ready_s)
            whole = max(sizes)
            asyncio.run(pull_rate(again.endpoints, f"t{whole}", 0, whole, ALL_COLUMNS))
            results.add(f"resident set after all of {whole:,} were read", "MB", again.resident_mb())
        forget_derived(data_dir)
        with server(*broker(data_dir)) as rebuilt:
            results.add("recovery from the commit log alone", "s/million", rebuilt.ready_s / millions)


def forget_derived(data_dir: Path) -> None:
    """Leaves nothing but the commit log, as after the loss of everything that is derived from it."""
    for path in data_dir.iterdir():
        if path.suffix != ".log":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


@click.command()
@click.option("--messages", default=10_000, help="Single sends of each run.")
@click.option("--rows", default=1_000_000, help="Rows of each run in columns.")
@click.option("--parked", default=10_000, help="Pulls that wait at one time.")
@click.option("--topic-sizes", default="10000,1000000,5000000", help="Messages of the topics that are compared.")
@click.option("--runs", default=3, help="Runs of each measurement.")
def main(messages: int, rows: int, parked: int, topic_sizes: str, runs: int) -> None:
    """Measures and prints a table."""
    results = Results()
    rounds: list[Callable[[], None]] = [
        lambda: starts(results),
        lambda: sends(results, messages),
        lambda: columns(results, rows),
        lambda: waits(results, parked),
    ]
    for _ in range(runs):
        for measure in rounds:
            measure()
    large_topics(results, [int(size) for size in topic_sizes.split(",")], runs)
    Console(width=120).print(results.table())


if __name__ == "__main__":
    main()
