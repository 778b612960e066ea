"""The broker alone: the cost of starts, sends, pulls, parked pulls and restarts.

It prints a table: the median of several interleaved runs, the lowest and the highest, the aim, and the ratio to a peer,
if there is one. The peer is a bare gRPC server with prepared responses, or the smallest of several topics. Client and
server share the machine, and a figure contains both. Only lines that say so have the server's processor time alone.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console

from bench.broker_load import publish_rate, pull_rate, send_delayed, send_rate, standard_pull_rate
from bench.machine_lock import measure_alone
from bench.parked_pulls import park_over_remoting, parked_pulls, parked_wake_ups
from bench.results import Aim, Results, machine
from bench.servers import BARE, Server, broker, peer_server
from bench.sizes import Numbers
from rmqpull_broker.core.model import TopicType
from rmqpull_broker.testing import BrokerProcess

T = TypeVar("T")

NEWEST = 10_000
NEWEST_PULLS = 20
"""Pulls of the newest messages per run: one takes a few milliseconds."""
PUBLISHED_ROWS = 50_000
PUBLISHED_ROWS_OF_LARGE_TOPICS = 10_000
"""Rows per call. Topics of all sizes are filled in the same way, which determines the size of their chunks."""
SENT_FOR_RECOVERY = 16
DELAYED = 20
"""A multiple of the messages of a run."""
DELAYED_BYTES_MAX = 200
"""The aim for each delayed message: 100 bytes of body, and as much for everything else."""
_LOOP = asyncio.new_event_loop()
"""One event loop for everything: gRPC's poller keeps every loop that it has used, and complains about closed ones."""

ALL_COLUMNS: tuple[str, ...] = ()
BODY = ("body",)

STARTS_EMPTY = "start to ready, empty data directory"
BARE_SINGLE, BARE_BATCH = "bare gRPC, one message per call", "bare gRPC, 32 messages per call"
BARE_PUBLISH, BARE_PULL = "bare gRPC, columns in", "bare gRPC, columns out"


def run(workload: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine and returns its result."""
    return _LOOP.run_until_complete(workload)


def starts(results: Results) -> None:
    """Measures the time from the command to the ready line, and the memory then."""
    with broker() as started:
        results.add("start to ready", "s", started.ready_s, aim=Aim(at_most=0.7))
        results.add("resident set when ready", "MB", started.resident_mb(), aim=Aim(at_most=100))
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as started:
        results.add(STARTS_EMPTY, "s", started.ready_s)


def sends(results: Results, messages: int) -> None:
    """Measures sends of 100 bytes, single and in batches, in memory and on disk (SYNC_FLUSH), and standard pulls of
    them.
    """
    with peer_server(BARE) as bare:
        one, many = _send_rates(bare, messages)
        results.add(BARE_SINGLE, "messages/s", one)
        results.add(BARE_BATCH, "messages/s", many)
    with tempfile.TemporaryDirectory() as folder:
        for where, data_dir in (("in memory", None), ("synced to disk", Path(folder))):
            with broker(data_dir, {"t": 8}) as running:
                one, many = _send_rates(running, messages)
                pulled = run(standard_pull_rate(running.endpoints, "t", 8, 32))
            results.add(f"single sends, {where}", "messages/s", one, BARE_SINGLE)
            results.add(f"sends of 32, {where}", "messages/s", many, BARE_BATCH)
            results.add(f"standard pulls of 32, {where}", "messages/s", pulled)


def _send_rates(running: Server, messages: int) -> tuple[float, float]:
    one = run(send_rate(running.endpoints, "t", messages, 1))
    return one, run(send_rate(running.endpoints, "t", messages * 8, 32))


def columns(results: Results, rows: int) -> None:
    """Measures columns into and out of one queue, on disk."""
    with peer_server(BARE) as bare:
        published = run(publish_rate(bare.endpoints, "t", rows, PUBLISHED_ROWS))
        results.add(BARE_PUBLISH, "rows/s", published)
        results.add(BARE_PULL, "rows/s", run(pull_rate(bare.endpoints, "t", 0, rows, BODY)))
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder), {"t": 1}) as running:
        published, cpu_s = _columnar(running, rows, publish_rate(running.endpoints, "t", rows, PUBLISHED_ROWS))
        results.add("columnar publish, synced to disk", "rows/s", published, BARE_PUBLISH)
        results.add("columnar publish, server's processor time", "s/million", cpu_s)
        aim = Aim(at_least=1_500_000)
        for names, selection in ((BODY, "body"), (ALL_COLUMNS, "every column")):
            pulled, cpu_s = _columnar(running, rows, pull_rate(running.endpoints, "t", 0, rows, names))
            results.add(f"columnar pull, {selection}", "rows/s", pulled, BARE_PULL * (names == BODY), aim)
            results.add(f"columnar pull, {selection}, server's processor time", "s/million", cpu_s)


def _columnar(running: Server, rows: int, workload: Coroutine[Any, Any, float]) -> tuple[float, float]:
    """Returns the rate of a workload, and the server's processor time per million rows."""
    before_s = running.cpu_s()
    rate = run(workload)
    return rate, (running.cpu_s() - before_s) / rows * 1e6


def waits(results: Results, parked: int, wake_ups: int) -> None:
    """Measures parked pulls: one alone, and one among many."""
    with broker(None, {"t": 1}) as running:
        _wake_ups(results, "1", run(parked_wake_ups(running.endpoints, "t", 1, wake_ups, lambda: None)))
    with broker(None, {"t": 1}) as running:

        def look() -> None:
            workload = f"resident set with {parked:,} parked pulls"
            results.add(workload, "MB", running.resident_mb(), aim=Aim(at_most=300))

        took_ms = run(parked_wake_ups(running.endpoints, "t", parked, wake_ups, look))
        _wake_ups(results, f"{parked:,}", took_ms)
    _memory_of_parked(results, parked)


def _memory_of_parked(results: Results, parked: int) -> None:
    """Measures what parked pulls add to the resident set, for each protocol."""
    over_grpc, over_remoting = (f"memory of {parked:,} parked pulls, {name}" for name in ("gRPC", "remoting"))
    sizes_mb: list[float] = []
    with broker(None, {"t": 1}, remoting="127.0.0.1:0") as running:

        def look() -> None:
            sizes_mb.append(running.resident_mb())

        look()
        run(park_over_remoting(running.remoting_address, "t", parked, look))
    with broker(None, {"t": 1}, remoting="127.0.0.1:0") as running:
        look()
        run(parked_pulls(running.endpoints, "t", parked, look))
    idle_mb, remoting_mb, idle_again_mb, grpc_mb = sizes_mb
    results.add(over_grpc, "MB", grpc_mb - idle_again_mb)
    results.add(over_remoting, "MB", remoting_mb - idle_mb, over_grpc, Aim(at_most=1, of_peer=True))


def stops(results: Results, parked: int) -> None:
    """Measures the time from SIGTERM to exit while pulls are parked. Each of them gets a response or UNAVAILABLE."""
    with BrokerProcess({"t": 1}) as process:

        def stop() -> None:
            begun = time.perf_counter()
            process.stop()
            workload = f"SIGTERM to exit, {parked:,} parked"
            results.add(workload, "s", time.perf_counter() - begun, aim=Aim(at_most=2))

        run(parked_pulls(process.endpoints, "t", parked, stop))


def _wake_ups(results: Results, parked: str, took_ms: list[float]) -> None:
    """Adds times that include the send and the client's own time."""
    in_order = sorted(took_ms)
    results.add(f"send to wake-up, {parked} parked, p50", "ms", in_order[len(in_order) // 2])
    results.add(
        f"send to wake-up, {parked} parked, p99", "ms", in_order[len(in_order) * 99 // 100], aim=Aim(at_most=20)
    )


def delays(results: Results, messages: int) -> None:
    """Measures the memory of delayed messages, compared with a broker that has served ordinary sends."""
    with tempfile.TemporaryDirectory() as folder:
        for where, data_dir in (("in memory", None), ("on disk", Path(folder))):
            with broker(data_dir, {"t": 1, "later": (1, TopicType.DELAY)}) as running:
                run(send_rate(running.endpoints, "t", max(messages // 10, 1), 32))
                before_mb = running.resident_mb()
                run(send_delayed(running.endpoints, "later", messages, 32))
                took_mb = running.resident_mb() - before_mb
                workload = f"resident set of {messages:,} delayed messages, {where}"
                results.add(workload, "MB", took_mb, aim=Aim(at_most=messages * DELAYED_BYTES_MAX / 1e6))


def large_topics(results: Results, sizes: Sequence[int], runs: int) -> None:
    """Measures reads of the newest messages of topics of several sizes, and a start with all of them on disk."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        topics = {f"t{size}": size for size in sizes}
        with broker(data_dir, dict.fromkeys(topics, 1)) as running:
            for topic, size in topics.items():
                run(publish_rate(running.endpoints, topic, size, PUBLISHED_ROWS_OF_LARGE_TOPICS))
            for _ in range(NEWEST_PULLS * runs):
                for size in sizes:
                    _newest(results, running, size, sizes[0])
        for _ in range(runs):
            with broker(data_dir) as again:
                results.add(f"start with {sum(sizes):,} messages and a snapshot", "s", again.ready_s)
                whole = max(sizes)
                run(pull_rate(again.endpoints, f"t{whole}", 0, whole, ALL_COLUMNS))
                workload = f"resident set after all of {whole:,} were read"
                results.add(workload, "MB", again.resident_mb(), aim=Aim(at_most=500))
        _recoveries(results, "published in columns", data_dir, sum(sizes), runs)


def _newest(results: Results, running: Server, size: int, smallest: int) -> None:
    from_offset = max(size - NEWEST, 0)
    rate = run(pull_rate(running.endpoints, f"t{size}", from_offset, size - from_offset, ALL_COLUMNS))
    aim = None if size == smallest else Aim(0.9, 1.1, of_peer=True)
    peer = "" if size == smallest else f"newest {NEWEST:,} of {smallest:,}"
    results.add(f"newest {NEWEST:,} of {size:,}", "rows/s", rate, peer, aim)


def sent_messages(results: Results, messages: int, runs: int) -> None:
    """Measures a start with messages that came by SendMessage."""
    with tempfile.TemporaryDirectory() as folder:
        data_dir = Path(folder)
        with broker(data_dir, {"t": 8}) as running:
            run(send_rate(running.endpoints, "t", messages, 32))
        _recoveries(results, "sent", data_dir, messages, runs)


def _recoveries(results: Results, how: str, data_dir: Path, messages: int, runs: int) -> None:
    """Measures starts from the commit log alone, without the time of an empty start."""
    for _ in range(runs):
        forget_derived(data_dir)
        with broker(data_dir) as rebuilt:
            took_s = rebuilt.ready_s - results.median(STARTS_EMPTY)
            workload = f"recovery from the commit log alone, {how}"
            results.add(workload, "s/million", took_s / messages * 1e6, aim=Aim(at_most=5))


def forget_derived(data_dir: Path) -> None:
    """Deletes everything but the commit log, as if all derived files were lost."""
    for path in data_dir.iterdir():
        if path.suffix != ".log":
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def measured(messages: int, rows: int, parked: int, wake_ups: int, topic_sizes: Sequence[int], runs: int) -> Results:
    """Runs everything."""
    results = Results()
    rounds: list[Callable[[], None]] = [
        lambda: starts(results),
        lambda: sends(results, messages),
        lambda: columns(results, rows),
        lambda: waits(results, parked, wake_ups),
        lambda: stops(results, parked),
    ]
    for _ in range(runs):
        for measure in rounds:
            measure()
    large_topics(results, topic_sizes, runs)
    sent_messages(results, messages * SENT_FOR_RECOVERY, runs)
    delays(results, messages * DELAYED)
    return results


COUNT = click.IntRange(min=1)


@click.command()
@click.option("--messages", type=COUNT, default=10_000, help="Single sends per run.")
@click.option("--rows", type=COUNT, default=1_000_000, help="Rows per run, sent in columns.")
@click.option("--parked", type=COUNT, default=10_000, help="Parked pulls at a time.")
@click.option("--wake-ups", type=COUNT, default=300, help="Parked pulls to wake per run, one at a time.")
@click.option(
    "--topic-sizes",
    type=Numbers(),
    default="10000,1000000,5000000",
    help="Sizes of the topics to compare, in messages.",
)
@click.option("--runs", type=COUNT, default=3, help="Runs of each measurement.")
@click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Also write all figures to this file."
)
def main(json_file: Path | None, **size: Any) -> None:
    """Measures and prints a table."""
    measure_alone()
    results = measured(**size)
    console = Console(width=150)
    console.print(results.table())
    console.print(", ".join(f"{name} {value}" for name, value in machine().items()))
    if json_file is not None:
        document = {"machine": machine(), "asked": size, "results": results.as_json()}
        json_file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
