"""Snapshots: the whole state of a broker at one log position, except the rows that are in queue files.

A snapshot is written to a file of another name and renamed when it is complete. The newest two are kept. Numbers are
little-endian. The checksum covers the position and everything after it::

    0        8        12       16               24               32       36       40
    +--------+--------+--------+----------------+----------------+--------+--------+
    | magic  |version | crc32  | log position   | record length  | header | chunk  | header, chunks, record
    |        |        |        |                |                | length | count  |
    +--------+--------+--------+----------------+----------------+--------+--------+

``header`` is JSON. It has the min offset of each queue, its first offset that is in no queue file, and its number of
chunks in queue files; the max offsets of all queues at the beginning of each segment; and the newest store time. From
version 4, it also has the newest time of writing, in all and of each segment, and the last ``facts.ClockRead``. The
chunks follow queue by queue. Each is::

    first offset, rows, first and last store time in ms        4 x int64
    segment, begin and end of its rows in the log              3 x int64
    queue file, offset, length, crc32                          4 x int64
    bytes of its rows as limits count them, -1 if not known    int64 (not in version 2)

``record`` has the form of a record of the commit log. Its facts are the rest of the state: topics, groups, offsets, and
the messages that are in no queue file.
"""

from __future__ import annotations

import contextlib
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.queues.chunks import Location, SavedChunk
from rmqpull_broker.store.queues.consume_queues import NewestTimes, QueueIndex, SegmentMark
from rmqpull_broker.store.vfs import FileSystem

SNAPSHOT_MAGIC = b"RMQSNAP\x00"
SNAPSHOT_VERSION = 4

_HEADER = struct.Struct("<8sIIQQII")
_CHECKED = struct.Struct("<QQII")
_CHUNK = struct.Struct("<12q")
_CHUNKS = {2: struct.Struct("<11q"), 3: _CHUNK, SNAPSHOT_VERSION: _CHUNK}
_UNKNOWN = -1


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


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """Encodes a snapshot."""
    header = {
        "newestStoreMs": snapshot.times.store_ms,
        "newestWrittenMs": snapshot.times.written_ms,
        "lastReadMs": snapshot.times.last_read_ms,
        "unsavedSince": snapshot.unsaved_since,
        "queues": [[entry.queue, entry.min_offset, entry.unsaved_from, len(entry.saved)] for entry in snapshot.queues],
        "marks": [[*mark[:2], list(mark.max_offsets.items()), mark.newest_written_ms] for mark in snapshot.marks],
    }
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    chunks = [_encode_chunk(chunk) for entry in snapshot.queues for chunk in entry.saved]
    count_record_bytes = record.encode_record(snapshot.facts, snapshot.position)
    sizes = (snapshot.position, len(count_record_bytes), len(header_bytes), len(chunks))
    payload = b"".join([header_bytes, *chunks, count_record_bytes])
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
        raise DamagedSnapshot(f"its format version is {version}; this release reads versions 2 to {SNAPSHOT_VERSION}")
    payload = data[_HEADER.size :]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(*sizes))) != checksum:
        raise DamagedSnapshot("it fails its checksum")
    chunks_end = header_length + chunk_count * chunk_form.size
    header = json.loads(bytes(payload[:header_length]))
    chunks = [_decode_chunk(values) for values in chunk_form.iter_unpack(payload[header_length:chunks_end])]
    # A copy, so that its Arrow buffers are aligned.
    frame = record.read_frame(memoryview(bytes(payload[chunks_end:])), 0)
    if frame is None or frame.size != record_length:
        raise DamagedSnapshot("its record is not complete")
    facts = list(record.decode_payload(frame.payload))
    index = _decode_index(header["queues"], chunks)
    marks = [_decode_mark(*form) for form in header["marks"]]
    newest_ms = header["newestStoreMs"]
    times = NewestTimes(newest_ms, header.get("newestWrittenMs", newest_ms), header.get("lastReadMs", 0))
    return Snapshot(position, times, header["unsavedSince"], facts, index, marks)


def _encode_chunk(chunk: SavedChunk) -> bytes:
    return _CHUNK.pack(*chunk[:4], *chunk.written, *chunk.location, _UNKNOWN if chunk.size is None else chunk.size)


def _decode_chunk(values: tuple[int, ...]) -> SavedChunk:
    first_offset, row_count, first_ms, last_ms = values[:4]
    size = next(iter(values[11:]), _UNKNOWN)
    written, location = LogRange(*values[4:7]), Location(*values[7:11])
    return SavedChunk(first_offset, row_count, first_ms, last_ms, written, location, None if size < 0 else size)


def _decode_index(queues: list[Any], chunks: list[SavedChunk]) -> list[QueueIndex]:
    index, begin = [], 0
    for queue, min_offset, unsaved_from, chunk_count in queues:
        saved = chunks[begin : begin + chunk_count]
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
