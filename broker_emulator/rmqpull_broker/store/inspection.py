"""A look into a data directory: what its commit log holds, and whether its files are whole. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import zip_longest
from typing import NamedTuple

from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.segments import CorruptLog, is_synced_behind, read_frames, segment_bases, segment_name
from rmqpull_broker.store.queues.chunks import HEADER_BYTES, DamagedChunk, checked_message
from rmqpull_broker.store.queues.queue_files import queue_file_name, queue_file_numbers
from rmqpull_broker.store.snapshots.snapshot import DamagedSnapshot, decode_snapshot
from rmqpull_broker.store.snapshots.snapshots import snapshot_names
from rmqpull_broker.store.vfs import FileSystem


class LoggedRecord(NamedTuple):
    """A record of the commit log: where it begins and how long it is, in bytes, and its facts. A mark has none."""

    position: int
    size: int
    facts: tuple[Fact, ...]


class Damage(NamedTuple):
    """A place that is not whole.

    ``is_tail`` says that the broker would cut it off and go on; ``is_passed`` that a start does not read it, because
    the newest snapshot lies behind it.
    """

    file: str
    offset: int
    reason: str
    is_tail: bool = False
    is_passed: bool = False


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
        for place, frame in read_frames(file, reached, end):
            reached = place + frame.size
            if base + place >= from_position:
                yield LoggedRecord(base + place, frame.size, tuple(record.decode_payload(frame.payload, version)))
    except record.UnknownFormat as error:
        raise CorruptLog(f"{file_system.describe(name)} cannot be read: {error}") from None
    finally:
        file.close()
    if reached < end and not (following is None and _is_tail(file_system, base, reached, _replay_start(file_system))):
        raise CorruptLog(f"{file_system.describe(name)} is damaged at offset {reached}")


def verify(file_system: FileSystem) -> VerifyReport:
    """Checks every checksum of the directory."""
    bases, numbers, snapshots = segment_bases(file_system), queue_file_numbers(file_system), snapshot_names(file_system)
    log_damage: list[Damage] = []
    derived_damage: list[Damage] = []
    records = chunks = 0
    for name in snapshots:
        try:
            decode_snapshot(file_system.view(name))
        except DamagedSnapshot as error:
            derived_damage.append(Damage(file_system.describe(name), 0, str(error)))
    replay_start = _replay_start(file_system)
    log_end = bases[-1] + file_system.size(segment_name(bases[-1])) if bases else 0
    for base, following in zip_longest(bases, bases[1:]):
        count, damage = _verify_segment(file_system, base, following, replay_start)
        records += count
        log_damage += [_seen_by_a_start(entry, base, following, replay_start, log_end) for entry in damage]
    for number in numbers:
        count, damage = _verify_queue_file(file_system, queue_file_name(number))
        chunks += count
        derived_damage += damage
    return VerifyReport(
        len(bases), records, len(numbers), chunks, len(snapshots), tuple(log_damage), tuple(derived_damage)
    )


def _verify_segment(
    file_system: FileSystem, base: int, following: int | None, replay_start: int
) -> tuple[int, list[Damage]]:
    """How many records a segment has, and where it is not whole."""
    name = segment_name(base)
    where = file_system.describe(name)
    file, reached, count = file_system.open(name), record.SEGMENT_HEADER_BYTES, 0
    try:
        record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
        end = file_system.size(name) if following is None else following - base
        for place, frame in read_frames(file, reached, end):
            reached, count = place + frame.size, count + 1
    except record.UnknownFormat as error:
        return 0, [Damage(where, 0, str(error), is_tail=following is None and base >= replay_start)]
    finally:
        file.close()
    if reached == end:
        return count, []
    is_tail = following is None and _is_tail(file_system, base, reached, replay_start)
    return count, [Damage(where, reached, "there is no whole record", is_tail)]


def _replay_start(file_system: FileSystem) -> int:
    """The position of the newest whole snapshot: a start reads the log from there, and it was synced up to there."""
    position = 0
    for name in snapshot_names(file_system):
        with suppress(DamagedSnapshot):
            position = max(position, decode_snapshot(file_system.view(name)).position)
    return position


def _is_tail(file_system: FileSystem, base: int, reached: int, replay_start: int) -> bool:
    """Whether nothing proves that what is not whole in the last segment was ever synced (docs/durability.md)."""
    synced = base + reached < replay_start or is_synced_behind(file_system.view(segment_name(base)), reached, base)
    return not synced


def _seen_by_a_start(damage: Damage, base: int, following: int | None, replay_start: int, log_end: int) -> Damage:
    """The damage with whether a start passes over it. It does not when it needs the segment's header, nor when the log
    ends before the snapshot."""
    is_header = damage.offset == 0
    is_before = (
        following is not None and following <= replay_start if is_header else base + damage.offset < replay_start
    )
    return damage._replace(is_passed=is_before and log_end >= replay_start)


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
