"""The bytes of a snapshot: everything a broker knew at one log position, but for the rows that are in queue files.

All numbers are little-endian. The checksum covers the position and everything behind::

    0        8        12       16               24               32       36       40
    +--------+--------+--------+----------------+----------------+--------+--------+
    | magic  |version | crc32  | log position   | record length  | header | chunk  | header, chunks, record
    |        |        |        |                |                | length | count  |
    +--------+--------+--------+----------------+----------------+--------+--------+

``header`` is JSON: for each queue its min offset, the first offset that is in no queue file, and how many chunks it has
in queue files; what the queues were when each segment began; the newest store time. Each chunk, queue by queue, is::

    first offset, rows, first and last store time in ms        4 x int64
    segment, begin and end of its rows in the log              3 x int64
    queue file, place, length, crc32                           4 x int64
    bytes of its rows as limits count them, -1 if not known    int64 (not in version 2)

``record`` is one record as in the commit log. Its facts give the rest: topics, groups, offsets, and the messages that
are in no queue file.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.queues.chunks import Location, SavedChunk
from rmqpull_broker.store.queues.queues import QueueIndex, SegmentMark

SNAPSHOT_MAGIC = b"RMQSNAP\x00"
SNAPSHOT_VERSION = 3

_HEADER = struct.Struct("<8sIIQQII")
_CHECKED = struct.Struct("<QQII")
_CHUNK = struct.Struct("<12q")
_CHUNKS = {2: struct.Struct("<11q"), SNAPSHOT_VERSION: _CHUNK}
_UNKNOWN = -1


class DamagedSnapshot(Exception):
    """A snapshot cannot be used; the text says why."""


class Snapshot(NamedTuple):
    """What is known at log position ``position``. ``unsaved_since`` is that of the oldest message among the facts."""

    position: int
    newest_store_ms: int
    unsaved_since: int
    facts: Sequence[Fact]
    queues: Sequence[QueueIndex]
    marks: Sequence[SegmentMark]


def encode_snapshot(snapshot: Snapshot) -> bytes:
    """A snapshot as bytes."""
    header = {
        "newestStoreMs": snapshot.newest_store_ms,
        "unsavedSince": snapshot.unsaved_since,
        "queues": [[entry.queue, entry.min_offset, entry.unsaved_from, len(entry.saved)] for entry in snapshot.queues],
        "marks": [[mark.segment, mark.newest_store_ms, list(mark.max_offsets.items())] for mark in snapshot.marks],
    }
    header_bytes = json.dumps(header, separators=(",", ":")).encode()
    chunks = [_encode_chunk(chunk) for entry in snapshot.queues for chunk in entry.saved]
    count_record_bytes = record.encode_record(snapshot.facts, snapshot.position)
    sizes = (snapshot.position, len(count_record_bytes), len(header_bytes), len(chunks))
    payload = b"".join([header_bytes, *chunks, count_record_bytes])
    checksum = zlib.crc32(payload, zlib.crc32(_CHECKED.pack(*sizes)))
    return _HEADER.pack(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, checksum, *sizes) + payload


def decode_snapshot(data: memoryview) -> Snapshot:
    """The snapshot in ``data``, of whose messages some stay views. Raises DamagedSnapshot."""
    if len(data) < _HEADER.size:
        raise DamagedSnapshot("it ends within its header")
    magic, version, checksum, *sizes = _HEADER.unpack_from(data)
    position, record_length, header_length, chunk_count = sizes
    if magic != SNAPSHOT_MAGIC:
        raise DamagedSnapshot(f"it begins with {magic!r} and not with {SNAPSHOT_MAGIC!r}")
    chunk_form = _CHUNKS.get(version)
    if chunk_form is None:
        raise DamagedSnapshot(f"its format version is {version}; this release reads versions 2 and {SNAPSHOT_VERSION}")
    payload = data[_HEADER.size :]
    if zlib.crc32(payload, zlib.crc32(_CHECKED.pack(*sizes))) != checksum:
        raise DamagedSnapshot("it fails its checksum")
    chunks_end = header_length + chunk_count * chunk_form.size
    header = json.loads(bytes(payload[:header_length]))
    chunks = [_decode_chunk(values) for values in chunk_form.iter_unpack(payload[header_length:chunks_end])]
    # A copy, so that its Arrow buffers are aligned.
    frame = record.read_frame(memoryview(bytes(payload[chunks_end:])), 0)
    if frame is None or frame.size != record_length:
        raise DamagedSnapshot("its record is not whole")
    facts = list(record.decode_payload(frame.payload))
    index = _index(header["queues"], chunks)
    marks = [_mark(*form) for form in header["marks"]]
    return Snapshot(position, header["newestStoreMs"], header["unsavedSince"], facts, index, marks)


def _encode_chunk(chunk: SavedChunk) -> bytes:
    return _CHUNK.pack(*chunk[:4], *chunk.written, *chunk.location, _UNKNOWN if chunk.size is None else chunk.size)


def _decode_chunk(values: tuple[int, ...]) -> SavedChunk:
    first_offset, row_count, first_ms, last_ms = values[:4]
    size = next(iter(values[11:]), _UNKNOWN)
    written, location = LogRange(*values[4:7]), Location(*values[7:11])
    return SavedChunk(first_offset, row_count, first_ms, last_ms, written, location, None if size < 0 else size)


def _index(queues: list[Any], chunks: list[SavedChunk]) -> list[QueueIndex]:
    index, place = [], 0
    for queue, min_offset, unsaved_from, chunk_count in queues:
        saved = chunks[place : place + chunk_count]
        index.append(QueueIndex(MessageQueue(*queue), min_offset, unsaved_from, saved))
        place += chunk_count
    return index


def _mark(segment: int, newest_store_ms: int, max_offsets: list[Any]) -> SegmentMark:
    return SegmentMark(segment, newest_store_ms, {MessageQueue(*queue): offset for queue, offset in max_offsets})
