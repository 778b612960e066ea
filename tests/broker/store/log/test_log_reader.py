"""Single messages of the log: read at any position, and refused by file and offset when they are damaged."""

from __future__ import annotations

import errno

import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.core.state.stage_facts import ColumnsStaged
from rmqpull_broker.store import vfs
from rmqpull_broker.store.log.commit_log import CommitLog
from rmqpull_broker.store.log.log_reader import LogReader
from rmqpull_broker.store.log.segments import CorruptLog, segment_name
from rmqpull_broker.store.vfs import ReadFile
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.written_messages import QUEUES, make_call


class CountedDisk(MemoryFileSystem):
    """Lists the files that are open, in the order in which they were opened."""

    def __init__(self) -> None:
        super().__init__()
        self.opened: list[str] = []
        self.open_now: list[str] = []

    def open(self, name: str) -> ReadFile:
        file = super().open(name)
        self.opened.append(name)
        self.open_now.append(name)
        return CountedFile(self, name, file)


class CountedFile:
    def __init__(self, disk: CountedDisk, name: str, file: ReadFile) -> None:
        self._disk, self._name, self._file = disk, name, file

    def read(self, offset: int, length: int) -> bytes:
        return self._file.read(offset, length)

    def close(self) -> None:
        self._disk.open_now.remove(self._name)


@pytest.fixture
def disk() -> CountedDisk:
    return CountedDisk()


def write(disk: MemoryFileSystem, count: int, segment_bytes: int = 64) -> list[LoggedMessage]:
    """Writes so many calls, each in a segment of its own, and returns their messages."""
    log, messages = CommitLog(disk, segment_bytes), list[LoggedMessage]()
    log.recover(lambda facts, written: None)
    for number in range(count):
        call = make_call("a", number, [(QUEUES[0], [b"body %d" % number])])
        for _, facts in log.append([[call]]):
            messages += [message for fact in facts if isinstance(fact, ColumnsStaged) for message in fact.messages]
    log.close()
    return messages


def read_body(reader: LogReader, message: LoggedMessage) -> bytes:
    rows = reader.read(message)
    assert set(rows.schema.names) <= set(columns.UNPLACED_SCHEMA.names)
    (body,) = rows.column("body").to_pylist()
    return bytes(body)


@pytest.mark.parametrize("segment_bytes", [64, 5_000, 1 << 20])
def test_messages_are_read_in_any_order(disk: CountedDisk, segment_bytes: int) -> None:
    messages, reader = write(disk, 9, segment_bytes), LogReader(disk)
    for at in (3, 0, 8, 8, 1, 3):
        assert read_body(reader, messages[at]) == b"body %d" % at
    assert len(disk.opened) == len({message.segment for at, message in enumerate(messages) if at in (0, 1, 3, 8)})
    reader.close()
    assert disk.open_now == []


def test_a_message_is_found_in_a_segment_that_has_grown_since(disk: CountedDisk) -> None:
    log, reader = CommitLog(disk), LogReader(disk)
    log.recover(lambda facts, written: None)
    for number in range(3):
        ((_, (kept,)),) = log.append([[make_call("a", number, [(QUEUES[0], [b"body %d" % number])])]])
        assert isinstance(kept, ColumnsStaged)
        assert read_body(reader, kept.messages[0]) == b"body %d" % number
    assert len(disk.opened) == 1


def test_the_files_that_were_read_last_stay_open(disk: CountedDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vfs, "OPEN_FILES_MAX", 2)
    messages, reader = write(disk, 4), LogReader(disk)
    names = [segment_name(message.segment) for message in messages]
    for at in (0, 1, 0, 2):
        read_body(reader, messages[at])
    assert sorted(disk.open_now) == [names[0], names[2]]
    read_body(reader, messages[0])
    assert disk.opened == [names[0], names[1], names[2]]
    read_body(reader, messages[1])
    assert sorted(disk.open_now) == [names[0], names[1]]
    reader.close()
    assert disk.open_now == []


def test_files_of_deleted_segments_are_closed(disk: CountedDisk) -> None:
    messages, reader = write(disk, 4), LogReader(disk)
    for message in messages:
        read_body(reader, message)
    reader.forget_before(messages[2].segment)
    assert disk.open_now == [segment_name(message.segment) for message in messages[2:]]
    reader.forget_before(messages[2].segment)
    assert len(disk.open_now) == 2


def test_a_missing_segment_is_named(disk: CountedDisk) -> None:
    first, second = write(disk, 2)
    name = segment_name(second.segment)
    disk.remove(name)
    at = second.position - second.segment
    with pytest.raises(CorruptLog, match=f"memory:{name} is damaged at offset {at}: 1 messages cannot .*No such"):
        LogReader(disk).read(second)
    assert read_body(LogReader(disk), first) == b"body 0"


def test_every_damaged_byte_is_refused_with_file_and_offset(disk: CountedDisk) -> None:
    _, message = write(disk, 2)
    name, at = segment_name(message.segment), message.position - message.segment
    for offset in range(at, at + message.length):
        disk.files[name][offset] ^= 4
        with pytest.raises(CorruptLog, match=f"memory:{name} is damaged at offset {at}: .*fails its checksum"):
            LogReader(disk).read(message)
        disk.files[name][offset] ^= 4
    assert read_body(LogReader(disk), message) == b"body 1"


def test_a_segment_that_ends_within_a_message_is_refused(disk: CountedDisk) -> None:
    _, message = write(disk, 2)
    name, at = segment_name(message.segment), message.position - message.segment
    for left in (0, 1, message.length - 1):
        del disk.files[name][at + left :]
        disk.files[name] += bytes(0)
        with pytest.raises(CorruptLog, match=f"at offset {at}: 1 messages cannot be read: the log ends within"):
            LogReader(disk).read(message)
        disk.files[name] += bytes(message.length)


def test_a_failing_disk_is_no_other_error(disk: CountedDisk) -> None:
    (message,) = write(disk, 1)
    reader = LogReader(disk)
    disk.fail_next.add("read")
    with pytest.raises(CorruptLog, match="read failed"):
        reader.read(message)
    assert read_body(reader, message) == b"body 0"


@pytest.mark.parametrize(
    ("number", "expected"), [(errno.EMFILE, OSError), (errno.ENFILE, OSError), (errno.EIO, CorruptLog)]
)
def test_a_lack_of_files_is_not_damage(
    disk: CountedDisk, monkeypatch: pytest.MonkeyPatch, number: int, expected: type[Exception]
) -> None:
    (message,), reader = write(disk, 1), LogReader(disk)

    def refuse(name: str) -> ReadFile:
        raise OSError(number, "refused", name)

    with monkeypatch.context() as refusing:
        refusing.setattr(disk, "open", refuse)
        with pytest.raises(expected, match="refused") as raised:
            reader.read(message)
    assert type(raised.value) is expected
    assert read_body(reader, message) == b"body 0"
