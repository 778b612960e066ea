"""The commit log on a sound disk, and on disks that are not its own or not whole any more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.facts import Fact, GroupPut
from rmqpull_broker.core.state.ports import Kept, LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.recovery import Recovery
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.vfs import OsFileSystem
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import open_log

FACT_BATCHES: list[list[Fact]] = [[GroupPut(GroupConfig(f"g{number}"))] for number in range(6)]
RECORD_BYTES = len(record.encode_record(FACT_BATCHES[0], 0))
MARK_BYTES = len(record.encode_record([], 0))
HEADER_BYTES = record.SEGMENT_HEADER_BYTES
TWO_RECORDS = HEADER_BYTES + 2 * RECORD_BYTES
"""A segment size that is reached with the second record."""


@pytest.fixture
def three_segments(disk: MemoryFileSystem) -> MemoryFileSystem:
    """Six fact batches, two in each segment."""
    log = open_log(disk, TWO_RECORDS).log
    for group in FACT_BATCHES:
        log.append([group])
    return disk


def test_a_new_log_is_empty(disk: MemoryFileSystem) -> None:
    _, fact_batches, recovery = open_log(disk)
    assert (fact_batches, recovery, disk.files) == ([], Recovery(0), {})


def test_what_was_appended_is_recovered_in_order(disk: MemoryFileSystem) -> None:
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    log.append(FACT_BATCHES[1:4])
    log.close()
    _, fact_batches, recovery = open_log(disk.crashed())
    assert (fact_batches, recovery) == (FACT_BATCHES[:4], Recovery(4))


def test_a_write_at_once_needs_an_open_segment_and_no_sync(disk: MemoryFileSystem) -> None:
    log = CommitLog(disk, TWO_RECORDS, syncs_appends=False)
    log.recover(lambda facts, written: None)
    assert log.append_at_once(FACT_BATCHES[:1]) is None  # the segment must be created first
    log.append(FACT_BATCHES[:1])
    written = LogRange(0, HEADER_BYTES + RECORD_BYTES, TWO_RECORDS)
    assert log.append_at_once(FACT_BATCHES[1:2]) == [Kept(written, FACT_BATCHES[1])]
    assert log.append_at_once(FACT_BATCHES[2:3]) is None  # the segment is full
    log.close()
    assert open_log(disk).fact_batches == FACT_BATCHES[:2]


def test_a_log_that_syncs_writes_nothing_at_once(disk: MemoryFileSystem) -> None:
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    assert log.append_at_once(FACT_BATCHES[1:2]) is None


def test_a_reopened_log_continues(disk: MemoryFileSystem) -> None:
    for number, group in enumerate(FACT_BATCHES):
        opened = open_log(disk.crashed() if number else disk)
        assert opened.fact_batches == FACT_BATCHES[:number]
        opened.log.append([group])
        disk = opened.log._file_system  # type: ignore[assignment]
    assert open_log(disk).fact_batches == FACT_BATCHES


def test_a_group_of_many_facts_is_one_group(disk: MemoryFileSystem) -> None:
    facts = [fact for group in FACT_BATCHES for fact in group]
    open_log(disk).log.append([facts])
    assert open_log(disk).fact_batches == [facts]


def test_a_full_segment_is_followed_by_one_that_is_named_after_its_position(three_segments: MemoryFileSystem) -> None:
    assert three_segments.names() == [f"{number * TWO_RECORDS:020d}.log" for number in range(3)]
    assert {len(data) for data in three_segments.files.values()} == {TWO_RECORDS}


def test_segments_are_recovered_in_order(three_segments: MemoryFileSystem) -> None:
    log, fact_batches, recovery = open_log(three_segments.crashed(), TWO_RECORDS)
    assert (fact_batches, recovery) == (FACT_BATCHES, Recovery(6))
    log.append(FACT_BATCHES[:1])
    assert open_log(log._file_system, TWO_RECORDS).fact_batches == [*FACT_BATCHES, FACT_BATCHES[0]]


def test_each_write_says_where_it_began(disk: MemoryFileSystem) -> None:
    log = open_log(disk, 3 * RECORD_BYTES).log
    for fact_batches in (FACT_BATCHES[:1], FACT_BATCHES[1:4], FACT_BATCHES[4:]):
        log.append(fact_batches)
    first, second = (memoryview(disk.view(name)) for name in disk.names())
    frames = [record.read_frame(first, HEADER_BYTES + number * RECORD_BYTES) for number in range(4)]
    frames.append(record.read_frame(second, HEADER_BYTES))
    begun = [HEADER_BYTES, *[HEADER_BYTES + RECORD_BYTES] * 3, len(first) + HEADER_BYTES]
    assert [frame and frame.synced_until for frame in frames] == begun


def test_what_recovery_read_is_synced_before_anything_follows_it(disk: MemoryFileSystem) -> None:
    open_log(disk).log.append(FACT_BATCHES[:1])
    name = disk.names()[0]
    # The broker was killed after a write and before its sync: the system still has it, the disk may not.
    disk.append(name).write(record.encode_record(FACT_BATCHES[1], HEADER_BYTES + RECORD_BYTES))
    assert open_log(disk).fact_batches == FACT_BATCHES[:2]
    assert open_log(disk.crashed()).fact_batches == FACT_BATCHES[:2]


def test_files_of_other_names_are_left_alone(disk: MemoryFileSystem) -> None:
    strangers = {"app.log": b"hello", "00000000000000000000.log.bak": b"", "12.log": b"", "notes": b"x"}
    disk = MemoryFileSystem(strangers)
    open_log(disk).log.append(FACT_BATCHES[:1])
    assert open_log(disk).fact_batches == FACT_BATCHES[:1]
    assert strangers.items() <= {name: bytes(data) for name, data in disk.files.items()}.items()


@pytest.mark.parametrize("missing", [0, 1])
def test_a_missing_segment_is_refused_by_the_name_of_the_next(three_segments: MemoryFileSystem, missing: int) -> None:
    names = three_segments.names()
    three_segments.remove(names[missing])
    with pytest.raises(
        CorruptLog, match=f"memory:{names[missing + 1]} should begin at log position {missing * TWO_RECORDS}:"
    ):
        open_log(three_segments)


@pytest.mark.parametrize("size", [0, 8, HEADER_BYTES, HEADER_BYTES + RECORD_BYTES, TWO_RECORDS - 1])
def test_a_segment_that_lost_its_end_is_refused_when_another_follows(
    three_segments: MemoryFileSystem, size: int
) -> None:
    three_segments.truncate(three_segments.names()[1], size)
    with pytest.raises(CorruptLog, match=f"memory:({'|'.join(three_segments.names()[1:])})"):
        open_log(three_segments)


@pytest.mark.parametrize(("place", "value", "reason"), [(8, 3, "format version is 3"), (0, 0, "it begins with")])
@pytest.mark.parametrize("segment", [0, 2])
def test_a_segment_of_another_format_is_refused_by_its_name(
    three_segments: MemoryFileSystem, segment: int, place: int, value: int, reason: str
) -> None:
    name = three_segments.names()[segment]
    three_segments.files[name][place] = value
    with pytest.raises(CorruptLog, match=f"memory:{name} cannot be read: .*{re.escape(reason)}"):
        open_log(three_segments)


def test_a_new_segment_of_a_later_release_is_refused_and_not_thrown_away() -> None:
    header = bytearray(record.encode_segment_header())
    header[8] = 3
    with pytest.raises(CorruptLog, match="format version is 3"):
        open_log(MemoryFileSystem({f"{0:020d}.log": bytes(header)}))


@pytest.mark.parametrize(
    "rest", [b"", b"RMQ", bytes(8), bytes(HEADER_BYTES), b"RMQP" + bytes(12), record.encode_segment_header()]
)
def test_a_last_segment_without_a_record_holds_nothing(three_segments: MemoryFileSystem, rest: bytes) -> None:
    three_segments.create(f"{3 * TWO_RECORDS:020d}.log").write(rest)
    log, fact_batches, _ = open_log(three_segments, TWO_RECORDS)
    assert fact_batches == FACT_BATCHES
    log.append(FACT_BATCHES[:1])
    assert open_log(three_segments, TWO_RECORDS).fact_batches == [*FACT_BATCHES, FACT_BATCHES[0]]


def test_a_log_on_a_real_disk(tmp_path: Path) -> None:
    for number, group in enumerate(FACT_BATCHES):
        disk = OsFileSystem(str(tmp_path))
        log, fact_batches, recovery = open_log(disk, TWO_RECORDS)
        assert (fact_batches, recovery) == (FACT_BATCHES[:number], Recovery(number))
        log.append([group])
        log.close()
        disk.close()
    assert len(list(tmp_path.glob("*.log"))) == 3


def test_a_mark_is_left_at_a_start_and_an_orderly_stop_and_never_twice(disk: MemoryFileSystem) -> None:
    log = open_log(disk).log
    log.append(FACT_BATCHES[:2])
    for _ in range(3):
        log.leave_mark()
        log.close()
        log, fact_batches, recovery = open_log(disk)
        assert (fact_batches, recovery) == (FACT_BATCHES[:2], Recovery(2))
        assert len(disk.files[disk.names()[0]]) == HEADER_BYTES + 2 * RECORD_BYTES + MARK_BYTES


def test_a_log_that_nothing_was_appended_to_is_closed(disk: MemoryFileSystem) -> None:
    open_log(disk).log.close()
    assert disk.files == {}
