"""The storage of a broker: what it keeps in memory and on disk, and what it does when files are lost."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import pyarrow as pa
import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.bounds import cut_by_bytes
from rmqpull_broker.core.state.facts import QueuesTrimmed
from rmqpull_broker.store.log.segments import CorruptLog
from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_broker.store.queues.chunks import SavedChunk
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import EAGER, TWELVE, StorageHarness, list_files

QUEUE = MessageQueue("orders", "broker-a", 0)


# --- queue files -------------------------------------------------------------------------------------------------


def test_saved_messages_are_read_from_queue_files(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    assert broker.storage.store.unsaved_bytes == 0
    assert broker.bodies() == TWELVE
    disk.fail_next = {"read"}
    assert broker.bodies() == TWELVE  # from the log
    assert "is damaged at offset" in broker.reports[0]


LENGTHS = [len(body) for body in TWELVE]


def parts(broker: StorageHarness, from_offset: int, until_offset: int, byte_max: int) -> list[int]:
    return [part.until_offset for part in cut_by_bytes(broker.state, QUEUE, from_offset, until_offset, byte_max)]


def reads(broker: StorageHarness, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Will tell the first offset of each chunk that is read from its file."""
    loaded: list[int] = []
    load = broker.storage._load

    def noted(queue: MessageQueue, chunk: SavedChunk) -> pa.RecordBatch:
        loaded.append(chunk.first_offset)
        return load(queue, chunk)

    monkeypatch.setattr(broker.storage.store, "_load", noted)
    return loaded


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize(
    ("from_offset", "until_offset", "byte_max", "cuts", "loaded"),
    [
        (0, 12, 1 << 40, [12], []),
        (4, 12, 1 << 40, [12], []),
        (0, 12, 4, [4, 8, 11, 12], [4, 8]),
        (0, 12, 8, [8, 12], [8]),
        (0, 12, 7, [7, 12], [4]),
        (1, 12, 1 << 40, [12], [0]),
        (0, 11, 1 << 40, [11], [8]),
        (5, 7, 1 << 40, [7], [4]),
    ],
)
def test_only_chunks_in_which_a_part_may_end_are_read(
    broker: StorageHarness,
    disk: MemoryFileSystem,
    monkeypatch: pytest.MonkeyPatch,
    restart: bool,
    from_offset: int,
    until_offset: int,
    byte_max: int,
    cuts: list[int],
    loaded: list[int],
) -> None:
    if restart:
        broker.snapshot()
        broker = StorageHarness(disk, EAGER)
    found = reads(broker, monkeypatch)
    assert parts(broker, from_offset, until_offset, byte_max) == cuts
    assert found == loaded


def test_bytes_of_messages_that_are_not_saved_are_counted_too(broker: StorageHarness) -> None:
    broker.send(b"12345", b"1")
    assert parts(broker, 0, 14, sum(LENGTHS)) == [12, 14]
    assert parts(broker, 0, 14, sum(LENGTHS) + 5) == [13, 14]


def test_a_queue_that_was_cut_within_a_chunk_counts_what_is_left(broker: StorageHarness) -> None:
    broker.run(lambda draft: draft.add(QueuesTrimmed(((QUEUE, 2),))))
    assert parts(broker, 0, 12, sum(LENGTHS) - 2) == [12]
    assert parts(broker, 0, 12, sum(LENGTHS) - 3) == [11, 12]


def test_a_snapshot_without_sizes_is_read_and_its_chunks_are_counted_by_reading_them(
    broker: StorageHarness, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 2 was written before snapshots had them."""
    broker.snapshot()
    name = list_files(disk, ".snapshot")[-1]
    disk.files[name][:] = as_version_2(bytes(disk.files[name]))
    broker = StorageHarness(disk, EAGER)
    assert broker.reports == []
    found = reads(broker, monkeypatch)
    assert parts(broker, 0, 12, 1 << 40) == [12]
    assert found == [0, 4, 8]
    broker.topic("others")
    broker.snapshot()  # and so they stay unknown
    assert parts(StorageHarness(disk, EAGER), 0, 12, 8) == [8, 12]


def as_version_2(snapshot: bytes) -> bytes:
    """The same without the sizes of chunks."""
    begin = struct.Struct("<8sIIQQII")
    magic, _, _, position, record_length, header_length, chunk_count = begin.unpack_from(snapshot)
    header_end = begin.size + header_length
    chunks_end = header_end + chunk_count * 128
    chunks = [snapshot[place : place + 88] for place in range(header_end, chunks_end, 128)]
    payload = b"".join([snapshot[begin.size : header_end], *chunks, snapshot[chunks_end:]])
    sizes = struct.pack("<QQII", position, record_length, header_length, chunk_count)
    return struct.pack("<8sII", magic, 2, zlib.crc32(payload, zlib.crc32(sizes))) + sizes + payload


def test_a_snapshot_of_an_unknown_version_is_passed_over(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    broker.snapshot()
    name = list_files(disk, ".snapshot")[-1]
    disk.files[name][8] = 9
    broker = StorageHarness(disk, EAGER)
    assert broker.bodies() == TWELVE
    assert "its format version is 9; this release reads versions 2, 3, 4 and 8" in broker.reports[0]


def test_every_flipped_bit_of_a_queue_file_costs_a_report_and_no_message(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    (name,) = list_files(disk, ".chunks")
    broker.snapshot()
    for place in range(0, len(disk.files[name]), 7):
        disk.files[name][place] ^= 1 << place % 8
        broker = StorageHarness(disk, EAGER)
        assert broker.bodies() == TWELVE
        assert len(broker.reports) == 1
        disk.files[name][place] ^= 1 << place % 8


@pytest.mark.parametrize("loss", ["gone", "empty", "cut"])
def test_a_lost_queue_file_costs_no_message(broker: StorageHarness, disk: MemoryFileSystem, loss: str) -> None:
    broker.snapshot()
    (name,) = list_files(disk, ".chunks")
    del disk.files[name][{"gone": 0, "empty": 0, "cut": -9}[loss] :]
    if loss == "gone":
        disk.remove(name)
    assert StorageHarness(disk, EAGER).bodies() == TWELVE


def test_messages_that_a_snapshot_carried_can_be_read_from_the_log_as_well(disk: MemoryFileSystem) -> None:
    lazy = dataclasses.replace(EAGER, save_bytes=1 << 30)
    broker = StorageHarness(disk, lazy)
    broker.topic()
    broker.send(b"a", b"b")
    broker.snapshot()
    broker = StorageHarness(disk, EAGER)  # they come from the snapshot, and only now go to a queue file
    broker.send(b"c")
    broker.keep_up()
    broker.snapshot()
    disk.remove(list_files(disk, ".chunks")[0])
    assert StorageHarness(disk, EAGER).bodies() == [b"a", b"b", b"c"]


def test_messages_of_a_deleted_topic_are_not_taken_for_those_of_its_successor(disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, dataclasses.replace(EAGER, save_bytes=1 << 30))
    broker.topic("others")
    broker.send(b"holds the log", topic="others")
    broker.topic()
    broker.send(b"old", b"older")
    broker.run(lambda draft: delete_topic(draft, "orders"))
    broker.topic()
    broker.send(b"new", b"newer")
    broker.snapshot()
    broker = StorageHarness(disk, EAGER)  # one range of the log for all that comes from the snapshot
    broker.send(b"newest")
    broker.keep_up()
    broker.snapshot()
    disk.remove(list_files(disk, ".chunks")[0])
    assert StorageHarness(disk, EAGER).bodies() == [b"new", b"newer", b"newest"]


def test_damage_to_queue_file_and_log_is_refused_by_naming_the_log(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    (chunks,), (log, *_) = list_files(disk, ".chunks"), list_files(disk, ".log")
    del disk.files[chunks][:]
    disk.files[log][-1] ^= 1
    with pytest.raises(CorruptLog, match=f"memory:{log} is damaged at offset"):
        broker.bodies()


def test_chunks_that_cannot_be_saved_stay_in_memory_and_are_saved_later(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    broker.send(b"12")
    disk.fail_next = {"create", "write"}
    with pytest.raises(OSError, match="failed"):
        broker.keep_up()
    assert broker.bodies() == [*TWELVE, b"12"]
    disk.fail_next = set()
    broker.keep_up()
    assert broker.storage.store.unsaved_bytes == 0
    assert broker.bodies() == [*TWELVE, b"12"]


def test_unused_queue_files_are_removed_at_a_start(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, EAGER)  # no snapshot: everything is replayed and saved again
    assert broker.bodies() == TWELVE
    assert len(list_files(disk, ".chunks")) == 1


# --- snapshots ---------------------------------------------------------------------------------------------------


def test_a_start_replays_only_what_follows_the_newest_snapshot(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    broker.snapshot()
    broker.send(b"12")
    broker = StorageHarness(disk.crashed(), EAGER)
    assert broker.recovery.fact_batches == 1
    assert broker.bodies() == [*TWELVE, b"12"]


def test_an_orderly_stop_leaves_nothing_to_replay(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    broker.stop()
    broker = StorageHarness(disk.crashed(), EAGER)
    assert (broker.recovery.fact_batches, broker.bodies()) == (0, TWELVE)


def test_the_two_newest_snapshots_are_kept_and_the_older_serves_when_the_newer_is_damaged(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    for number in range(12, 15):
        broker.send(b"%d" % number)
        broker.snapshot()
    older, newer = list_files(disk, ".snapshot")
    for place in range(0, len(disk.files[newer]), 3):
        disk.files[newer][place] ^= 1 << place % 8
        after = StorageHarness(MemoryFileSystem({name: bytes(data) for name, data in disk.files.items()}), EAGER)
        assert after.bodies() == [*TWELVE, b"12", b"13", b"14"]
        assert after.recovery.fact_batches == 1
        assert after.reports[0].startswith(f"memory:{newer} is skipped: ")
        disk.files[newer][place] ^= 1 << place % 8
    disk.files[newer][60] ^= 1
    disk.files[older][60] ^= 1
    after = StorageHarness(disk, EAGER)
    assert after.bodies() == [*TWELVE, b"12", b"13", b"14"]
    after.send(b"15")
    after.snapshot()
    assert len(list_files(disk, ".snapshot")) == 1


def test_a_log_that_ends_before_a_snapshot_lost_what_was_acknowledged(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    broker.snapshot()
    log = list_files(disk, ".log")[-1]
    disk.truncate(log, len(disk.files[log]) - 1)
    with pytest.raises(
        CorruptLog, match=rf"memory:{log} ends at offset \d+, but a snapshot says .* synced up to offset"
    ):
        StorageHarness(disk, EAGER)


@pytest.mark.parametrize("failing", ["create", "write", "sync", "rename"])
def test_a_snapshot_that_cannot_be_written_leaves_the_one_before(
    broker: StorageHarness, disk: MemoryFileSystem, failing: str
) -> None:
    broker.snapshot()
    broker.send(b"12")
    broker.storage.sync()
    disk.fail_next = {failing}
    with pytest.raises(OSError, match="failed"):
        broker.snapshot()
    assert StorageHarness(disk.crashed(), EAGER).recovery.fact_batches == 1
    broker.snapshot()
    assert StorageHarness(disk.crashed(), EAGER).recovery.fact_batches == 0


# --- ASYNC_FLUSH and memory --------------------------------------------------------------------------------------


def test_asynchronous_flushing_keeps_what_was_synced_and_any_first_part_of_the_rest(disk: MemoryFileSystem) -> None:
    options = dataclasses.replace(EAGER, syncs_appends=False)
    broker = StorageHarness(disk, options)
    broker.topic()
    for number in range(20):
        broker.send(b"%d" % number)
        if number == 9:
            assert not broker.storage.is_synced
            broker.storage.sync()
            assert broker.storage.is_synced
    synced, size = dict(disk.synced), {name: len(data) for name, data in disk.files.items()}
    (last,) = [name for name in size if size[name] > synced[name]]
    for length in range(size[last] - synced[last] + 1):
        cut = disk.crashed(lambda unsynced, length=length: unsynced[:length])  # type: ignore[misc]
        bodies = StorageHarness(cut, options).bodies()
        assert bodies == [b"%d" % number for number in range(len(bodies))]
        assert len(bodies) >= 10


def test_a_hole_in_what_was_never_synced_is_no_damage(disk: MemoryFileSystem) -> None:
    options = dataclasses.replace(EAGER, syncs_appends=False, segment_bytes=1 << 20)
    broker = StorageHarness(disk, options)
    broker.topic()
    broker.storage.sync()
    for number in range(9):
        broker.send(b"%d" % number)
    holed = disk.crashed(lambda unsynced: bytes(200) + unsynced[200:])
    after = StorageHarness(holed, options)
    assert after.bodies() == []
    assert after.recovery.dropped_bytes > 1_000


def test_without_a_directory_nothing_is_kept_twice() -> None:
    storage = MemoryStorage()
    first, second = storage.append([[]]), storage.append([[], []])
    assert [each.written.until_position for each in (*first, *second)] == [1, 2, 3]
    assert storage.is_synced
    assert (storage.is_behind, storage.refusal) == (False, None)
    storage.leave_mark()
    storage.sync()
    storage.close()
