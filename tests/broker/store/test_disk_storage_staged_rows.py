"""Staged rows in the log: they stay readable through retention, damage and restarts, and each is there once."""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.log.segments import CorruptLog
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import ALL, EAGER, StorageHarness
from tests.harness.written_messages import lower_part_limits

ONE_RECORD_EACH = StorageOptions(
    segment_bytes=64, save_bytes=1, snapshot_bytes=1 << 30, free_bytes_min=0, cache_bytes=1
)


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of two rows are large, so that queues refer to the log."""
    lower_part_limits(monkeypatch, 2)


@pytest.fixture
def disk() -> MemoryFileSystem:
    return MemoryFileSystem()


@pytest.fixture
def broker(disk: MemoryFileSystem) -> StorageHarness:
    """A broker whose every write is a segment."""
    broker = StorageHarness(disk, ONE_RECORD_EACH)
    broker.topic()
    broker.run(lambda draft: create_topic(draft, TopicConfig("later", 1, 1, TopicType.DELAY)))
    return broker


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_retention_takes_no_delayed_rows_of_a_stage(
    disk: MemoryFileSystem, broker: StorageHarness, is_committed: bool, restarts: bool
) -> None:
    broker.stage("a", 0, delayed=[b"1", b"2", b"3"])
    if is_committed:
        broker.commit(("a", 1))
    for number in range(4):
        broker.send(b"%d" % number, now_ms=2_000)
    broker.expire(9_000, ALL)
    if restarts:
        broker.stop()
        broker = StorageHarness(disk, ONE_RECORD_EACH)
    if not is_committed:
        broker.commit(("a", 1))
    broker.store_delayed()
    assert len(broker.state.delayed) == 3


def lose_queue_files(disk: MemoryFileSystem) -> None:
    for name in [name for name in disk.files if name.endswith(".chunks")]:
        del disk.files[name], disk.synced[name]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_rows_that_retention_left_of_a_damaged_chunk_are_read_from_the_log(
    disk: MemoryFileSystem, broker: StorageHarness, order: tuple[int, ...]
) -> None:
    """Their stage began in a segment that is deleted."""
    for sequence in order:
        broker.stage("a", sequence, b"%d" % sequence)
    broker.commit(("a", 3))
    broker.keep_up()  # saves the scattered run as one chunk
    broker.keep_up()
    assert [name for name in disk.names() if name.endswith(".chunks")]
    _, _, _, second_call, *_, newest = broker.storage._log.segments()
    broker.expire(1_000, RetentionLimits(1 << 40, newest.end - second_call.base))
    left = broker.bodies()
    assert left == [b"%d" % sequence for sequence in range(order[0] + 1, 3)]
    lose_queue_files(disk)
    assert StorageHarness(disk, ONE_RECORD_EACH).bodies() == left


@pytest.mark.parametrize("save_bytes", [1, 1 << 30])
def test_a_start_from_the_older_snapshot_needs_nothing_of_the_deleted_log(
    disk: MemoryFileSystem, save_bytes: int
) -> None:
    """That snapshot refers to rows that retention has deleted since, as the log after it says."""
    options = replace(ONE_RECORD_EACH, save_bytes=save_bytes)
    broker = StorageHarness(disk, replace(options, save_bytes=1 << 30))
    broker.topic()
    for sequence in range(3):
        broker.stage("a", sequence, b"%d" % sequence)
    broker.stage("open", 0, b"never", batch=TransactionId("other", 1))
    broker.commit(("a", 3))
    broker.stage("b", 0, b"3", b"4", batch=TransactionId("query", 2))
    broker.commit(("b", 1), batch=TransactionId("query", 2))
    broker.snapshot()
    broker.send(b"5")
    _, _, cut, *_, newest = broker.storage._log.segments()
    broker.expire(1_000, RetentionLimits(1 << 40, newest.end - cut.end))
    before = broker.observed()
    assert broker.bodies() == [b"2", b"3", b"4", b"5"]
    snapshots = [name for name in disk.names() if name.endswith(".snapshot")]
    assert len(snapshots) == 2
    disk.files[snapshots[1]][-1] ^= 1
    again = StorageHarness(disk, options)
    assert again.observed() == before
    again.keep_up()
    again.keep_up()
    assert again.observed() == before


def test_scattered_rows_are_saved_however_little_may_stay_in_memory(disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, EAGER)
    broker.topic()
    for sequence in range(3):
        broker.stage("a", sequence, b"%d" % sequence)
    broker.commit(("a", 3))
    for _ in range(3):
        broker.keep_up()
    assert (broker.storage.store.scattered_bytes, broker.storage.due_job(broker.state)) == (0, None)
    assert broker.bodies() == [b"0", b"1", b"2"]


def test_a_damaged_message_keeps_no_other_rows_from_being_saved(disk: MemoryFileSystem) -> None:
    broker = StorageHarness(disk, StorageOptions(save_bytes=2_000, free_bytes_min=0, cache_bytes=1))
    broker.topic()
    broker.topic("invoices")
    broker.stage("a", 0, bytes(1_500))
    broker.stage("a", 1, bytes(1_500))
    broker.commit(("a", 2))
    name = "00000000000000000000.log"
    disk.files[name][disk.files[name].index(bytes(1_500)) + 9] ^= 1
    failures = []
    for number in range(40):
        broker.send(b"%d" % number * 500, topic="invoices")
        try:
            broker.keep_up()
        except OSError as error:
            failures.append(str(error))
    assert broker.storage.refusal is None
    assert len(failures) == 1, "it is not tried again before the next start"
    assert f"memory:{name} is damaged at offset" in failures[0]
    assert broker.storage.store.scattered_bytes == 0
    with pytest.raises(CorruptLog):
        broker.bodies()
    invoices = MessageQueue("invoices", "broker-a", 0)
    assert broker.bodies(invoices) == [b"%d" % number * 500 for number in range(40)]


OLD = Path(__file__).with_name("data_before_splices.json")
"""The files of a data directory of log format 4 and snapshot version 4, killed while it stored a commit: each
compressed, in base64.

Stage ``open`` has call 0 with three messages, and call 1 with two and two delayed ones. The first two of the three
calls of stage ``done`` are stored. The snapshot was taken after the first of these and call 1 of ``open``.
"""
OLD_OPTIONS = StorageOptions(segment_bytes=6_000, save_bytes=1_500, snapshot_bytes=1 << 30, free_bytes_min=0)


def read_old(*, has_snapshots: bool) -> MemoryFileSystem:
    files = {name: zlib.decompress(base64.b64decode(text)) for name, text in json.loads(OLD.read_text()).items()}
    return MemoryFileSystem(
        {name: data for name, data in files.items() if has_snapshots or not name.endswith(".snapshot")}
    )


def count_bodies(broker: StorageHarness) -> Counter[bytes]:
    return Counter(broker.bodies(MessageQueue("orders", "broker-a", 0)) + broker.bodies(SECOND))


SECOND = MessageQueue("orders", "broker-a", 1)
SENT = [*(b"%s %d" % (word, number) for word in (b"sent", b"and") for number in range(3))]
PUBLISHED = [*(b"column %d" % number for number in range(8)), *(b"last %d" % number for number in range(4))]
DONE = [[b"done %d %d" % (sequence, number) for number in range(3)] for sequence in range(3)]
OPEN = [b"open 0 0", b"open 0 1", b"open 0 2", b"open 1 0", b"open 1 1"]


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize("has_snapshots", [True, False])
def test_a_directory_without_splices_is_read_and_its_stages_are_committed(how: str, has_snapshots: bool) -> None:
    disk = read_old(has_snapshots=has_snapshots)
    broker, begun = StorageHarness(disk, OLD_OPTIONS), Counter([*SENT, *PUBLISHED, *DONE[0], *DONE[1]])
    state = broker.state
    assert (count_bodies(broker), list(state.stages.all())) == (begun, ["done", "open"])

    def restart() -> StorageHarness:
        nonlocal disk
        before = broker.observed()
        if how == "stop":
            broker.stop()
        disk = disk if how == "stop" else disk.crashed()
        again = StorageHarness(disk, OLD_OPTIONS)
        assert (again.observed(), again.reports) == (before, [])
        return again

    broker = restart()
    broker.store_delayed(now_ms=4_000)
    assert count_bodies(broker) == begun + Counter(DONE[2])
    broker.stage("open", 2, b"open 2 0", b"open 2 1", now_ms=4_000)
    broker.commit(("open", 2), now_ms=4_000)
    assert list(broker.state.stages.list_committing()) == [], "it has three calls by now"
    broker.commit(("open", 3), now_ms=4_000)
    assert count_bodies(broker) == begun + Counter([*DONE[2], b"open 2 0", b"open 2 1"])
    for call in (OPEN[:3], OPEN[3:]):
        broker = restart()
        broker.keep_up()
        before = count_bodies(broker)
        broker.store_delayed(now_ms=4_000)
        assert count_bodies(broker) == before + Counter(call)
    broker = restart()
    assert count_bodies(broker) == begun + Counter([*DONE[2], *OPEN, b"open 2 0", b"open 2 1"])
    assert (len(broker.state.delayed), list(broker.state.stages.all())) == (2, [])
    rows = columns.to_rows(broker.state.store.read(SECOND, *broker.state.bounds(SECOND)))
    assert [row.queue_offset for row in rows] == list(range(len(rows)))


def test_an_open_stage_of_an_older_release_is_dropped_as_a_whole() -> None:
    broker = StorageHarness(read_old(has_snapshots=True), OLD_OPTIONS)
    broker.store_delayed()
    broker.stage("open", 2, b"more")
    before = count_bodies(broker)
    broker.commit(batch=TransactionId("query", 1))
    broker.expire(1_000, RetentionLimits(1 << 40, 0))
    assert (broker.state.stages.all(), len(broker.state.delayed)) == ({}, 0)
    assert all(count_bodies(broker)[body] <= before[body] for body in before)


def test_a_segment_of_this_release_says_so_to_older_ones(disk: MemoryFileSystem) -> None:
    StorageHarness(disk, OLD_OPTIONS).topic()
    header = bytes(disk.files["00000000000000000000.log"][:16])
    assert header == b"RMQPLOG\0" + (7).to_bytes(4, "little") + bytes(4)


@pytest.mark.parametrize("write", ["stage", "commit"])
def test_a_log_that_ends_anywhere_within_a_write_is_as_it_was_before(write: str) -> None:
    options, disk = StorageOptions(free_bytes_min=0), MemoryFileSystem()
    broker = StorageHarness(disk, options)
    broker.topic()
    broker.stage("a", 1, b"1", b"2")
    if write == "commit":
        broker.stage("a", 0, b"0")
    before, begin = broker.observed(), broker.storage._log.end
    broker.stage("a", 0, b"0") if write == "stage" else broker.commit(("a", 2))
    after, end = broker.observed(), broker.storage._log.end
    data = bytes(disk.files["00000000000000000000.log"])
    assert len(data) == end
    for size in range(begin, end + 1):
        cut = StorageHarness(MemoryFileSystem({"00000000000000000000.log": data[:size]}), options)
        assert cut.recovery.dropped_bytes == (0 if size == end else size - begin)
        assert cut.state.stages.to_facts() == (after if size == end else before)["stages"]
        assert cut.bodies() == ([b"0", b"1", b"2"] if size == end and write == "commit" else [])
    assert cut.observed() == after
    for size in (begin, begin + 1, (begin + end) // 2, end - 1):
        again = StorageHarness(MemoryFileSystem({"00000000000000000000.log": data[:size]}), options)
        assert again.observed() == before
        again.stage("a", 0, b"0") if write == "stage" else again.commit(("a", 2))
        assert again.observed() == after
