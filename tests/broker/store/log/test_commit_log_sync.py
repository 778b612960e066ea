"""A sync may take long: the log is written to meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.facts import Fact, GroupPut
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.vfs import AppendFile
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import open_log

FACT_BATCHES: list[list[Fact]] = [[GroupPut(GroupConfig(f"g{number}"))] for number in range(4)]
TWO_RECORDS = record.SEGMENT_HEADER_BYTES + 2 * len(record.encode_record(FACT_BATCHES[0], 0))
"""A segment size that is reached with the second record."""


class SlowDisk(MemoryFileSystem):
    """A disk that syncs, and then lets another thread do something before it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], object] | None = None
        self.closed: list[str] = []

    def create(self, name: str) -> AppendFile:
        super().create(name)
        return self.append(name)

    def append(self, name: str) -> AppendFile:
        return _SlowFile(self, name, super().append(name))


class _SlowFile:
    def __init__(self, disk: SlowDisk, name: str, file: AppendFile) -> None:
        self._disk, self._name, self._file = disk, name, file
        self.write = file.write

    def sync(self) -> None:
        self._file.sync()
        meanwhile, self._disk.meanwhile = self._disk.meanwhile, None
        if meanwhile is not None:
            other = Thread(target=meanwhile, daemon=True)
            other.start()
            other.join(60)
            assert not other.is_alive(), "the other thread waits for the sync"
        assert self._name not in self._disk.closed

    def close(self) -> None:
        self._disk.closed.append(self._name)


@pytest.fixture
def slow_disk() -> SlowDisk:
    return SlowDisk()


@pytest.fixture
def log(slow_disk: SlowDisk) -> CommitLog:
    """A log with one batch that is not synced."""
    log = CommitLog(slow_disk, TWO_RECORDS, syncs_appends=False)
    log.recover(lambda facts, written: None)
    log.append(FACT_BATCHES[:1])
    return log


def is_synced(log: CommitLog) -> bool:
    return log.is_synced


def test_what_is_written_during_a_sync_waits_for_the_next_one(slow_disk: SlowDisk, log: CommitLog) -> None:
    written: list[object] = []
    slow_disk.meanwhile = lambda: written.append(log.append_at_once(FACT_BATCHES[1:2]))
    log.sync()
    assert written != [None]
    assert not is_synced(log)
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:1]
    log.sync()
    assert is_synced(log)
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:2]


def test_a_segment_that_ends_during_its_sync_is_closed_after_it(slow_disk: SlowDisk, log: CommitLog) -> None:
    (first,) = slow_disk.names()
    closed: list[list[str]] = []

    def end_segment() -> None:
        for each in FACT_BATCHES[1:3]:
            log.append([each])
        closed.append(list(slow_disk.closed))

    slow_disk.meanwhile = end_segment
    log.sync()
    assert len(slow_disk.names()) == 2
    assert (closed, slow_disk.closed) == ([[]], [first])
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:2]  # a segment begins when that before is synced
    log.close()
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:3]


def test_a_log_that_is_closed_during_a_sync_closes_its_file_after_it(slow_disk: SlowDisk, log: CommitLog) -> None:
    slow_disk.meanwhile = log.close
    log.sync()
    assert slow_disk.closed == slow_disk.names()
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:1]


def test_after_a_failed_sync_the_log_goes_on(slow_disk: SlowDisk, log: CommitLog) -> None:
    slow_disk.fail_next = {"sync"}
    with pytest.raises(OSError, match="sync failed"):
        log.sync()
    assert not is_synced(log)
    log.append(FACT_BATCHES[1:2])
    log.sync()
    assert is_synced(log)
    log.close()
    assert open_log(slow_disk.crashed()).fact_batches == FACT_BATCHES[:2]
