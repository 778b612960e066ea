"""Chunks: runs of rows of one queue as one Arrow record batch, in memory or in a queue file.

A queue file is a sequence of chunks, one after the other, each padded to 8 bytes::

    0        4        8                16
    +--------+--------+----------------+---------------------------+-----
    | magic  | crc32  | message length | Arrow IPC record batch    | pad
    +--------+--------+----------------+---------------------------+-----

All numbers are little-endian. The checksum covers the length and the message; its schema is ``columns.STORED_SCHEMA``.
Which queue and offsets a chunk has is told by the chunk index in the snapshots alone.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.state.ports import LogRange

CHUNK_MAGIC = b"RMQK"
CHUNK_ROWS_MAX = 8192
CHUNK_BYTES_MAX = 8 << 20
"""Chunks are merged up to these sizes; larger ones only come from larger batches."""

_HEADER = struct.Struct("<4sIQ")
_LENGTH = struct.Struct("<Q")
HEADER_BYTES = _HEADER.size


class DamagedChunk(Exception):
    """A queue file does not hold what the chunk index says."""


class Location(NamedTuple):
    """Where a chunk was saved: the queue file's number, and the chunk's place, length and checksum in it."""

    file_number: int
    place: int
    length: int
    checksum: int


class SavedChunk(NamedTuple):
    """What is known of a chunk that left the memory. ``written`` is where the log holds its rows.

    ``size`` is what byte limits count of its rows (``columns.count_row_bytes``); None when it is not known.
    """

    first_offset: int
    row_count: int
    first_store_ms: int
    last_store_ms: int
    written: LogRange
    location: Location
    size: int | None


class PackedRows(NamedTuple):
    """Rows that nobody reads for long: compressed, since much in them is alike."""

    data: bytes
    byte_count: int

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return pa.ipc.read_record_batch(pa.decompress(self.data, self.byte_count, "zstd"), columns.STORED_SCHEMA)


class FreshChunk(NamedTuple):
    """A chunk that is in no queue file yet."""

    first_offset: int
    row_count: int
    first_store_ms: int
    last_store_ms: int
    written: LogRange
    rows: pa.RecordBatch | PackedRows
    byte_count: int

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return self.rows.batch if isinstance(self.rows, PackedRows) else self.rows

    def packed(self) -> FreshChunk:
        """The same in less memory."""
        data = self.batch.serialize()
        # As bytes: an Arrow buffer would keep all the room that the compression might have needed.
        packed = PackedRows(pa.compress(data, "zstd", asbytes=True), data.size)
        # What was merged before left gaps that nobody fills for long.
        pa.default_memory_pool().release_unused()
        return self._replace(rows=packed, byte_count=len(packed.data))

    @property
    def is_full(self) -> bool:
        """Whether it is too large to be merged with one of its size."""
        return 2 * self.row_count > CHUNK_ROWS_MAX or 2 * self.byte_count > CHUNK_BYTES_MAX

    def merged(self, following: FreshChunk) -> FreshChunk:
        """Both as one."""
        return FreshChunk(
            self.first_offset,
            self.row_count + following.row_count,
            self.first_store_ms,
            following.last_store_ms,
            spanning(self.written, following.written),
            pa.concat_batches([self.batch, following.batch]),
            self.byte_count + following.byte_count,
        )

    def saved(self, location: Location) -> SavedChunk:
        """What is left of it in memory when it is saved."""
        return SavedChunk(*self[:5], location, columns.count_bytes(self.batch))


def spanning(first: LogRange, last: LogRange) -> LogRange:
    """From the beginning of one write to the end of a later one."""
    return LogRange(first.segment, first.from_position, last.until_position)


def fresh_chunk(first_offset: int, batch: pa.RecordBatch, written: LogRange) -> FreshChunk:
    """A chunk of a batch of ``columns.STORED_SCHEMA``."""
    times = batch.column("storeTimestamp")
    first_ms, last_ms = times[0].value // 1000, times[batch.num_rows - 1].value // 1000
    return FreshChunk(first_offset, batch.num_rows, first_ms, last_ms, written, batch, batch.nbytes)


def encode_chunk(batch: pa.RecordBatch) -> tuple[list[bytes | memoryview], int]:
    """A chunk's bytes, in parts that are not copied together, and their checksum."""
    message = batch.serialize()
    checksum = zlib.crc32(message, zlib.crc32(_LENGTH.pack(len(message))))
    header = _HEADER.pack(CHUNK_MAGIC, checksum, len(message))
    return [header, memoryview(message), bytes(-len(message) % 8)], checksum


def checked_message(data: memoryview) -> tuple[memoryview, int]:
    """The Arrow message of the chunk that ``data`` begins with, and its checksum. Raises DamagedChunk."""
    if len(data) < HEADER_BYTES:
        raise DamagedChunk("it ends within a chunk's header")
    magic, checksum, length = _HEADER.unpack_from(data)
    message = data[HEADER_BYTES : HEADER_BYTES + length]
    if magic != CHUNK_MAGIC or len(message) < length:
        raise DamagedChunk("there is no whole chunk")
    if zlib.crc32(message, zlib.crc32(_LENGTH.pack(length))) != checksum:
        raise DamagedChunk("a chunk fails its checksum")
    return message, checksum


def decode_chunk(data: bytes, location: Location) -> pa.RecordBatch:
    """The rows of a chunk, as a view of ``data``. Raises DamagedChunk unless it is the one that was saved there."""
    message, checksum = checked_message(memoryview(data))
    if checksum != location.checksum:
        raise DamagedChunk("another chunk is there")
    return pa.ipc.read_record_batch(pa.py_buffer(message), columns.STORED_SCHEMA)
