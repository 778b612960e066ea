"""The jobs beside the writes: one at a time, back-pressure, late syncs, retention, and an orderly end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from rmqpull_broker.core.errors import ServiceNotAvailable
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, QueuesTrimmed, ResetsAnswered, RowsStored, TopicDeleted, TopicPut
from rmqpull_broker.core.state.ports import Cut, Job, Kept, RetentionLimits, Snapshotted
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.timed_work import CLEANING_INTERVAL_MS, Cleaner
from rmqpull_broker.store.memory_storage import MemoryStorage

QUEUE = MessageQueue("orders", "broker-a", 0)
LONG_MS = (1 << 31) - 1


class GatedJob:
    """A job that waits for its gate, and can fail."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.gate = threading.Event()
        self._is_finished = False
        self._failure = failure

    def run(self) -> None:
        assert self.gate.wait(60)
        if self._failure is not None:
            raise self._failure

    def finish(self) -> None:
        self._is_finished = True

    def is_finished(self) -> bool:
        return self._is_finished


class BusyStorage(MemoryStorage):
    """A storage with the given jobs, which records what happens."""

    is_behind = False

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[GatedJob] = []
        self.removals: list[GatedJob] = []
        self.min_offsets: list[tuple[MessageQueue, int]] | None = None
        self.limits: list[tuple[RetentionLimits, int]] = []
        self.events: list[str] = []
        self.syncs = threading.Semaphore(0)
        self.is_synced = True
        self.sync_failures = 0
        self.is_full = False

    def append_at_once(self, groups: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        return None  # as a disk

    def append(self, groups: Sequence[Sequence[Fact]]) -> list[Kept]:
        self.events.append("append")
        if self.is_full:
            raise OSError("No space left on device")
        return super().append(groups)

    def due_job(self, state: Snapshotted) -> Job | None:
        return self.jobs.pop(0) if self.jobs else None

    def last_job(self, state: Snapshotted) -> Job | None:
        self.events.append("last job")
        return None

    def removal_job(self, state: Snapshotted, cut: Cut) -> Job | None:
        return self.removals.pop(0) if self.removals else None

    def expire(self, limits: RetentionLimits, now_ms: int) -> Cut | None:
        self.limits.append((limits, now_ms))
        return None if self.min_offsets is None else Cut(0, self.min_offsets)

    def sync(self) -> None:
        if self.sync_failures:
            self.sync_failures -= 1
            raise OSError("the disk is out of order")
        self.is_synced = True
        self.syncs.release()

    def leave_mark(self) -> None:
        self.events.append("mark")

    def close(self) -> None:
        self.events.append("close")


class Harness:
    """A group commit with a busy storage."""

    def __init__(self, properties: BrokerProperties | None = None) -> None:
        self.storage = BusyStorage()
        self.state = BrokerState(self.storage.store, ["broker-a"], properties)
        self.kept: list[Fact] = []
        self.writes: list[tuple[int, str | None]] = []
        self.group_commit = GroupCommit(self.state, self.storage, self.kept.extend, self._written)

    def _written(self, command_count: int, seconds: float, error: OSError | None) -> None:
        self.writes.append((command_count, None if error is None else str(error)))

    async def send(self) -> int:
        def command(draft: Draft) -> int:
            offset = draft.find_next_offset(QUEUE)
            draft.add(RowsStored(QUEUE, (StoredMessage(Message(b"x", "m"), offset, 0, "here"),)))
            return offset

        return await self.group_commit.execute(command)


async def run_pending_tasks() -> None:
    """Runs everything that can run now."""
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Runs everything until a thread has done its part."""
    loop = asyncio.get_running_loop()
    give_up = loop.time() + 60
    for _ in iter(condition, True):
        assert loop.time() < give_up
        await asyncio.sleep(0)


def run_story(story: Callable[[Harness], Awaitable[None]], properties: BrokerProperties | None = None) -> Harness:
    """Runs a story, and closes the group commit afterwards."""

    async def whole() -> Harness:
        harness = Harness(properties)
        await story(harness)
        await harness.group_commit.close()
        return harness

    return asyncio.run(whole())


def test_writes_continue_during_a_job_and_the_next_job_waits_for_it() -> None:
    async def story(harness: Harness) -> None:
        first, second = GatedJob(), GatedJob()
        harness.storage.jobs = [first, second]
        assert [await harness.send(), await harness.send(), await harness.send()] == [0, 1, 2]
        assert harness.storage.jobs == [second]
        assert not first.is_finished()
        first.gate.set()
        await until(lambda: first.is_finished())
        await harness.send()
        await run_pending_tasks()
        assert harness.storage.jobs == []
        second.gate.set()

    run_story(story)


def test_after_a_job_the_next_one_that_is_due_starts_without_a_write() -> None:
    async def story(harness: Harness) -> None:
        jobs = [GatedJob(), GatedJob(), GatedJob(OSError("no space left on device")), GatedJob()]
        for job in jobs:
            job.gate.set()
        harness.storage.jobs = [*jobs]
        await harness.send()
        await until(lambda: jobs[2].is_finished())
        await run_pending_tasks()
        assert harness.storage.jobs == jobs[3:], "after a failure, the next write tries again"

    run_story(story)


def test_a_job_that_someone_waits_for_comes_before_those_that_are_due() -> None:
    async def story(harness: Harness) -> None:
        first, second, awaited = GatedJob(), GatedJob(), GatedJob()
        harness.storage.jobs = [first, second]
        await harness.send()
        waiting = asyncio.ensure_future(harness.group_commit.upkeep.run(lambda: awaited))
        await run_pending_tasks()
        first.gate.set()
        awaited.gate.set()
        await until(first.is_finished)
        await harness.send()
        await asyncio.wait_for(waiting, 60)
        assert (awaited.is_finished(), second.is_finished()) == (True, False)
        second.gate.set()
        await until(second.is_finished)

    run_story(story)


def test_writes_wait_for_the_job_when_the_storage_is_behind() -> None:
    async def story(harness: Harness) -> None:
        job = GatedJob()
        harness.storage.jobs, harness.storage.is_behind = [job], True
        await harness.send()
        waiting = asyncio.ensure_future(harness.send())
        await run_pending_tasks()
        assert harness.storage.events == ["append"]
        job.gate.set()
        assert await waiting == 1
        assert job.is_finished()

    run_story(story)


def test_a_failed_job_is_finished_and_blocks_nobody(caplog: pytest.LogCaptureFixture) -> None:
    async def story(harness: Harness) -> None:
        job = GatedJob(OSError("no space left on device"))
        job.gate.set()
        harness.storage.jobs, harness.storage.is_behind = [job], True
        assert [await harness.send(), await harness.send()] == [0, 1]
        assert job.is_finished()

    run_story(story)
    assert "cannot save the storage's data: no space left" in caplog.text


def test_a_job_with_a_bug_does_not_stop_the_writer(caplog: pytest.LogCaptureFixture) -> None:
    async def story(harness: Harness) -> None:
        job = GatedJob(RuntimeError("a bug"))
        job.gate.set()
        harness.storage.jobs, harness.storage.is_behind = [job], True
        first = asyncio.ensure_future(harness.send())
        await asyncio.sleep(0)  # the others wait for the first write
        sent = asyncio.gather(first, harness.send(), harness.send())
        assert [*await asyncio.wait_for(sent, 60)] == [0, 1, 2]
        assert job.is_finished()

    run_story(story)
    assert "the job GatedJob failed" in caplog.text


def test_on_a_full_disk_messages_are_refused_and_commands_that_make_room_are_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(harness: Harness) -> None:
        harness.storage.refusal, harness.storage.min_offsets = "nothing is free", []
        refused, _, _ = await asyncio.gather(
            harness.send(),
            harness.group_commit.expire(7),
            harness.group_commit.execute(lambda draft: draft.add(ResetsAnswered("readers", (QUEUE,)))),
            return_exceptions=True,
        )
        assert isinstance(refused, ServiceNotAvailable)
        assert "service not available now" in str(refused)
        assert "disk is full [nothing is free]" in str(refused)
        assert harness.kept == [QueuesTrimmed(()), ResetsAnswered("readers", (QUEUE,))]
        assert harness.writes == [(2, None), (1, "nothing is free")]
        harness.storage.refusal = None
        assert await harness.send() == 0

    run_story(story)
    assert [record.getMessage() for record in caplog.records] == [
        "the commit log cannot store 1 writes: nothing is free"
    ]


def test_unsynced_writes_are_synced_once_within_the_interval() -> None:
    async def story(harness: Harness) -> None:
        harness.storage.is_synced = False
        await harness.send()
        await harness.send()
        await until(lambda: harness.storage.syncs.acquire(blocking=False))
        assert not harness.storage.syncs.acquire(blocking=False)

    run_story(story, BrokerProperties(flush_interval_commit_log=1))


def test_a_failed_sync_is_retried_without_another_write(caplog: pytest.LogCaptureFixture) -> None:
    async def story(harness: Harness) -> None:
        harness.storage.is_synced = False
        harness.storage.sync_failures = 2
        await harness.send()
        await until(lambda: harness.storage.syncs.acquire(blocking=False))

    run_story(story, BrokerProperties(flush_interval_commit_log=1))
    assert [record.getMessage() for record in caplog.records] == 2 * [
        "cannot sync the commit log; a power cut may lose acknowledged messages: the disk is out of order"
    ]


def test_closing_does_not_wait_for_a_sync_that_is_not_due() -> None:
    async def story(harness: Harness) -> None:
        harness.storage.is_synced = False
        await harness.send()

    harness = run_story(story, BrokerProperties(flush_interval_commit_log=LONG_MS))
    assert not harness.storage.syncs.acquire(blocking=False)


def test_closing_waits_for_the_job_writes_a_mark_and_takes_a_last_snapshot() -> None:
    async def story(harness: Harness) -> None:
        job = GatedJob()
        harness.storage.jobs = [job]
        await harness.send()
        closing = asyncio.ensure_future(harness.group_commit.close())
        await run_pending_tasks()
        assert harness.storage.events == ["append"]
        job.gate.set()
        await closing
        assert job.is_finished()

    assert run_story(story).storage.events == ["append", "mark", "last job", "close"]


# --- retention ---------------------------------------------------------------------------------------------------


def test_min_offsets_are_stored_before_segments_are_deleted() -> None:
    async def story(harness: Harness) -> None:
        for _ in range(3):
            await harness.send()
        removal = GatedJob()
        harness.storage.removals, harness.storage.min_offsets = [removal], [(QUEUE, 2)]
        expiring = asyncio.ensure_future(harness.group_commit.expire(7))
        await run_pending_tasks()
        await until(lambda: harness.state.bounds(QUEUE).min_offset > 0)
        assert harness.kept[-1] == QueuesTrimmed(((QUEUE, 2),))
        assert not removal.is_finished()
        removal.gate.set()
        await expiring
        assert removal.is_finished()
        assert harness.storage.limits == [(RetentionLimits(72 * 3_600_000), 7)]

    run_story(story)


def test_queues_that_were_created_again_in_the_same_write_are_not_trimmed() -> None:
    async def story(harness: Harness) -> None:
        await harness.group_commit.execute(lambda draft: draft.add(TopicPut(TopicConfig("orders", 1, 1))))
        await harness.send()
        harness.storage.min_offsets = [(QUEUE, 1)]
        harness.kept.clear()

        def begin_anew(draft: Draft) -> None:
            draft.add(TopicDeleted("orders"))
            draft.add(TopicPut(TopicConfig("orders", 1, 1)))

        await asyncio.gather(harness.group_commit.execute(begin_anew), harness.send(), harness.group_commit.expire(7))
        assert harness.kept[-1] == QueuesTrimmed(())
        assert harness.state.bounds(QUEUE) == (0, 1)

    run_story(story)


def test_when_nothing_is_old_nothing_is_written() -> None:
    async def story(harness: Harness) -> None:
        await harness.group_commit.expire(7)
        assert harness.storage.events == []

    run_story(story)


def test_retention_runs_every_ten_seconds() -> None:
    async def story(harness: Harness) -> None:
        clock = ManualClock(1_000)
        cleaner = Cleaner(harness.group_commit, clock)
        cleaner.start()
        for number in range(1, 4):
            clock.advance(CLEANING_INTERVAL_MS)
            await until(lambda number=number: len(harness.storage.limits) == number)  # type: ignore[misc]
            await run_pending_tasks()
        await cleaner.stop()
        clock.advance(CLEANING_INTERVAL_MS)
        await run_pending_tasks()
        assert [now_ms for _, now_ms in harness.storage.limits] == [11_000, 21_000, 31_000]

    run_story(story)


def test_a_full_disk_does_not_end_the_passes_of_retention(caplog: pytest.LogCaptureFixture) -> None:
    async def story(harness: Harness) -> None:
        clock = ManualClock()
        cleaner = Cleaner(harness.group_commit, clock)
        cleaner.start()
        harness.storage.min_offsets, harness.storage.is_full = [], True
        clock.advance(CLEANING_INTERVAL_MS)
        await until(lambda: "cannot delete old messages" in caplog.text)
        clock.advance(CLEANING_INTERVAL_MS)
        await until(lambda: len(harness.storage.limits) == 2)
        await cleaner.stop()

    run_story(story)
