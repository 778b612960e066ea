"""Chunks: consecutive rows of one queue as one Arrow record batch, in memory or in a queue file; and runs, which refer
to rows where the commit log has them.

A queue file is a sequence of chunks, one after the other, each padded to 8 bytes::

    0        4        8                16
    +--------+--------+----------------+---------------------------+-----
    | magic  | crc32  | message length | Arrow IPC record batch    | pad
    +--------+--------+----------------+---------------------------+-----

All numbers are little-endian. The checksum covers the length and the message; its schema is ``columns.STORED_SCHEMA``.
A chunk does not name its queue and offsets; the chunk index in the snapshots does.
"""

from __future__ import annotations

import bisect
import struct
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, overload

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import logged_columns

CHUNK_MAGIC = b"RMQK"
CHUNK_ROWS_MAX = 8192
CHUNK_BYTES_MAX = 8 << 20
"""Chunks are merged up to these sizes. A chunk is larger only if it is a single larger batch."""

RUN_BYTES = 1 << 10
"""About the memory of a run with few parts, for the index of its queue too."""

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


class RunPart(NamedTuple):
    """``row_count`` consecutive rows of a message, from row ``begin`` on. ``size`` is that of :class:`SavedChunk`.

    ``message`` says where the log has it; without a log, it is the rows themselves.
    """

    message: LoggedMessage | pa.RecordBatch
    begin: int
    row_count: int
    size: int

    @property
    def segment(self) -> int:
        """The segment that has the message; -1 without a log."""
        return self.message.segment if isinstance(self.message, LoggedMessage) else -1

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the rows: none with a log."""
        message = self.message
        return 0 if isinstance(message, LoggedMessage) else message.nbytes * self.row_count // message.num_rows

    def read(self, read_message: Callable[[LoggedMessage], pa.RecordBatch] | None) -> pa.RecordBatch:
        """Returns the rows, without what a queue gives them."""
        message = self.message
        if isinstance(message, LoggedMessage):
            assert read_message is not None, "only a store with a log refers to it"
            message = read_message(message)
        return message.slice(self.begin, self.row_count)


class RunParts(Sequence[RunPart]):
    """Parts in about 50 bytes of memory each: there may be millions. ``ends`` has the rows up to the end of each."""

    __slots__ = ("_messages", "_numbers", "ends")

    def __init__(self, parts: Iterable[RunPart] = ()) -> None:
        self._messages: list[LoggedMessage | pa.RecordBatch] = []
        self._numbers = array("q")
        self.ends = array("q")
        for part in parts:
            self.append(part)

    def append(self, part: RunPart) -> None:
        """Adds a part at the end."""
        self._messages.append(part.message)
        self._numbers.extend(part[1:])
        self.ends.append(part.row_count + (self.ends[-1] if self.ends else 0))

    @property
    def is_scattered(self) -> bool:
        """Whether they are so small that readers are slow."""
        return bool(self.ends) and self.ends[-1] < len(self) * logged_columns.PART_ROWS_MIN

    def __len__(self) -> int:
        return len(self._messages)

    @overload
    def __getitem__(self, index: int) -> RunPart: ...
    @overload
    def __getitem__(self, index: slice) -> RunParts: ...
    def __getitem__(self, index: int | slice) -> RunPart | RunParts:
        if isinstance(index, slice):
            return self._slice(*index.indices(len(self)))
        return RunPart(self._messages[index], *self._numbers[3 * index : 3 * index + 3])

    def _slice(self, begin: int, end: int, step: int) -> RunParts:
        assert step == 1, "parts stay in order"
        taken, rows_before = RunParts(), self.ends[begin - 1] if begin else 0
        taken._messages, taken._numbers = self._messages[begin:end], self._numbers[3 * begin : 3 * end]
        taken.ends = array("q", [row - rows_before for row in self.ends[begin:end]])
        return taken

    @property
    def byte_count(self) -> int:
        """The sum of the sizes."""
        return sum(self._numbers[2::3])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class Run(NamedTuple):
    """Consecutive rows of a queue that became readable together, as parts of messages in the log.

    ``byte_count`` is the size of all rows as limits count it. ``written`` covers the records with the rows, and the
    commit.
    """

    first_offset: int
    row_count: int
    store_ms: int
    store_host: str
    written: LogRange
    parts: RunParts
    byte_count: int

    @property
    def first_store_ms(self) -> int:
        """The store time of the first row."""
        return self.store_ms

    @property
    def last_store_ms(self) -> int:
        """The store time of the last row."""
        return self.store_ms

    @property
    def memory_bytes(self) -> int:
        """The approximate memory of the rows: none with a log."""
        has_log = isinstance(self.parts[0].message, LoggedMessage)
        return 0 if has_log else sum(part.memory_bytes for part in self.parts)

    @property
    def is_scattered(self) -> bool:
        """See :attr:`RunParts.is_scattered`."""
        return self.parts.is_scattered

    @property
    def scattered_bytes(self) -> int:
        """What waits until a scattered run is saved: the bytes of its rows, and the memory of the run itself."""
        return self.byte_count + RUN_BYTES

    def list_within(self, from_offset: int, until_offset: int) -> Iterator[tuple[int, RunPart]]:
        """Yields the parts with rows of ``[from_offset, until_offset)``, each with the offset of its first row."""
        index = bisect.bisect_right(self.parts.ends, from_offset - self.first_offset)
        for at in range(index, len(self.parts)):
            part = self.parts[at]
            begin = self.first_offset + self.parts.ends[at] - part.row_count
            if begin >= until_offset:
                return
            yield begin, part

    def without_before(self, min_offset: int) -> Run:
        """Returns the run without the parts that end at or before ``min_offset``."""
        dropped = bisect.bisect_right(self.parts.ends, min_offset - self.first_offset)
        if not dropped:
            return self
        rows, left = self.parts.ends[dropped - 1], self.parts[dropped:]
        return self._replace(
            first_offset=self.first_offset + rows,
            row_count=self.row_count - rows,
            parts=left,
            byte_count=left.byte_count,
        )


class HeldRows(NamedTuple):
    """Rows in memory up to ``until_offset``: the log position after them, the store time of the last, their bytes."""

    until_offset: int
    written_until: int
    last_store_ms: int
    byte_count: int


def span(first: LogRange, last: LogRange) -> LogRange:
    """Returns the range that covers two writes."""
    return LogRange(
        min(first.segment, last.segment),
        min(first.from_position, last.from_position),
        max(first.until_position, last.until_position),
    )


def make_chunk(first_offset: int, batch: pa.RecordBatch, written: LogRange) -> FreshChunk:
    """Makes a chunk of a batch of ``columns.STORED_SCHEMA``."""
    times = batch.column("storeTimestamp")
    first_ms, last_ms = times[0].value // 1000, times[batch.num_rows - 1].value // 1000
    return FreshChunk(first_offset, batch.num_rows, first_ms, last_ms, written, batch, batch.nbytes)


def make_run(first_offset: int, message: LoggedMessage, rows: pa.RecordBatch, written: LogRange) -> Run:
    """Returns the rows of a whole message where the log has them. ``rows`` are the same rows, in a queue."""
    store_ms, host = rows.column("storeTimestamp")[0].value // 1000, rows.column("storeHost")[0].as_py()
    size = columns.count_bytes(rows)
    part = RunPart(message, 0, rows.num_rows, size)
    return Run(first_offset, rows.num_rows, store_ms, host, written, RunParts([part]), size)


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


def measure_chunk(data: memoryview) -> int:
    """Returns the bytes of the chunk at the start of ``data``. Raises DamagedChunk."""
    message, _ = read_message(data)
    return HEADER_BYTES + len(message) + -len(message) % 8


def decode_chunk(data: bytes, location: Location) -> pa.RecordBatch:
    """Returns the rows of a chunk, as a view of ``data``. Raises DamagedChunk for any other chunk."""
    message, checksum = read_message(memoryview(data))
    if checksum != location.checksum:
        raise DamagedChunk("there is another chunk at this offset")
    return pa.ipc.read_record_batch(pa.py_buffer(message), columns.STORED_SCHEMA)
