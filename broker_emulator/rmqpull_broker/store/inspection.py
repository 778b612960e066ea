"""Reads a data directory: the records of its commit log, and whether its files are damaged. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.segments import (
    CorruptLog,
    is_synced_behind,
    list_segment_bases,
    read_frames,
    segment_name,
)
from rmqpull_broker.store.queues.chunks import DamagedChunk, measure_chunk
from rmqpull_broker.store.queues.queue_files import list_queue_files, name_queue_file
from rmqpull_broker.store.snapshots import DamagedSnapshot, decode_snapshot, list_snapshots
from rmqpull_broker.store.vfs import FileSystem


class LoggedRecord(NamedTuple):
    """A record of the commit log: its log position, its size in bytes, and its facts. A mark has no facts."""

    position: int
    size: int
    facts: tuple[Fact, ...]


class Damage(NamedTuple):
    """Damage in a file.

    ``is_tail``: the broker would cut it off and start. ``is_passed``: a start skips it, because the newest snapshot was
    taken after it.
    """

    file: str
    offset: int
    reason: str
    is_tail: bool = False
    is_passed: bool = False


class VerifyReport(NamedTuple):
    """What was read, and what is damaged. Damage to queue files and snapshots costs time, but no message."""

    segments: int
    records: int
    queue_files: int
    chunks: int
    snapshots: int
    log_damage: tuple[Damage, ...]
    derived_damage: tuple[Damage, ...]


def dump(file_system: FileSystem, from_position: int = 0) -> Iterator[LoggedRecord]:
    """Yields the records at or after ``from_position``, in order. An interrupted write at the end is left out.

    Raises CorruptLog at a damaged record, or at a segment of another format.
    """
    bases = list_segment_bases(file_system)
    for base, following in zip_longest(bases, bases[1:]):
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
        for offset, frame in read_frames(file, reached, end):
            reached = offset + frame.size
            if base + offset >= from_position:
                yield LoggedRecord(base + offset, frame.size, tuple(record.decode_payload(frame.payload, version)))
    except record.UnknownFormat as error:
        raise CorruptLog(f"{file_system.describe(name)} cannot be read: {error}") from None
    finally:
        file.close()
    if reached < end and not (
        following is None and _is_tail(file_system, base, reached, _find_replay_start(file_system))
    ):
        raise CorruptLog(f"{file_system.describe(name)} is damaged at offset {reached}")


def verify(file_system: FileSystem) -> VerifyReport:
    """Checks all checksums of the directory."""
    bases, numbers, snapshots = (
        list_segment_bases(file_system),
        list_queue_files(file_system),
        list_snapshots(file_system),
    )
    log_damage: list[Damage] = []
    derived_damage: list[Damage] = []
    records = chunks = 0
    for name in snapshots:
        try:
            decode_snapshot(file_system.view(name))
        except DamagedSnapshot as error:
            derived_damage.append(Damage(file_system.describe(name), 0, str(error)))
    replay_start = _find_replay_start(file_system)
    log_end = bases[-1] + file_system.size(segment_name(bases[-1])) if bases else 0
    for base, following in zip_longest(bases, bases[1:]):
        count, damage = _verify_segment(file_system, base, following, replay_start)
        records += count
        log_damage += [_set_is_passed(entry, base, following, replay_start, log_end) for entry in damage]
    for number in numbers:
        count, damage = _verify_queue_file(file_system, name_queue_file(number))
        chunks += count
        derived_damage += damage
    return VerifyReport(
        len(bases), records, len(numbers), chunks, len(snapshots), tuple(log_damage), tuple(derived_damage)
    )


def _verify_segment(
    file_system: FileSystem, base: int, following: int | None, replay_start: int
) -> tuple[int, list[Damage]]:
    """Returns the number of records of a segment, and its damage."""
    name = segment_name(base)
    where = file_system.describe(name)
    file, reached, count = file_system.open(name), record.SEGMENT_HEADER_BYTES, 0
    try:
        record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
        end = file_system.size(name) if following is None else following - base
        for offset, frame in read_frames(file, reached, end):
            reached, count = offset + frame.size, count + 1
    except record.UnknownFormat as error:
        return 0, [Damage(where, 0, str(error), is_tail=following is None and base >= replay_start)]
    finally:
        file.close()
    if reached == end:
        return count, []
    is_tail = following is None and _is_tail(file_system, base, reached, replay_start)
    return count, [Damage(where, reached, "there is no complete record", is_tail)]


def _find_replay_start(file_system: FileSystem) -> int:
    """Returns the position of the newest snapshot. A start reads the log from there, and before it all is synced."""
    position = 0
    for name in list_snapshots(file_system):
        with suppress(DamagedSnapshot):
            position = max(position, decode_snapshot(file_system.view(name)).position)
    return position


def _is_tail(file_system: FileSystem, base: int, reached: int, replay_start: int) -> bool:
    """Whether there is no proof that the damaged end of the last segment was ever synced (docs/durability.md)."""
    synced = base + reached < replay_start or is_synced_behind(file_system.view(segment_name(base)), reached, base)
    return not synced


def _set_is_passed(damage: Damage, base: int, following: int | None, replay_start: int, log_end: int) -> Damage:
    """Sets ``is_passed``. A start needs the header of the segment that it reads first, and a log up to the snapshot."""
    is_header = damage.offset == 0
    is_before = (
        following is not None and following <= replay_start if is_header else base + damage.offset < replay_start
    )
    return damage._replace(is_passed=is_before and log_end >= replay_start)


def _verify_queue_file(file_system: FileSystem, name: str) -> tuple[int, list[Damage]]:
    """Returns the number of chunks of a queue file, and its damage.

    The last chunk of a file may be incomplete after a kill. Nothing refers to it then.
    """
    data, offset, count = file_system.view(name), 0, 0
    while offset < len(data):
        try:
            offset += measure_chunk(data[offset:])
        except DamagedChunk as error:
            return count, [Damage(file_system.describe(name), offset, str(error))]
        count += 1
    return count, []
