"""What a commit log keeps when the disk fails, the process is killed or the power goes."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.state.facts import Fact, GroupPut
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.recovery import Recovery
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.vfs import AppendFile
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import open_log

FACT_BATCHES: list[list[Fact]] = [
    [GroupPut(GroupConfig(f"g{number}")), GroupPut(GroupConfig("of two facts"))] for number in range(6)
]
SIZE = len(record.encode_record(FACT_BATCHES[0], 0))
MARK = len(record.encode_record([], 0))
HEADER_BYTES = record.SEGMENT_HEADER_BYTES
NAME = f"{0:020d}.log"


def begin(number: int) -> int:
    """Where a group's record begins, when all are in one segment."""
    return HEADER_BYTES + number * SIZE


@pytest.fixture
def disk() -> MemoryFileSystem:
    """Batch 0 in a write of its own, then batches 1 and 2 in one write, then 3 alone."""
    disk = MemoryFileSystem()
    log = open_log(disk).log
    for groups in (FACT_BATCHES[:1], FACT_BATCHES[1:3], FACT_BATCHES[3:4]):
        log.append(groups)
    return disk


def test_a_log_cut_at_any_byte_keeps_every_whole_group_and_tells_the_rest(disk: MemoryFileSystem) -> None:
    data = bytes(disk.files[NAME])
    for size in range(len(data)):
        cut = MemoryFileSystem({NAME: data[:size]})
        log, groups, recovery = open_log(cut)
        whole = max(0, size - HEADER_BYTES) // SIZE
        rest = size - begin(whole) if size >= HEADER_BYTES else size
        assert groups == FACT_BATCHES[:whole]
        assert (recovery.fact_batches, recovery.dropped_bytes) == (whole, rest)
        assert recovery.dropped_from == f"memory:{NAME}" or not rest
        log.append(FACT_BATCHES[5:])
        assert open_log(cut.crashed()).fact_batches == [*FACT_BATCHES[:whole], FACT_BATCHES[5]]


@pytest.mark.proves("Damage before the last write")
def test_every_flipped_bit_before_the_last_write_is_refused_with_file_and_offset(disk: MemoryFileSystem) -> None:
    data = disk.files[NAME]
    for bit in range(8 * HEADER_BYTES, 8 * begin(3)):
        data[bit // 8] ^= 1 << bit % 8
        damaged = begin((bit // 8 - HEADER_BYTES) // SIZE)
        with pytest.raises(CorruptLog, match=f"memory:{NAME} is damaged at offset {damaged}, and acknowledged"):
            open_log(disk)
        data[bit // 8] ^= 1 << bit % 8
    assert open_log(disk).fact_batches == FACT_BATCHES[:4]


def test_a_refused_log_is_left_as_it_is(disk: MemoryFileSystem) -> None:
    disk.files[NAME][begin(1)] ^= 1
    before = bytes(disk.files[NAME])
    with pytest.raises(CorruptLog):
        open_log(disk)
    assert disk.files[NAME] == before


@pytest.mark.parametrize("damaged", [0, 1, 2])
def test_a_torn_write_is_cut_whole_although_later_records_of_it_are_intact(damaged: int) -> None:
    disk = MemoryFileSystem()
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    log.append(FACT_BATCHES[1:4])
    start = begin(1 + damaged)
    disk.files[NAME][start : start + 40] = bytes(40)
    _, groups, recovery = open_log(disk)
    assert groups == FACT_BATCHES[: 1 + damaged]
    assert recovery == Recovery(1 + damaged, (3 - damaged) * SIZE, f"memory:{NAME}")
    assert len(disk.files[NAME]) == start + MARK


def test_a_torn_write_is_cut_also_when_it_holds_a_record_of_another_log(disk: MemoryFileSystem) -> None:
    end = len(disk.files[NAME])
    message = record.encode_record(FACT_BATCHES[0], synced_until=1 << 40)
    disk.files[NAME] += record.RECORD_MAGIC + bytes(20) + message + b"more"
    _, groups, recovery = open_log(disk)
    assert (groups, recovery.dropped_bytes) == (FACT_BATCHES[:4], 24 + len(message) + 4)
    assert len(disk.files[NAME]) == end + MARK


def test_a_hole_at_the_end_is_cut(disk: MemoryFileSystem) -> None:
    disk.append(NAME).write(bytes(4096))
    assert open_log(disk).recovery == Recovery(4, 4096, f"memory:{NAME}")


def test_damage_is_found_in_any_segment() -> None:
    disk = MemoryFileSystem()
    log = open_log(disk, HEADER_BYTES + SIZE).log
    for group in FACT_BATCHES[:3]:
        log.append([group])
    names = disk.names()
    for number, refused in enumerate((True, True, False)):
        damaged = disk.crashed()
        damaged.files[names[number]][-1] ^= 1
        if refused:
            with pytest.raises(CorruptLog, match=f"memory:{names[number]} is damaged at offset {HEADER_BYTES},"):
                open_log(damaged)
        else:
            assert open_log(damaged).recovery == Recovery(2, SIZE, f"memory:{names[number]}")


# --- failing disks -----------------------------------------------------------------------------------------------


class FullDisk(MemoryFileSystem):
    """Writes half of the data when a write must fail."""

    def create(self, name: str) -> AppendFile:
        super().create(name)
        return self.append(name)

    def append(self, name: str) -> AppendFile:
        return _HalfFile(self, name, super().append(name))


class _HalfFile:
    def __init__(self, disk: FullDisk, name: str, file: AppendFile) -> None:
        self._disk, self._name, self._file = disk, name, file
        self.sync, self.close = file.sync, file.close

    def write(self, data: bytes | memoryview) -> None:
        try:
            self._file.write(data)
        except OSError:
            self._disk.files[self._name] += data[: len(data) // 2]
            raise


@pytest.mark.parametrize("kind", [MemoryFileSystem, FullDisk])
def test_a_failed_write_keeps_the_log_usable_without_its_groups(kind: type[MemoryFileSystem]) -> None:
    disk = kind()
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    disk.fail_next = {"write"}
    with pytest.raises(OSError, match="write failed"):
        log.append(FACT_BATCHES[1:4])
    log.append(FACT_BATCHES[4:])
    assert open_log(disk.crashed()).fact_batches == [FACT_BATCHES[0], *FACT_BATCHES[4:]]


@pytest.mark.parametrize("failing", [{"write", "truncate"}, {"sync"}, {"sync", "truncate"}])
def test_a_failed_write_that_cannot_be_cut_off_stays_after_the_end_of_its_segment(failing: set[str]) -> None:
    disk = FullDisk()
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    disk.fail_next = set(failing)
    with pytest.raises(OSError, match="failed"):
        log.append(FACT_BATCHES[1:2])
    log.append(FACT_BATCHES[2:3])
    assert disk.names() == [NAME, f"{begin(1):020d}.log"]
    for after in (disk, disk.crashed()):
        log, groups, _ = open_log(after)
        assert groups == [FACT_BATCHES[0], FACT_BATCHES[2]]
        log.append(FACT_BATCHES[3:4])
        assert open_log(after.crashed()).fact_batches == [FACT_BATCHES[0], FACT_BATCHES[2], FACT_BATCHES[3]]


def test_an_orderly_stop_leaves_out_a_failed_write_that_could_not_be_cut_off() -> None:
    disk = MemoryFileSystem()
    open_log(disk).log.append(FACT_BATCHES[:1])
    log = open_log(disk).log
    disk.fail_next |= {"sync", "truncate"}
    with pytest.raises(OSError, match="sync failed"):
        log.append(FACT_BATCHES[1:2])
    log.leave_mark()
    log.close()
    assert open_log(disk).fact_batches == FACT_BATCHES[:1]


def test_a_failed_sync_is_no_end_while_the_disk_stays_out_of_order() -> None:
    disk = MemoryFileSystem()
    log = open_log(disk).log
    log.append(FACT_BATCHES[:1])
    for failing in ({"sync"}, {"create"}, {"sync"}, {"write"}, {"write", "remove"}):
        disk.fail_next = failing
        with pytest.raises(OSError, match="failed"):
            log.append(FACT_BATCHES[1:2])
    log.append(FACT_BATCHES[2:3])
    assert open_log(disk.crashed()).fact_batches == [FACT_BATCHES[0], FACT_BATCHES[2]]


def test_with_a_mark_damage_to_the_last_write_is_not_taken_for_an_interrupted_one(disk: MemoryFileSystem) -> None:
    open_log(disk)  # a start leaves a mark
    for place in range(begin(3), begin(4)):
        disk.files[NAME][place] ^= 1
        with pytest.raises(CorruptLog, match=f"memory:{NAME} is damaged at offset {begin(3)}, and acknowledged"):
            open_log(disk)
        disk.files[NAME][place] ^= 1
    disk.files[NAME][begin(4)] ^= 1
    assert open_log(disk).recovery == Recovery(4, MARK, f"memory:{NAME}")


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_a_segment_that_cannot_be_begun_is_begun_by_the_next_append(operation: str, kept: int) -> None:
    disk = FullDisk()
    log = open_log(disk, HEADER_BYTES + SIZE).log
    for group in FACT_BATCHES[:kept]:
        log.append([group])
    before = disk.names()
    disk.fail_next = {operation}
    with pytest.raises(OSError, match=f"{operation} failed"):
        log.append(FACT_BATCHES[4:5])
    assert disk.names() == before
    log.append(FACT_BATCHES[5:])
    assert open_log(disk.crashed(), HEADER_BYTES + SIZE).fact_batches == [*FACT_BATCHES[:kept], FACT_BATCHES[5]]


# --- crashes -----------------------------------------------------------------------------------------------------


class PowerCut(Exception):
    """The process was killed."""


class DoomedDisk(MemoryFileSystem):
    """Kills the process after ``operations_left`` operations."""

    def __init__(self, operations_left: int) -> None:
        super().__init__()
        self.operations_left = operations_left

    def fail_if_told(self, operation: str) -> None:
        if self.operations_left == 0:
            raise PowerCut
        self.operations_left -= 1

    def create(self, name: str) -> AppendFile:
        self.fail_if_told("create")
        return super().create(name)

    def remains(self) -> list[MemoryFileSystem]:
        """Returns every disk that the crash may leave: with any first part of the unsynced bytes."""
        name = max(self.files, default=NAME)
        lengths = range(self.synced.get(name, 0), len(self.files.get(name, b"")) + 1)
        files = {other: bytes(data) for other, data in self.files.items()}
        return [MemoryFileSystem({**files, name: files[name][:length]} if files else {}) for length in lengths]


WRITES = [FACT_BATCHES[:1], FACT_BATCHES[1:3], FACT_BATCHES[3:4], FACT_BATCHES[4:6]]


@pytest.mark.proves("Topics, groups and offsets")
def test_a_crash_before_or_after_any_step_loses_nothing_acknowledged() -> None:
    operations, acknowledged = 0, list[list[Fact]]()
    while acknowledged != FACT_BATCHES:
        disk, acknowledged, attempted = DoomedDisk(operations), [], list[list[Fact]]()
        try:
            log = open_log(disk, HEADER_BYTES + 2 * SIZE).log
            for groups in WRITES:
                attempted += groups
                log.append(groups)
                acknowledged = list(attempted)
        except PowerCut:
            pass
        for after in (disk.crashed(), *disk.remains()):
            log, groups, _ = open_log(after, HEADER_BYTES + 2 * SIZE)
            assert acknowledged == groups[: len(acknowledged)]
            assert groups == attempted[: len(groups)]
            log.append(FACT_BATCHES[:1])
            assert open_log(after.crashed(), HEADER_BYTES + 2 * SIZE).fact_batches == [*groups, FACT_BATCHES[0]]
        operations += 1
    assert operations > 3 * len(WRITES)


def test_a_last_segment_is_replaced_only_when_it_has_no_content(disk: MemoryFileSystem) -> None:
    sized = MemoryFileSystem({NAME: bytes(len(disk.files[NAME]))})
    assert open_log(sized).recovery.dropped_bytes == len(disk.files[NAME])
    disk.files[NAME][: HEADER_BYTES + 1] = bytes(HEADER_BYTES + 1)
    before = bytes(disk.files[NAME])
    with pytest.raises(CorruptLog, match=NAME):
        open_log(disk)
    assert bytes(disk.files[NAME]) == before
