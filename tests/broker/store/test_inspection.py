"""A look into a data directory from outside."""

from __future__ import annotations

from pathlib import Path

import pytest

from rmqpull_broker.core.state.facts import RowsStored, TopicPut
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.inspection import Damage, dump, verify
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.vfs import OsFileSystem
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness

OPTIONS = StorageOptions(segment_bytes=600, save_bytes=0, snapshot_bytes=1 << 30, free_bytes_min=0)


@pytest.fixture
def disk() -> MemoryFileSystem:
    """A topic, eight messages, several segments, a queue file and a snapshot; then one more message."""
    disk = MemoryFileSystem()
    broker = StorageHarness(disk, OPTIONS)
    broker.topic()
    for number in range(8):
        broker.send(b"%d" % number)
        broker.keep_up()
    broker.snapshot()
    broker.send(b"8")
    return disk


def named(disk: MemoryFileSystem, suffix: str) -> list[str]:
    return [name for name in disk.names() if name.endswith(suffix)]


def test_a_dump_tells_every_record_with_its_place(disk: MemoryFileSystem) -> None:
    records = list(dump(disk))
    facts = [fact for logged in records for fact in logged.facts]
    bodies = [row.message.body for fact in facts if isinstance(fact, RowsStored) for row in fact.rows]
    assert isinstance(facts[0], TopicPut)
    assert bodies == [b"%d" % number for number in range(9)]
    ends = [logged.position + logged.size for logged in records]
    assert all(0 <= later.position - end <= 16 for end, later in zip(ends, records[1:], strict=False))


def test_a_dump_begins_at_a_given_position(disk: MemoryFileSystem) -> None:
    records = list(dump(disk))
    for number, logged in enumerate(records):
        assert list(dump(disk, logged.position)) == records[number:]
        assert list(dump(disk, logged.position + 1)) == records[number + 1 :]


def test_a_dump_ends_at_a_torn_tail_and_is_refused_before_it(disk: MemoryFileSystem) -> None:
    records, logs = list(dump(disk)), named(disk, ".log")
    disk.files[logs[-1]].extend(b"torn")
    assert list(dump(disk)) == records
    disk.files[logs[0]][-1] ^= 1
    with pytest.raises(CorruptLog, match=rf"memory:{logs[0]} is damaged at offset \d+"):
        list(dump(disk))
    disk.files[logs[1]][0] ^= 1
    with pytest.raises(CorruptLog, match=f"memory:{logs[1]} cannot be read"):
        list(dump(disk, int(logs[1][:20])))


def test_a_sound_directory_is_verified(disk: MemoryFileSystem) -> None:
    report = verify(disk)
    assert (report.log_damage, report.derived_damage) == ((), ())
    assert (report.segments, report.queue_files, report.snapshots) == (len(named(disk, ".log")), 1, 1)
    assert (report.records, report.chunks) == (len(list(dump(disk))), 8)


@pytest.mark.parametrize("suffix", [".log", ".chunks", ".snapshot"])
def test_every_flipped_bit_is_found(disk: MemoryFileSystem, suffix: str) -> None:
    for name in named(disk, suffix):
        data = disk.files[name]
        # The last four bytes of a segment's header are unused, and the padding of a chunk is never read.
        for place in [*range(12), *range(16, len(data) - 8, 5)]:
            data[place] ^= 1 << place % 8
            report = verify(disk)
            found = report.log_damage if suffix == ".log" else report.derived_damage
            assert [damage.file for damage in found] == [f"memory:{name}"]
            data[place] ^= 1 << place % 8


def test_an_interrupted_write_is_not_reported_as_damage(disk: MemoryFileSystem) -> None:
    (last,) = named(disk, ".log")[-1:]
    size = len(disk.files[last])
    disk.files[last].extend(b"torn")
    assert verify(disk).log_damage == (Damage(f"memory:{last}", size, "there is no complete record", is_tail=True),)
    del disk.files[last][size:]
    StorageHarness(disk, OPTIONS).stop()
    disk.files[last][size - 1] ^= 1
    (damage,) = verify(disk).log_damage
    assert not damage.is_tail


def test_a_directory_is_looked_into_while_a_broker_has_it(tmp_path: Path) -> None:
    disk = OsFileSystem(str(tmp_path))
    broker = StorageHarness(disk, OPTIONS)
    broker.topic()
    broker.send(b"0")
    outside = OsFileSystem(str(tmp_path), is_read_only=True)
    assert verify(outside).records == len(list(dump(outside))) == 2
    outside.close()
    broker.stop()
    with pytest.raises(FileNotFoundError):
        verify(OsFileSystem(str(tmp_path / "missing"), is_read_only=True))
