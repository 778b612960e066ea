"""Snapshots: the whole state of a broker at one log position, except the rows that are in queue files.

A snapshot is written to a file of another name and renamed when it is complete. The newest two are kept. Numbers are
little-endian. The checksum covers the position and everything after it::

    0        8        12       16               24               32       36       40
    +--------+--------+--------+----------------+----------------+--------+--------+
    | magic  |version | crc32  | log position   | record length  | header | chunk  | header, chunks, record
    |        |        |        |                |                | length | count  |
    +--------+--------+--------+----------------+----------------+--------+--------+

``header`` is JSON. It has the min offset of each queue, the offset after its chunks, and their number; the max offsets
of all queues at the beginning of each segment; and the newest store time. From version 4, it also has the newest time
of writing, in all and of each segment, and the last ``facts.ClockRead``. From version 8, it has the rows of open stages
and what commits made readable in each segment, and a table of store hosts. The chunks follow queue by queue. Each is::

    first offset, rows, first and last store time in ms        4 x int64
    segment, begin and end of its rows in the log              3 x int64
    queue file, or segment; offset or log position;            4 x int64
        length; crc32
    bytes of its rows as limits count them, -1 if not known    int64 (not in version 2)
    store host in the table; -1 for a chunk in a queue file    int64 (from version 8)
    its first row in the message; rows and columns of that     3 x int64 (from version 8)

A chunk with a store host is a part of a message in the log.

``record`` has the form of a record of the commit log. Its facts are the rest of the state: topics, groups, offsets, and
the messages that are in no queue file.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

from rmqpull_broker.core.model import LoggedMessage, MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.queues.chunks import Location, Run, RunPart, RunParts, SavedChunk
from rmqpull_broker.store.queues.consume_queues import QueueIndex
from rmqpull_broker.store.queues.segment_marks import NewestTimes, SegmentMark, SplicedSegment
from rmqpull_broker.store.queues.staged_rows import StagedIndex
from rmqpull_broker.store.vfs import FileSystem

SNAPSHOT_MAGIC = b"RMQSNAP\x00"
SNAPSHOT_VERSION = 8
"""A flipped bit of it, as of the log's, makes no other version that is read."""

_HEADER = struct.Struct("<8sIIQQII")
_CHECKED = struct.Struct("<QQII")
_CHUNK = struct.Struct("<16q")
_CHUNKS = {2: struct.Struct("<11q"), 3: struct.Struct("<12q"), 4: struct.Struct("<12q"), SNAPSHOT_VERSION: _CHUNK}
_UNKNOWN = _IN_FILE = -1


class DamagedSnapshot(Exception):
    """A snapshot cannot be used. The text says why."""


class Snapshot(NamedTuple):
    """The state at log position ``position``. ``unsaved_since`` is the position of the oldest message in the facts."""

    position: int
    times: NewestTimes
    unsaved_since: int
    facts: Sequence[Fact]
    queues: Sequence[QueueIndex]
    marks: Sequence[SegmentMark]
    spliced: Mapping[int, SplicedSegment]
    staged: Sequence[StagedIndex]


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes a snapshot."""
    hosts: dict[str, int] = {}
    chunks = [[*_encode_chunks(entry.saved, hosts)] for entry in snapshot.queues]
    header = {
        "newestStoreMs": snapshot.times.store_ms,
        "newestWrittenMs": snapshot.times.written_ms,
        "lastReadMs": snapshot.times.last_read_ms,
        "unsavedSince": snapshot.unsaved_since,
        "queues": [
            [entry.queue, entry.min_offset, entry.unsaved_from, len(own)]
            for entry, own in zip(snapshot.queues, chunks, strict=True)
        ],
        "marks": [[*mark[:2], list(mark.max_offsets.items()), mark.newest_written_ms] for mark in snapshot.marks],
        "hosts": list(hosts),
        "spliced": [[segment, *times, list(ends.items())] for segment, (*times, ends) in snapshot.spliced.items()],
        "staged": [[*entry[:-1], list(entry.held.items())] for entry in snapshot.staged],
    }
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    facts = record.encode_record(snapshot.facts, snapshot.position)
    sizes = (snapshot.position, len(facts), len(header_bytes), sum(map(len, chunks)))
    payload = b"".join([header_bytes, *chain.from_iterable(chunks), facts])
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(*sizes)))
    return _HEADER.pack(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, checksum, *sizes) + payload


def decode_snapshot(data: memoryview) -> Snapshot:
    """Decodes a snapshot. Some of its messages stay views of ``data``. Raises DamagedSnapshot."""
    if len(data) < _HEADER.size:
        raise DamagedSnapshot("its header is not complete")
    magic, version, checksum, *sizes = _HEADER.unpack_from(data)
    position, record_length, header_length, chunk_count = sizes
    if magic != SNAPSHOT_MAGIC:
        raise DamagedSnapshot(f"it begins with {magic!r} instead of {SNAPSHOT_MAGIC!r}")
    chunk_form = _CHUNKS.get(version)
    if chunk_form is None:
        raise DamagedSnapshot(
            f"its format version is {version}; this release reads versions 2, 3, 4 and {SNAPSHOT_VERSION}"
        )
    payload = data[_HEADER.size :]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(*sizes))) != checksum:
        raise DamagedSnapshot("it fails its checksum")
    chunks_end = header_length + chunk_count * chunk_form.size
    header = json.loads(bytes(payload[:header_length]))
    chunks = list(chunk_form.iter_unpack(payload[header_length:chunks_end]))
    # A copy, so that its Arrow buffers are aligned.
    frame = record.read_frame(memoryview(bytes(payload[chunks_end:])), 0)
    if frame is None or frame.size != record_length:
        raise DamagedSnapshot("its record is not complete")
    facts = list(record.decode_payload(frame.payload))
    index = _decode_index(header["queues"], chunks, header.get("hosts", []))
    marks = [_decode_mark(*form) for form in header["marks"]]
    newest_ms = header["newestStoreMs"]
    times = NewestTimes(newest_ms, header.get("newestWrittenMs", newest_ms), header.get("lastReadMs", 0))
    spliced = {
        segment: SplicedSegment(store_ms, written_ms, {MessageQueue(*queue): end for queue, end in ends})
        for segment, store_ms, written_ms, ends in header.get("spliced", [])
    }
    staged = [_decode_staged(*form) for form in header.get("staged", [])]
    return Snapshot(position, times, header["unsavedSince"], facts, index, marks, spliced, staged)


def _encode_chunks(chunks: Iterable[SavedChunk | Run], hosts: dict[str, int]) -> Iterator[bytes]:
    """Yields chunks, and the parts of runs. Adds new store hosts to the table."""
    for chunk in chunks:
        if isinstance(chunk, SavedChunk):
            size = _UNKNOWN if chunk.size is None else chunk.size
            yield _CHUNK.pack(*chunk[:4], *chunk.written, *chunk.location, size, _IN_FILE, 0, 0, 0)
            continue
        offset, host = chunk.first_offset, hosts.setdefault(chunk.store_host, len(hosts))
        for message, begin, row_count, size in chunk.parts:
            assert isinstance(message, LoggedMessage), "snapshots refer to a log"
            *place, message_rows, column_bits = message
            span = offset, row_count, chunk.store_ms, chunk.store_ms
            yield _CHUNK.pack(*span, *chunk.written, *place, size, host, begin, message_rows, column_bits)
            offset += row_count


def _decode_chunks(forms: Iterable[tuple[int, ...]], hosts: Sequence[str]) -> list[SavedChunk | Run]:
    """Returns chunks, and runs of the parts that were one before."""
    found: list[SavedChunk | Run] = []
    for values in forms:
        host, begin, message_rows, column_bits = values[12:] or (_IN_FILE, 0, 0, 0)
        if host == _IN_FILE:
            found.append(_decode_chunk(values))
            continue
        first_offset, row_count, store_ms, _, *others = values
        written = LogRange(others[0], others[1], others[2])
        message = LoggedMessage(others[3], others[4], others[5], others[6], message_rows, column_bits)
        part, last = RunPart(message, begin, row_count, others[7]), found[-1] if found else None
        place = first_offset, store_ms, hosts[host], written
        if isinstance(last, Run) and place == (last.first_offset + last.row_count, *last[2:5]):
            count = last.row_count + row_count
            last.parts.append(part)
            found[-1] = last._replace(row_count=count, byte_count=last.byte_count + part.size)
        else:
            found.append(Run(first_offset, row_count, *place[1:], RunParts([part]), part.size))
    return found


def _decode_staged(
    stage_id: str, written: list[int], written_ms: int, next_sequence: int, parts: list[Any], held: list[Any]
) -> StagedIndex:
    calls = {sequence: _decode_parts(of_call) for sequence, of_call in held}
    return StagedIndex(stage_id, LogRange(*written), written_ms, next_sequence, _decode_parts(parts), calls)


def _decode_parts(forms: list[Any]) -> list[tuple[MessageQueue, RunPart]]:
    return [(MessageQueue(*queue), RunPart(LoggedMessage(*message), *others)) for queue, (message, *others) in forms]


def _decode_chunk(values: tuple[int, ...]) -> SavedChunk:
    first_offset, row_count, first_ms, last_ms = values[:4]
    size = values[11] if len(values) > 11 else _UNKNOWN
    written, location = LogRange(*values[4:7]), Location(*values[7:11])
    return SavedChunk(first_offset, row_count, first_ms, last_ms, written, location, None if size < 0 else size)


def _decode_index(queues: list[Any], chunks: Sequence[tuple[int, ...]], hosts: Sequence[str]) -> list[QueueIndex]:
    index, begin = [], 0
    for queue, min_offset, unsaved_from, chunk_count in queues:
        saved = _decode_chunks(chunks[begin : begin + chunk_count], hosts)
        index.append(QueueIndex(MessageQueue(*queue), min_offset, unsaved_from, saved))
        begin += chunk_count
    return index


def _decode_mark(
    segment: int, newest_store_ms: int, max_offsets: list[Any], newest_written_ms: int | None = None
) -> SegmentMark:
    """Decodes a mark. Those of versions 2 and 3 have no time of writing."""
    written_ms = newest_store_ms if newest_written_ms is None else newest_written_ms
    offsets = {MessageQueue(*queue): offset for queue, offset in max_offsets}
    return SegmentMark(segment, newest_store_ms, written_ms, offsets)


KEPT = 2

_SUFFIX = ".snapshot"
_UNFINISHED = "unfinished" + _SUFFIX
_FILE_NAME = re.compile(r"[0-9]{20}\.snapshot")


def list_snapshots(file_system: FileSystem) -> list[str]:
    """Returns the snapshot files of a directory, oldest first."""
    return [name for name in file_system.names() if _FILE_NAME.fullmatch(name)]


class Snapshots:
    """The snapshots of a directory, named after their log positions. ``report`` gets a sentence about each damaged
    one."""

    def __init__(self, file_system: FileSystem, report: Callable[[str], None]) -> None:
        self._file_system = file_system
        self._report = report
        self._damaged: set[str] = set()

    def read(self) -> Iterator[Snapshot]:
        """Yields the undamaged snapshots, newest first."""
        for name in reversed(list_snapshots(self._file_system)):
            try:
                snapshot = decode_snapshot(self._file_system.view(name))
            except (DamagedSnapshot, OSError) as error:
                self._damaged.add(name)
                self._report(f"{self._file_system.describe(name)} is skipped: {error}")
            else:
                yield snapshot

    def write(self, snapshot: Snapshot) -> None:
        """Writes and syncs a snapshot, and deletes old and damaged ones. Raises OSError."""
        if _UNFINISHED in self._file_system.names():
            self._file_system.remove(_UNFINISHED)
        file = self._file_system.create(_UNFINISHED)
        try:
            file.write(encode_snapshot(snapshot))
            file.sync()
        finally:
            file.close()
        self._file_system.rename(_UNFINISHED, _name(snapshot.position))
        self._damaged.discard(_name(snapshot.position))
        self._remove_old()

    def _remove_old(self) -> None:
        sound = [name for name in list_snapshots(self._file_system) if name not in self._damaged]
        for name in [*self._damaged, *sound[:-KEPT]]:
            with contextlib.suppress(OSError):
                self._file_system.remove(name)
        self._damaged.clear()

    def remove_before(self, position: int) -> None:
        """Deletes the snapshots before ``position``, which are useless when the log begins there. Raises OSError."""
        for name in list_snapshots(self._file_system):
            if _position(name) < position:
                self._file_system.remove(name)


def _name(position: int) -> str:
    return f"{position:020d}{_SUFFIX}"


def _position(name: str) -> int:
    return int(name.removesuffix(_SUFFIX))
