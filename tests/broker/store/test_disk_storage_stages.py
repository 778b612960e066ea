"""A power cut at any moment of a life with stages: each commit is there wholly or not at all, and nothing is lost.

The life goes on after each cut, with the call that had no response: open stages can still be committed.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import pytest

from rmqpull_broker.core.errors import BrokerError, PreconditionFailed
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.store.disk_storage import StorageOptions
from tests.harness.memory_vfs import DoomedDisk, MemoryFileSystem, PowerCut, lose, tear
from tests.harness.staged_life import (
    Known,
    StagingBroker,
    list_all_bodies,
    list_bodies,
    live,
    make_life,
    make_rows,
)

OPTIONS = StorageOptions(
    segment_bytes=8_000, save_bytes=4_000, snapshot_bytes=6_000, free_bytes_min=0, queue_file_bytes=8_000, cache_bytes=1
)
LIVES_ON = 3
"""After every third cut the life goes on to its end."""
CUTS_MAX = 2_000
"""A commit that writes more bytes than this is cut at some of them."""
PROPERTIES = BrokerProperties(retention_bytes=20_000, file_reserved_time=2)


def open_broker(disk: MemoryFileSystem, options: StorageOptions = OPTIONS) -> StagingBroker:
    return StagingBroker(disk, options, PROPERTIES)


def test_an_undisturbed_life_shows_each_row_once_and_deletes_some() -> None:
    disk, known, steps = CountingDisk(), Known(), make_life()
    asyncio.run(live_on(disk, known))
    assert sorted(body for rows in known.rows.values() for body in rows.values()) == list_all_bodies(steps)
    assert all(known.min_offsets.values()), "retention has deleted messages of each queue"
    assert disk.snapshots > 2


class CountingDisk(MemoryFileSystem):
    """Counts the snapshots that were begun."""

    snapshots = 0

    def rename(self, name: str, new_name: str) -> None:
        self.snapshots += new_name.endswith(".snapshot")
        super().rename(name, new_name)


async def live_on(disk: MemoryFileSystem, known: Known, is_dead: Callable[[], bool] = lambda: False) -> None:
    """Starts a broker, and does the steps that are left."""
    broker = open_broker(disk)
    broker.start()
    await live(broker, make_life(), known, is_dead)


def find_wrong(disk: MemoryFileSystem, known: Known) -> list[str]:
    """Starts a broker after a cut, and returns what is wrong before it does anything."""
    steps = make_life()
    in_flight = steps[known.steps_done] if known.steps_done < len(steps) else None
    return known.find_wrong(open_broker(disk), in_flight)


async def go_on(disk: MemoryFileSystem, known: Known) -> list[str]:
    """Does the steps that are left after a cut. Returns what is wrong in the end.

    A publish that was stored without a response is not repeated: its rows would be there twice.
    """
    broker, steps = open_broker(disk), make_life()
    if known.has_new(broker):
        known.learn(broker)
    broker.start()
    await live(broker, steps, known)
    bodies = sorted(body for rows in known.rows.values() for body in rows.values())
    wanted = list_all_bodies(steps)
    wrong = [] if bodies == wanted else [f"in the end {len(bodies)} of {len(wanted)} rows were there"]
    return wrong + known.find_wrong(open_broker(disk.crashed()), None)


def cut_at(operations: int) -> tuple[DoomedDisk, Known]:
    """Lives until the power is cut before this operation."""
    disk, known = DoomedDisk(operations), Known()
    try:
        asyncio.run(live_on(disk, known, lambda: disk.is_dead))
    except (PowerCut, BrokerError):
        assert disk.is_dead
    return disk, known


def test_a_power_cut_before_any_operation_leaves_each_commit_whole(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    wrong = list[str]()
    for operations in itertools.count():
        disk, known = cut_at(operations)
        afters = disk.list_crashed((lose, bytes, tear(2 * operations), tear(2 * operations + 1)))
        found = [each for after in afters for each in find_wrong(after, known)]
        if not found and operations % LIVES_ON == 0:
            found = asyncio.run(go_on(afters[operations // LIVES_ON % len(afters)], known))
        wrong += [f"cut before operation {operations}: {each}" for each in found]
        if not disk.is_dead:
            break
    assert wrong == []
    assert operations > 50


def test_a_commit_that_is_cut_at_any_byte_is_there_wholly_or_not_at_all(caplog: pytest.LogCaptureFixture) -> None:
    """No file but the log is written. What the commit has written is kept up to each byte in turn."""
    caplog.set_level(logging.CRITICAL)
    options = replace(OPTIONS, segment_bytes=1 << 20, save_bytes=1 << 30, snapshot_bytes=1 << 30)
    disk, known, steps = MemoryFileSystem(), Known(), make_life()
    (at,) = (number for number, step in enumerate(steps) if step.name == "commit first")

    async def tell() -> None:
        broker = open_broker(disk, options)
        broker.start()
        await live(broker, steps[:at], known)
        before.update((name, len(data)) for name, data in disk.files.items())
        await live(broker, steps[: at + 1], deepcopy(known))

    before = dict[str, int]()
    asyncio.run(tell())
    (name,) = (name for name, data in disk.files.items() if len(data) > before.get(name, 0))
    wrong, whole = list[str](), bytes(disk.files[name])
    stride = 1 + (len(whole) - before[name]) // CUTS_MAX
    for size in [*range(before[name], len(whole), stride), len(whole)]:
        after = MemoryFileSystem({name: whole[:size]})
        wrong += [
            f"cut after {size - before[name]} bytes of the commit: {each}"
            for each in known.find_wrong(open_broker(after, options), steps[at])
        ]
    assert wrong == []
    assert known.has_new(open_broker(disk.crashed(), options))


def test_open_stages_do_not_stop_retention(caplog: pytest.LogCaptureFixture) -> None:
    """Once retention has reached their segments, their commit still stores all rows, or is refused and says why."""
    caplog.set_level(logging.CRITICAL)
    disk, rows = CountingDisk(), make_rows("open", 5)

    async def tell() -> None:
        broker = open_broker(disk)
        for topic in rows:
            await broker.put_topic(topic)
        await broker.stage("writer", "a", 0, rows)
        for number in range(20):
            await broker.publish("left", *make_rows(f"other {number}", 8)["left"])
        await broker.expire()
        logged = sum(len(data) for name, data in disk.files.items() if name.endswith(".log"))
        assert logged < PROPERTIES.retention_bytes + OPTIONS.segment_bytes
        refused = ""
        try:
            await broker.commit("writer", a=1)
        except PreconditionFailed as error:
            refused = str(error)
        assert not refused or "retentionBytes" in refused
        for after in (broker, open_broker(disk.crashed())):
            found = [body for of_queue in after.read().values() for body in of_queue.values() if b"open" in body]
            assert sorted(found) == ([] if refused else sorted(list_bodies(rows)))
        await broker.expire()
        await broker.publish("left", *make_rows("after", 8)["left"])
        assert open_broker(disk.crashed()).read() == broker.read()

    asyncio.run(tell())
