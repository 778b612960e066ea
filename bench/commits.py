"""Workloads of commits on rmqpull's broker, without Spark: its peer is the same broker, written or read otherwise."""

from __future__ import annotations

import asyncio
import resource
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from bench.broker_load import BODY_BYTES, publish_rate
from bench.committing import commit_often, commit_rows, publish_whole, read_rate, whole_batch_of
from bench.comparison import OURS, Comparison, Mismeasured, contain_failure, measure
from bench.results import Aim
from bench.servers import Server, broker
from bench.topics import BenchContext

T = TypeVar("T")

TOPICS = {"left": 32, "right": 32}
QUEUES = 64
WRITTEN_QUEUES = 8
ROWS_PER_CALL = 50_000
PART_ROWS, SMALL_PART_ROWS = 2_048, 128
COMMIT_ROWS = 1_000
STAGING, AT_LEAST_ONCE, SMALL_PARTS, BULK, EMPTY = (
    "the staging of these rows",
    f"{OURS}, at least once",
    f"{OURS}, parts of {SMALL_PART_ROWS} rows",
    "the same rows, written in bulk",
    "an empty broker",
)
TOPIC = "read"
ALL_LOOKS = "all looks meanwhile"
_BLOCK_BYTES = 512
_LOOP = asyncio.new_event_loop()
"""One event loop for everything, as in bench/broker_costs.py."""


def run(workload: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine and returns its result."""
    return _LOOP.run_until_complete(workload)


def commits(context: BenchContext) -> Iterator[Comparison]:
    """Measures one large commit, what commits cost, and reads of many small ones."""
    yield from _large_commit(context)
    yield from _costs(context)
    yield from _many_commits(context)


def _large_commit(context: BenchContext) -> Iterator[Comparison]:
    rows = context.sizes.staged_rows
    asked = {"rows": rows, "queues": QUEUES, "body bytes": BODY_BYTES}
    title = "commit until all can be read"
    took = Comparison("commit", title, "ms", {OURS: Aim(at_most=200)}, asked)
    seen = Comparison("commit-parts", "looks at a part of the commit", "looks", {OURS: Aim(at_most=0)}, asked)
    for _ in range(context.sizes.runs):
        with (
            contain_failure(OURS, took, seen),
            tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder,
            broker(Path(folder), dict(TOPICS)) as running,
        ):
            committed = run(commit_rows(running.endpoints, list(TOPICS), rows, ROWS_PER_CALL))
            took.add(OURS, committed.commit_s * 1000)
            took.add(STAGING, committed.staging_s * 1000)
            seen.add(OURS, committed.parts_seen)
            seen.add(ALL_LOOKS, committed.looks)
    yield took
    yield seen


def _costs(context: BenchContext) -> Iterator[Comparison]:
    rows = context.sizes.written_rows
    row_bytes = len(whole_batch_of(ROWS_PER_CALL)) / ROWS_PER_CALL
    asked = {"rows": rows, "rows of a part": PART_ROWS, "queues": WRITTEN_QUEUES, "bytes of a row": round(row_bytes)}
    title = "broker per million rows"
    spent = Comparison("commit-cost", title, "s", {OURS: Aim(at_most=1.5)}, asked)
    title = "bytes written per byte sent"
    written = Comparison("commit-bytes", title, "bytes", {OURS: Aim(at_most=1.3)}, asked)

    def stage(running: Server, part_rows: int) -> None:
        run(commit_rows(running.endpoints, ["written"], rows, part_rows * WRITTEN_QUEUES, whole_batch_of))

    def publish(running: Server) -> None:
        run(publish_whole(running.endpoints, "written", rows, PART_ROWS * WRITTEN_QUEUES))

    workloads: dict[str, Callable[[Server], None]] = {
        OURS: partial(stage, part_rows=PART_ROWS),
        AT_LEAST_ONCE: publish,
        SMALL_PARTS: partial(stage, part_rows=SMALL_PART_ROWS),
    }
    for _ in range(context.sizes.runs):
        for name, workload in workloads.items():
            with contain_failure(name, spent, written):
                cpu_s, byte_count = _measure_cost(workload)
                spent.add(name, cpu_s / rows * 1e6)
                written.add(name, byte_count / (rows * row_bytes))
    yield spent
    yield written


def _measure_cost(workload: Callable[[Server], None]) -> tuple[float, int]:
    """Returns the broker's processor time, and the bytes that it wrote to the disk until its end. Raises Mismeasured.

    The system counts the bytes of processes that have ended, so those written when the broker stops are in it.
    """
    blocks_before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock
    with (
        tempfile.TemporaryDirectory(prefix="rmqpull-bench-") as folder,
        broker(Path(folder), {"written": WRITTEN_QUEUES}) as running,
    ):
        before_s = running.cpu_s()
        workload(running)
        took_s = running.cpu_s() - before_s
    blocks = resource.getrusage(resource.RUSAGE_CHILDREN).ru_oublock - blocks_before
    if not blocks:
        raise Mismeasured(f"the system counts no writes to {tempfile.gettempdir()}: set TMPDIR to a folder on a disk")
    return took_s, blocks * _BLOCK_BYTES


def _many_commits(context: BenchContext) -> Iterator[Comparison]:
    """Writes the rows to two brokers and starts both again, so that their memory is that of their indexes."""
    count = context.sizes.commits
    rows = count * COMMIT_ROWS
    asked = {"commits": count, "rows of each": COMMIT_ROWS, "queues": QUEUES, "body bytes": BODY_BYTES}
    for slug, how, least in (("even", "spread evenly", 0.6), ("parts", "in large parts", 0.8)):
        aims = {BULK: Aim(at_least=least)}
        rate = Comparison(f"commits-read-{slug}", f"read of commits, {how}", "rows/s", aims, asked)
        title = f"resident set, commits {how}"
        held = Comparison(f"commits-memory-{slug}", title, "MB", {}, asked)
        with ExitStack() as kept, contain_failure(OURS, rate, held):
            folders = [Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="rmqpull-bench-"))) for _ in range(2)]
            with broker(folders[0], {TOPIC: QUEUES}) as often:
                in_parts = slug == "parts"
                run(commit_often(often.endpoints, TOPIC, count, COMMIT_ROWS, QUEUES, in_large_parts=in_parts))
            with broker(folders[1], {TOPIC: QUEUES}) as bulk:
                run(publish_rate(bulk.endpoints, TOPIC, rows, min(rows, ROWS_PER_CALL)))
            with broker(folders[0]) as often, broker(folders[1]) as bulk, broker(None, {TOPIC: QUEUES}) as empty:
                for name, running in ((OURS, often), (BULK, bulk), (EMPTY, empty)):
                    held.add(name, running.resident_mb())
                readers = {OURS: partial(_read, often, rows), BULK: partial(_read, bulk, rows)}
                measure(rate, readers, context.sizes.runs)
        yield rate
        yield held


def _read(running: Server, rows: int) -> float:
    return run(read_rate(running.endpoints, TOPIC, QUEUES, rows))
