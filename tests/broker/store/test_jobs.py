"""The jobs of the storage: what they save, what they leave when they fail, and what has changed meanwhile."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.state.facts import QueuesTrimmed
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.jobs import SaveJob
from rmqpull_broker.store.log.log_reader import LogReader
from rmqpull_broker.store.queues import chunks, gathering
from rmqpull_broker.store.queues.chunks import RUN_BYTES, Run, SavedChunk
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import BATCH, QUEUE, StorageHarness, list_files

SECOND = MessageQueue("orders", "broker-a", 1)
ALL = 1 << 20
OPTIONS = StorageOptions(save_bytes=1 << 20, snapshot_bytes=1 << 30, free_bytes_min=0, cache_bytes=1)


@pytest.fixture
def broker(disk: MemoryFileSystem) -> StorageHarness:
    """Two commits of two calls each, for two queues, whose rows are scattered over the log."""
    broker = StorageHarness(disk, OPTIONS)
    broker.topic(queue_nums=2)
    for number in range(2):
        batch = BATCH._replace(number=number)
        for sequence in range(2):
            bodies = [b"%d %d %d" % (number, sequence, at) for at in range(6)]
            broker.stage(f"stage {number}", sequence, *bodies, batch=batch)
        broker.commit((f"stage {number}", 2), batch=batch, now_ms=1_000 + number)
    return broker


def list_chunks(broker: StorageHarness, queue: MessageQueue = QUEUE) -> list[SavedChunk | Run]:
    return next(entry.saved for entry in broker.storage.store.list_index() if entry.queue == queue)


def both(broker: StorageHarness) -> list[list[bytes]]:
    return [broker.bodies(queue) for queue in (QUEUE, SECOND)]


def test_scattered_runs_of_all_commits_become_one_chunk_of_each_queue(broker: StorageHarness) -> None:
    before, store = both(broker), broker.storage.store
    assert [type(chunk) for chunk in list_chunks(broker)] == [Run, Run]
    assert store.scattered_bytes == 4 * RUN_BYTES + sum(len(body) for bodies in before for body in bodies)
    broker.do(broker.storage._save_job())
    for queue in (QUEUE, SECOND):
        (chunk,) = list_chunks(broker, queue)
        assert isinstance(chunk, SavedChunk)
        assert (chunk.first_offset, chunk.row_count, chunk.size) == (0, 12, 60)
        assert (chunk.first_store_ms, chunk.last_store_ms) == (1_000, 1_001)
    assert (store.scattered_bytes, store.unsaved_bytes, both(broker)) == (0, 0, before)
    assert (store.list_ready(), store.list_scattered(ALL)) == ([], [])


@pytest.mark.parametrize(("rows_max", "sizes"), [(1, [3, 3, 3, 3]), (4, [6, 6]), (7, [9, 3]), (100, [12])])
def test_chunks_have_the_usual_size(
    broker: StorageHarness, monkeypatch: pytest.MonkeyPatch, rows_max: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(chunks, "CHUNK_ROWS_MAX", rows_max)
    before = both(broker)
    broker.do(broker.storage._save_job())
    saved = list_chunks(broker)
    assert [chunk.row_count for chunk in saved] == sizes
    assert [chunk.first_offset for chunk in saved] == [sum(sizes[:at]) for at in range(len(sizes))]
    assert both(broker) == before


@pytest.mark.parametrize(("bytes_max", "sizes"), [(1 << 20, [12]), (1, [3, 3, 3, 3])])
def test_a_message_with_parts_of_many_queues_is_read_once_and_few_are_in_memory_together(
    broker: StorageHarness, monkeypatch: pytest.MonkeyPatch, bytes_max: int, sizes: list[int]
) -> None:
    monkeypatch.setattr(gathering, "MESSAGE_BYTES_MAX", bytes_max)
    before, read, read_message = both(broker), list[LoggedMessage](), LogReader.read

    def count(reader: LogReader, message: LoggedMessage) -> object:
        read.append(message)
        return read_message(reader, message)

    with monkeypatch.context() as counting:
        counting.setattr(LogReader, "read", count)
        broker.do(broker.storage._save_job())
    assert len(read) == len(set(read)) == 4
    assert [[chunk.row_count for chunk in list_chunks(broker, queue)] for queue in (QUEUE, SECOND)] == [sizes] * 2
    assert both(broker) == before


def test_a_job_saves_a_limited_part_of_a_long_run_and_the_next_one_goes_on(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    before, store = both(broker), broker.storage.store
    bytes_of_calls = [15, 30, 45, 60]  # of each queue: each call has three messages of five bytes for it
    for saved in bytes_of_calls:
        broker.do(SaveJob(store, broker.storage._files, [], store.list_scattered(ALL), 30, disk))
        assert sum(run.byte_count for _, run in store.list_scattered(ALL)) == 2 * (60 - saved)
        kinds = [type(chunk) for chunk in list_chunks(broker)]
        assert kinds == sorted(kinds, key=lambda kind: kind is Run), "the oldest are saved"
        assert both(broker) == before
    assert Run not in kinds
    broker.stop()
    assert both(StorageHarness(disk, OPTIONS)) == before


def test_rows_between_runs_stay_between_them(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    for number in range(2):
        broker.send(b"sent %d" % number, b"more", now_ms=2_000)
    broker.stage("c", 0, *(b"c %d" % at for at in range(4)), batch=BATCH._replace(number=9))
    broker.commit(("c", 1), batch=BATCH._replace(number=9), now_ms=2_000)
    before = both(broker)
    broker.storage.store.finalize_down_to(0)
    broker.do(broker.storage._save_job())
    assert [[chunk.row_count for chunk in list_chunks(broker, queue)] for queue in (QUEUE, SECOND)] == [[12, 2, 2]] * 2
    assert both(broker) == before
    broker.stop()
    assert both(StorageHarness(disk, OPTIONS)) == before


def test_what_was_saved_before_a_failure_stays_and_the_rest_is_saved_later(
    broker: StorageHarness, disk: MemoryFileSystem
) -> None:
    before, job, save = both(broker), broker.storage._save_job(), broker.storage._files.save
    saved: list[object] = []

    def save_once(batch: object) -> object:
        if saved:
            disk.fail_next.add("write")
        saved.append(batch)
        return save(batch)

    broker.storage._files.save = save_once  # type: ignore[method-assign,assignment]
    with pytest.raises(OSError, match="write failed"):
        broker.do(job)
    broker.storage._files.save = save  # type: ignore[method-assign]
    assert [len(list_chunks(broker, queue)) for queue in (QUEUE, SECOND)] in ([1, 2], [2, 1])
    assert both(broker) == before
    broker.do(broker.storage._save_job())
    assert [len(list_chunks(broker, queue)) for queue in (QUEUE, SECOND)] == [1, 1]
    assert (both(broker), broker.storage.store.scattered_bytes) == (before, 0)
    assert len(list_files(disk, ".chunks")) == 2


@pytest.mark.parametrize("min_offset", [1, 3, 5, 6, 12])
def test_rows_that_were_deleted_during_the_job_stay_deleted(broker: StorageHarness, min_offset: int) -> None:
    before, job = both(broker), broker.storage._save_job()
    job.run()
    broker.run(lambda draft: draft.add(QueuesTrimmed(((QUEUE, min_offset),))))
    job.finish()
    assert both(broker) == [before[0][min_offset:], before[1]]
    broker.do(broker.storage._save_job())
    assert both(broker) == [before[0][min_offset:], before[1]]
    assert (broker.storage.store.scattered_bytes, broker.storage.store.unsaved_bytes) == (0, 0)


def test_a_damaged_run_is_left_and_the_others_are_saved(broker: StorageHarness, disk: MemoryFileSystem) -> None:
    store = broker.storage.store
    (_, run), *_ = store.list_scattered(ALL)
    message = run.parts[0].message
    assert isinstance(message, LoggedMessage)
    broker.run(lambda draft: draft.add(QueuesTrimmed(((SECOND, 6),))))  # the second queue no longer needs the message
    disk.files["00000000000000000000.log"][message.position + 100] ^= 1
    with pytest.raises(OSError, match=r"is damaged at offset .* fails its checksum"):
        broker.do(broker.storage._save_job())
    assert [type(chunk) for chunk in list_chunks(broker)] == [Run, Run]
    assert [type(chunk) for chunk in list_chunks(broker, SECOND)] == [SavedChunk]
    broker.do(broker.storage._save_job())
    assert [type(chunk) for chunk in list_chunks(broker)] == [Run, SavedChunk]
    assert (store.list_ready(), store.list_scattered(ALL), store.scattered_bytes) == ([], [], 0)
    assert broker.bodies(SECOND) == [b"1 %d %d" % (call, at) for call in range(2) for at in (3, 4, 5)]


def test_the_rest_of_a_damaged_run_is_left_too(
    broker: StorageHarness, disk: MemoryFileSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gathering, "MESSAGE_BYTES_MAX", 1)  # the first call of the commit is saved before the second
    store = broker.storage.store
    (_, run), *_ = store.list_scattered(ALL)
    message = run.parts[1].message
    assert isinstance(message, LoggedMessage)
    disk.files["00000000000000000000.log"][message.position + 100] ^= 1
    with pytest.raises(OSError, match="fails its checksum"):
        broker.do(broker.storage._save_job())
    for queue in (QUEUE, SECOND):
        assert [type(chunk) for chunk in list_chunks(broker, queue)] == [SavedChunk, Run, Run]
        first = columns.to_rows(store.read(queue, 0, 3))
        begin = 3 * queue.queue_id
        assert [row.message.body for row in first] == [b"0 0 %d" % at for at in range(begin, begin + 3)]
    broker.do(broker.storage._save_job())
    assert [type(chunk) for chunk in list_chunks(broker)] == [SavedChunk, Run, SavedChunk, SavedChunk]
    assert (store.list_scattered(ALL), store.scattered_bytes) == ([], 0)


@pytest.mark.parametrize("operation", ["sync", "create", "write", "rename"])
def test_a_snapshot_that_fails_changes_nothing(broker: StorageHarness, disk: MemoryFileSystem, operation: str) -> None:
    broker.snapshot()
    broker.send(b"later")
    before, files = broker.observed(), list_files(disk, ".snapshot")
    position = broker.storage._snapshot_position
    disk.fail_next.add(operation)
    with pytest.raises(OSError, match=f"{operation} failed"):
        broker.snapshot()
    assert (broker.storage._snapshot_position, files) == (position, [f"{position:020d}.snapshot"])
    broker.snapshot()
    assert broker.storage._snapshot_position > position
    assert StorageHarness(disk, OPTIONS).observed() == before
