"""Chunks: consecutive rows of one queue as one Arrow record batch, in memory or in a queue file.

A queue file is a sequence of chunks, one after the other, each padded to 8 bytes::

    0        4        8                16
    +--------+--------+----------------+---------------------------+-----
    | magic  | crc32  | message length | Arrow IPC record batch    | pad
    +--------+--------+----------------+---------------------------+-----

All numbers are little-endian. The checksum covers the length and the message; its schema is ``columns.STORED_SCHEMA``.
A chunk does not name its queue and offsets; the chunk index in the snapshots does.
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
"""Chunks are merged up to these sizes. A chunk is larger only if it is a single larger batch."""

_HEADER = struct.Struct("<4sIQ")
_LENGTH = struct.Struct("<Q")
HEADER_BYTES = _HEADER.size


class DamagedChunk(Exception):
    """A queue file does not have the chunk that the index names."""


class Location(NamedTuple):
    """Where a chunk is saved: the number of the queue file, and offset, length and checksum of the chunk in it."""

    file_number: int
    offset: int
    length: int
    checksum: int


class SavedChunk(NamedTuple):
    """A chunk in a queue file. ``written`` says where the log has its rows.

    ``size`` has the bytes of its rows as limits count them (``columns.count_row_bytes``); None when they are not known.
    """

    first_offset: int
    row_count: int
    first_store_ms: int
    last_store_ms: int
    written: LogRange
    location: Location
    size: int | None


class PackedRows(NamedTuple):
    """Compressed rows, for messages that are not read soon."""

    data: bytes
    byte_count: int

    @property
    def batch(self) -> pa.RecordBatch:
        """The rows."""
        return pa.ipc.read_record_batch(pa.decompress(self.data, self.byte_count, "zstd"), columns.STORED_SCHEMA)


class FreshChunk(NamedTuple):
    """A chunk that is not in a queue file yet."""

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

    def pack(self) -> FreshChunk:
        """Returns the chunk with compressed rows."""
        data = self.batch.serialize()
        # As bytes, because an Arrow buffer would keep the maximum size that the compression could have needed.
        packed = PackedRows(pa.compress(data, "zstd", asbytes=True), data.size)
        # Merges leave free memory in Arrow's pool that nothing would use.
        pa.default_memory_pool().release_unused()
        return self._replace(rows=packed, byte_count=len(packed.data))

    @property
    def is_full(self) -> bool:
        """Whether it is too large to be merged with a chunk of the same size."""
        return 2 * self.row_count > CHUNK_ROWS_MAX or 2 * self.byte_count > CHUNK_BYTES_MAX

    def merge(self, following: FreshChunk) -> FreshChunk:
        """Returns both chunks as one."""
        return FreshChunk(
            self.first_offset,
            self.row_count + following.row_count,
            self.first_store_ms,
            following.last_store_ms,
            span(self.written, following.written),
            columns.concat_batches([self.batch, following.batch]),
            self.byte_count + following.byte_count,
        )

    def saved(self, location: Location) -> SavedChunk:
        """Returns what stays in memory when the chunk is saved."""
        return SavedChunk(*self[:5], location, columns.count_bytes(self.batch))


def span(first: LogRange, last: LogRange) -> LogRange:
    """Returns the range from the beginning of one write to the end of a later one."""
    return LogRange(first.segment, first.from_position, last.until_position)


def make_chunk(first_offset: int, batch: pa.RecordBatch, written: LogRange) -> FreshChunk:
    """Makes a chunk of a batch of ``columns.STORED_SCHEMA``."""
    times = batch.column("storeTimestamp")
    first_ms, last_ms = times[0].value // 1000, times[batch.num_rows - 1].value // 1000
    return FreshChunk(first_offset, batch.num_rows, first_ms, last_ms, written, batch, batch.nbytes)


def encode_chunk(batch: pa.RecordBatch) -> tuple[list[bytes | memoryview], int]:
    """Returns a chunk's bytes, in parts that need not be copied, and their checksum."""
    message = batch.serialize()
    checksum = zlib.crc32(message, zlib.crc32(_LENGTH.pack(len(message))))
    header = _HEADER.pack(CHUNK_MAGIC, checksum, len(message))
    return [header, memoryview(message), bytes(-len(message) % 8)], checksum


def read_message(data: memoryview) -> tuple[memoryview, int]:
    """Returns the Arrow message of the chunk at the start of ``data``, and its checksum. Raises DamagedChunk."""
    if len(data) < HEADER_BYTES:
        raise DamagedChunk("the file ends within the header of a chunk")
    magic, checksum, length = _HEADER.unpack_from(data)
    message = data[HEADER_BYTES : HEADER_BYTES + length]
    if magic != CHUNK_MAGIC or len(message) < length:
        raise DamagedChunk("the chunk is not complete")
    if zlib.crc32(message, zlib.crc32(_LENGTH.pack(length))) != checksum:
        raise DamagedChunk("the chunk fails its checksum")
    return message, checksum


def decode_chunk(data: bytes, location: Location) -> pa.RecordBatch:
    """Returns the rows of a chunk, as a view of ``data``. Raises DamagedChunk for any other chunk."""
    message, checksum = read_message(memoryview(data))
    if checksum != location.checksum:
        raise DamagedChunk("there is another chunk at this offset")
    return pa.ipc.read_record_batch(pa.py_buffer(message), columns.STORED_SCHEMA)
