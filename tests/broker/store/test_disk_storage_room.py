"""What happens when messages are too old or too many, and when the disk is full."""

from __future__ import annotations

import contextlib
import dataclasses
import errno

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.store.log.segments import CorruptLog
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import ALL, EAGER, TWELVE, StorageHarness, list_files

QUEUE = MessageQueue("orders", "broker-a", 0)


# --- retention ---------------------------------------------------------------------------------------------------


def begin_segment(broker: StorageHarness) -> None:
    """Sends a message that fills a segment, and one into the next segment."""
    broker.send(bytes(EAGER.segment_bytes))
    broker.send(b"newest")


@pytest.mark.proves("Old segments")
def test_old_segments_go_and_min_offsets_advance(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    broker.snapshot()
    for number in range(12, 40):
        broker.send(b"%d" % number * 50, now_ms=1_000 + number)
    logs = list_files(disk, ".log")
    broker.expire(1_039, RetentionLimits(10))
    kept = list_files(disk, ".log")
    assert kept == logs[-len(kept) :] != logs
    assert min(list_files(disk, ".snapshot")) > kept[0]
    (low, high), bodies = broker.state.bounds(QUEUE), broker.bodies()
    assert 12 < low <= 29
    assert high == 40
    assert bodies == [b"%d" % number * 50 for number in range(low, 40)]
    after = StorageHarness(disk.crashed(), EAGER)
    assert (after.state.bounds(QUEUE), after.bodies()) == ((low, high), bodies)


def test_the_size_of_the_log_is_bounded(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    for number in range(12, 60):
        broker.send(b"%d" % number)
        broker.expire(0, RetentionLimits(1 << 40, 9_000))
        assert sum(len(disk.files[name]) for name in list_files(disk, ".log")) <= 9_000 + EAGER.segment_bytes
    assert broker.bodies()[-1] == b"59"


@pytest.mark.parametrize("restarts", [False, True])
def test_when_all_is_old_the_newest_segment_stays(disk: MemoryFileSystem, restarts: bool) -> None:
    broker = StorageHarness(disk, EAGER)
    broker.topic()
    while len(list_files(disk, ".log")) < 3:
        broker.send(b"x" * 100)
    newest = list_files(disk, ".log")[-1:]
    if restarts:
        disk = disk.crashed()
        broker = StorageHarness(disk, EAGER)
    for _ in range(2):
        broker.expire(1 << 60, ALL)
        low, high = broker.state.bounds(QUEUE)
        assert (high - low, list_files(disk, ".log")) == (1, newest)
    assert broker.bodies() == [b"x" * 100]


def test_age_deletes_no_messages_that_only_other_facts_follow(disk: MemoryFileSystem) -> None:
    """A segment without messages begins when the one before cannot be written any more."""
    broker = StorageHarness(disk, dataclasses.replace(EAGER, segment_bytes=64))
    broker.topic()
    for number in range(3):
        broker.send(b"%d" % number)
    broker.topic("others")
    broker.expire(1 << 60, ALL)
    assert broker.bodies() == [b"2"]
    broker.send(b"3")
    broker.expire(1 << 60, ALL)
    assert broker.bodies() == [b"3"]


def test_queue_files_of_old_messages_go_with_the_snapshots_that_know_them(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    begin_segment(broker)
    broker.expire(9_000, ALL)
    broker.keep_up()
    broker.snapshot()
    assert broker.bodies() == [b"newest"]
    assert sum(len(disk.files[name]) for name in list_files(disk, ".chunks")) < 20_000
    assert len(list_files(disk, ".snapshot")) <= 2


def test_a_topic_that_is_created_again_is_not_trimmed_like_the_earlier_one(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    for number in range(12, 60):
        broker.send(b"%d" % number)
    broker.run(lambda draft: delete_topic(draft, "orders"))
    broker.topic()
    for number in range(60):
        broker.send(b"new %d" % number)
    logs = list_files(disk, ".log")
    broker.expire(0, RetentionLimits(1 << 40, sum(len(disk.files[name]) for name in logs[1:])))
    assert list_files(disk, ".log") == logs[1:]
    assert broker.bodies() == [b"new %d" % number for number in range(60)]


def test_a_log_without_its_beginning_needs_a_snapshot(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    begin_segment(broker)
    broker.expire(9_000, ALL)
    for name in list_files(disk, ".snapshot"):
        disk.remove(name)
    with pytest.raises(CorruptLog, match=r"begins at position \d+, and there is no snapshot of what was before"):
        StorageHarness(disk, EAGER)


def test_a_damaged_chunk_that_retention_cut_in_two_is_read_from_what_the_log_has_left(disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, dataclasses.replace(EAGER, save_bytes=1 << 30))
    broker.topic()
    for number in range(30):
        broker.send(b"%d" % number)
    broker.storage.store.finalize_down_to(0)
    broker.do(broker.storage._save_job())
    broker.expire(0, RetentionLimits(1 << 40, 4_000))
    low, _ = broker.state.bounds(QUEUE)
    assert 0 < low < 30
    del disk.files[list_files(disk, ".chunks")[0]][:]
    assert broker.bodies() == [b"%d" % number for number in range(low, 30)]


# --- memory ------------------------------------------------------------------------------------------------------


def test_messages_that_are_read_at_once_leave_nothing_to_save(disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, EAGER)
    broker.topic()
    for number in range(20):
        broker.send(b"%d" % number)
        assert broker.bodies()[-1] == b"%d" % number
        broker.keep_up()
    assert not broker.storage.is_behind
    assert broker.storage.store.unsaved_bytes == 0


# --- a full disk -------------------------------------------------------------------------------------------------


def fill(broker: StorageHarness) -> None:
    for _ in range(100):
        broker.send(b"x" * 100)


def test_a_full_disk_refuses_messages_serves_reads_and_recovers(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    used = sum(map(len, disk.files.values()))
    for room in range(0, 600, 50):
        disk.capacity = used + room
        with pytest.raises(OSError, match="No space left") as full:
            fill(broker)
        assert full.value.errno == errno.ENOSPC
        assert broker.bodies()[:12] == TWELVE
        used = sum(map(len, disk.files.values()))
    disk.capacity = 1 << 40
    broker.send(b"taken")
    kept = broker.bodies()
    assert kept[-1] == b"taken"
    assert StorageHarness(disk.crashed(), EAGER).bodies() == kept


class LockableDisk(MemoryFileSystem):
    """A disk that becomes read-only, as the kernel makes it after errors."""

    is_read_only = False

    def fail_if_told(self, operation: str) -> None:
        super().fail_if_told(operation)
        if self.is_read_only and operation != "read":
            raise OSError(errno.EROFS, "Read-only file system")


def test_a_disk_that_becomes_read_only_refuses_messages_serves_reads_and_recovers() -> None:
    disk = LockableDisk()
    broker = StorageHarness(disk, EAGER)
    broker.topic()
    broker.send(*TWELVE)
    broker.keep_up()
    disk.is_read_only = True
    for _ in range(3):
        with pytest.raises(OSError, match="Read-only"):
            broker.send(b"not taken")
        with contextlib.suppress(OSError):
            broker.keep_up()
        assert broker.bodies() == TWELVE
    disk.is_read_only = False
    broker.send(b"taken")
    assert broker.bodies() == [*TWELVE, b"taken"]
    assert StorageHarness(disk.crashed(), EAGER).bodies() == [*TWELVE, b"taken"]


@pytest.mark.proves("A full disk")
def test_below_a_reserve_of_free_bytes_messages_are_refused_and_retention_makes_room(disk: MemoryFileSystem) -> None:
    options = dataclasses.replace(EAGER, segment_bytes=500, queue_file_bytes=500, free_bytes_min=5_000)
    broker = StorageHarness(disk, options)
    broker.topic()
    disk.capacity = 20_000
    while (refusal := broker.storage.refusal) is None:
        broker.send(b"x" * 100)
        broker.keep_up()
    assert refusal == "less than 5000 bytes are free in memory:"
    assert disk.free_bytes() > 4_000
    segments = list_files(disk, ".log")
    broker.expire(9_000, ALL)
    assert list_files(disk, ".log")[: len(segments) - 1] == segments[1:]  # one segment in each pass
    for _ in segments:
        broker.expire(9_000, ALL)
    assert broker.storage.refusal is None
    broker.send(b"there is room again", now_ms=9_000)
    assert broker.bodies()[-1] == b"there is room again"


def test_a_directory_that_cannot_be_asked_for_its_room_takes_no_messages(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = StorageHarness(disk, dataclasses.replace(EAGER, free_bytes_min=1))

    def gone() -> int:
        raise FileNotFoundError(errno.ENOENT, "No such file or directory")

    monkeypatch.setattr(disk, "free_bytes", gone)
    assert broker.storage.refusal == "[Errno 2] No such file or directory"
