"""A look into a data directory: what its commit log holds, and whether its files are whole. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rmqpull_broker.core.facts import Fact
from rmqpull_broker.store import record
from rmqpull_broker.store.chunks import HEADER_BYTES, DamagedChunk, checked_message
from rmqpull_broker.store.queue_files import queue_file_name, queue_file_numbers
from rmqpull_broker.store.segments import CorruptLog, is_synced_behind, read_frames, segment_bases, segment_name
from rmqpull_broker.store.snapshot import DamagedSnapshot, decode_snapshot
from rmqpull_broker.store.snapshots import snapshot_names
from rmqpull_broker.store.vfs import FileSystem


class LoggedRecord(NamedTuple):
    """A record of the commit log: where it begins and how long it is, in bytes, and its facts. A mark has none."""

    position: int
    size: int
    facts: tuple[Fact, ...]


class Damage(NamedTuple):
    """A place that is not whole. ``is_tail`` says that the broker would cut it off and go on."""

    file: str
    offset: int
    reason: str
    is_tail: bool = False


class VerifyReport(NamedTuple):
    """What was looked at, and what is damaged. Damage to queue files and snapshots costs time and no message."""

    segments: int
    records: int
    queue_files: int
    chunks: int
    snapshots: int
    log_damage: tuple[Damage, ...]
    derived_damage: tuple[Damage, ...]


def dump(file_system: FileSystem, from_position: int = 0) -> Iterator[LoggedRecord]:
    """The records that begin at or behind ``from_position``, in order; a torn tail is left out.

    Raises CorruptLog at a damaged record, or at a segment of another format.
    """
    bases = segment_bases(file_system)
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        if following is None or following > from_position:
            yield from _dump_segment(file_system, base, following, from_position)


def _dump_segment(
    file_system: FileSystem, base: int, following: int | None, from_position: int
) -> Iterator[LoggedRecord]:
    name = segment_name(base)
    file, reached = file_system.open(name), record.SEGMENT_HEADER_BYTES
    try:
        version = record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
        end = file_system.size(name) if following is None else following - base
        for place, frame in read_frames(file, reached, end):
            reached = place + frame.size
            if base + place >= from_position:
                yield LoggedRecord(base + place, frame.size, tuple(record.decode_payload(frame.payload, version)))
    except record.UnknownFormat as error:
        raise CorruptLog(f"{file_system.describe(name)} cannot be read: {error}") from None
    finally:
        file.close()
    if following is not None and reached < end:
        raise CorruptLog(f"{file_system.describe(name)} is damaged at offset {reached}")


def verify(file_system: FileSystem) -> VerifyReport:
    """Checks every checksum of the directory."""
    bases, numbers, snapshots = segment_bases(file_system), queue_file_numbers(file_system), snapshot_names(file_system)
    log_damage: list[Damage] = []
    derived_damage: list[Damage] = []
    records = chunks = 0
    synced_until = 0
    for name in snapshots:
        try:
            synced_until = max(synced_until, decode_snapshot(file_system.view(name)).position)
        except DamagedSnapshot as error:
            derived_damage.append(Damage(file_system.describe(name), 0, str(error)))
    for base, following in zip(bases, [*bases[1:], None], strict=True):
        count, damage = _verify_segment(file_system, base, following, synced_until)
        records += count
        log_damage += damage
    for number in numbers:
        count, damage = _verify_queue_file(file_system, queue_file_name(number))
        chunks += count
        derived_damage += damage
    return VerifyReport(
        len(bases), records, len(numbers), chunks, len(snapshots), tuple(log_damage), tuple(derived_damage)
    )


def _verify_segment(
    file_system: FileSystem, base: int, following: int | None, synced_until: int
) -> tuple[int, list[Damage]]:
    """How many records a segment has, and where it is not whole. ``synced_until`` is where the newest snapshot is."""
    name = segment_name(base)
    where = file_system.describe(name)
    file, reached, count = file_system.open(name), record.SEGMENT_HEADER_BYTES, 0
    try:
        record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
        end = file_system.size(name) if following is None else following - base
        for place, frame in read_frames(file, reached, end):
            reached, count = place + frame.size, count + 1
    except record.UnknownFormat as error:
        return 0, [Damage(where, 0, str(error), is_tail=following is None and base >= synced_until)]
    finally:
        file.close()
    if reached == end:
        return count, []
    is_tail = following is None and base + reached >= synced_until
    is_tail = is_tail and not is_synced_behind(file_system.view(name), reached, base)
    return count, [Damage(where, reached, "there is no whole record", is_tail)]


def _verify_queue_file(file_system: FileSystem, name: str) -> tuple[int, list[Damage]]:
    """A file that a later process would not write on may end within a chunk: nobody refers to that one."""
    data, place, count = file_system.view(name), 0, 0
    while place < len(data):
        try:
            message, _ = checked_message(data[place:])
        except DamagedChunk as error:
            return count, [Damage(file_system.describe(name), place, str(error))]
        place += HEADER_BYTES + len(message) + -len(message) % 8
        count += 1
    return count, []
