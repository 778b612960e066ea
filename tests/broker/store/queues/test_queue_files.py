"""Queue files and the cache before them."""

from __future__ import annotations

import errno

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, StoredMessage
from rmqpull_broker.store.queues.chunks import HEADER_BYTES, DamagedChunk, Location, encode_chunk
from rmqpull_broker.store.queues.queue_files import ChunkCache, QueueFiles, name_queue_file
from tests.harness.memory_vfs import MemoryFileSystem


def chunk(number: int, row_count: int = 3) -> pa.RecordBatch:
    rows = [StoredMessage(Message(b"%d %d" % (number, row), "ID"), row, 5, "host") for row in range(row_count)]
    return columns.from_rows(rows)


BYTES = sum(map(len, encode_chunk(chunk(0))[0]))


def test_chunks_come_back_from_where_they_were_saved(disk: MemoryFileSystem) -> None:
    files = QueueFiles(disk)
    locations = [files.save(chunk(number)) for number in range(3)]
    assert [location.offset for location in locations] == [0, BYTES, 2 * BYTES]
    for number, location in enumerate(locations):
        assert files.load(location) == chunk(number)
    files.close()


def test_a_full_file_is_synced_and_followed_by_another(disk: MemoryFileSystem) -> None:
    files = QueueFiles(disk, file_bytes=BYTES + 1)
    locations = [files.save(chunk(number)) for number in range(3)]
    assert [location.file_number for location in locations] == [0, 0, 1]
    assert list(disk.synced.values()) == [2 * BYTES, 0]
    files.sync()
    assert list(disk.synced.values()) == [2 * BYTES, BYTES]


def test_no_process_writes_on_the_file_of_another(disk: MemoryFileSystem) -> None:
    first = QueueFiles(disk).save(chunk(0))
    files = QueueFiles(disk)
    second = files.save(chunk(1))
    assert (first.file_number, second.file_number) == (0, 1)
    assert files.load(first) == chunk(0)


@pytest.mark.parametrize("failing", ["write", "sync"])
def test_after_a_failure_a_new_file_is_begun(disk: MemoryFileSystem, failing: str) -> None:
    files = QueueFiles(disk)
    first = files.save(chunk(0))
    disk.fail_next = {failing}
    with pytest.raises(OSError, match="failed"):
        files.save(chunk(1)) if failing == "write" else files.sync()
    second = files.save(chunk(2))
    assert second.file_number == 1
    assert [files.load(location) for location in (first, second)] == [chunk(0), chunk(2)]


@pytest.mark.parametrize("failing", [{"write"}, {"sync"}, {"write", "sync"}])
def test_a_sync_after_a_failure_keeps_the_chunks_before_it_too(disk: MemoryFileSystem, failing: set[str]) -> None:
    files = QueueFiles(disk)
    first = files.save(chunk(0))
    disk.fail_next = {*failing}
    with pytest.raises(OSError, match="failed"):
        files.save(chunk(1)) if "write" in failing else files.sync()
    second = files.save(chunk(2))
    files.sync()
    rebooted = QueueFiles(disk.crashed())
    assert [rebooted.load(location) for location in (first, second)] == [chunk(0), chunk(2)]


def test_a_file_that_was_full_when_its_sync_failed_is_synced_later(disk: MemoryFileSystem) -> None:
    files = QueueFiles(disk, file_bytes=BYTES)
    first = files.save(chunk(0))
    disk.fail_next = {"sync"}
    files.save(chunk(1))
    files.sync()
    assert QueueFiles(disk.crashed()).load(first) == chunk(0)


@pytest.mark.parametrize("failing", ["create", "write", "sync", "rename"])
def test_a_sync_fails_until_a_file_was_written_again(disk: MemoryFileSystem, failing: str) -> None:
    files = QueueFiles(disk)
    location = files.save(chunk(0))
    for operation in ("sync", failing):
        disk.fail_next = {operation}
        with pytest.raises(OSError, match=f"{operation} failed"):
            files.sync()
    files.sync()
    rebooted = disk.crashed()
    assert QueueFiles(rebooted).load(location) == chunk(0)
    assert rebooted.names() == [name_queue_file(0)]


def test_a_sync_fails_when_the_system_has_dropped_what_a_sync_did_not_write(disk: MemoryFileSystem) -> None:
    files = QueueFiles(disk)
    files.save(chunk(0))
    files.save(chunk(1))
    disk.fail_next = {"sync"}
    with pytest.raises(OSError, match="sync failed"):
        files.sync()
    disk.files[name_queue_file(0)][BYTES + HEADER_BYTES :] = bytes(BYTES - HEADER_BYTES)
    for _ in range(2):
        with pytest.raises(OSError, match=f"is damaged at offset {BYTES}: the chunk fails its checksum"):
            files.sync()
    files.remove_all_but([])  # nothing refers to the damaged chunk any more
    files.sync()


@pytest.mark.parametrize(("number", "expected"), [(errno.EMFILE, OSError), (errno.EIO, DamagedChunk)])
def test_a_lack_of_files_is_not_damage(
    disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    location = QueueFiles(disk).save(chunk(0))

    def refuse(name: str) -> None:
        raise OSError(number, "refused", name)

    monkeypatch.setattr(disk, "open", refuse)
    with pytest.raises(expected, match="refused"):
        QueueFiles(disk).load(location)


def test_every_flipped_bit_and_every_cut_is_noticed(disk: MemoryFileSystem) -> None:
    location = QueueFiles(disk).save(chunk(0))
    data = disk.files[name_queue_file(0)]
    message_bytes = chunk(0).serialize().size
    for bit in range(8 * (HEADER_BYTES + message_bytes)):
        data[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedChunk):
            QueueFiles(disk).load(location)
        data[bit // 8] ^= 1 << bit % 8
    for size in range(HEADER_BYTES + message_bytes):
        cut = MemoryFileSystem({name_queue_file(0): bytes(data[:size])})
        with pytest.raises(DamagedChunk):
            QueueFiles(cut).load(location)


def test_another_chunk_in_the_place_of_the_right_one_is_noticed(disk: MemoryFileSystem) -> None:
    location = QueueFiles(disk).save(chunk(0))
    disk.remove(name_queue_file(0))
    QueueFiles(disk).save(chunk(1))
    with pytest.raises(DamagedChunk, match="there is another chunk"):
        QueueFiles(disk).load(location)


def test_unused_files_are_removed(disk: MemoryFileSystem) -> None:
    files = QueueFiles(disk, file_bytes=1)
    locations = [files.save(chunk(number)) for number in range(4)]
    assert [files.load(location) for location in locations]
    files.remove_all_but({1})
    assert disk.names() == [name_queue_file(1), name_queue_file(3)]  # the last one is being written
    files.close()
    files.remove_all_but(set())
    assert disk.names() == []


def test_the_cache_is_bounded_and_keeps_what_was_used_last() -> None:
    def at(place: int) -> Location:
        return Location(0, place, 10, 0)

    cache = ChunkCache(25)
    cache.put(at(0), chunk(0))
    cache.put(at(1), chunk(1))
    assert cache.get(at(0)) == chunk(0)
    cache.put(at(2), chunk(2))
    assert [cache.get(at(place)) is not None for place in range(3)] == [True, False, True]
    large = Location(1, 0, 1_000, 0)
    cache.put(large, chunk(3))
    assert cache.get(large) == chunk(3)
    assert cache.get(at(0)) is None
