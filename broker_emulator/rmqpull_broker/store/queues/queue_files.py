"""Queue files: where full chunks of all consume queues go, and come back from through a cache of bounded size.

They are derived from the commit log: nobody waits for their syncs, a file that was begun is never written on by a later
process, and one that is lost or damaged costs time and no message.
"""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from collections.abc import Collection

import pyarrow as pa

from rmqpull_broker.store.queues.chunks import DamagedChunk, Location, decode_chunk, encode_chunk
from rmqpull_broker.store.vfs import AppendFile, FileSystem, ReadFile

FILE_BYTES = 256 << 20
"""Size at which a queue file is closed."""
CACHE_BYTES = 64 << 20
OPEN_FILES_MAX = 64

_SUFFIX = ".chunks"
_FILE_NAME = re.compile(r"[0-9]{20}\.chunks")


def queue_file_name(number: int) -> str:
    """Queue files are numbered in the order in which they are begun."""
    return f"{number:020d}{_SUFFIX}"


def queue_file_numbers(file_system: FileSystem) -> list[int]:
    """The queue files of a directory, in order."""
    return [int(name.removesuffix(_SUFFIX)) for name in file_system.names() if _FILE_NAME.fullmatch(name)]


class QueueFiles:
    """Saves chunks and loads them. ``save`` and ``sync`` belong to the storage's thread, the rest to the event loop."""

    def __init__(self, file_system: FileSystem, file_bytes: int = FILE_BYTES, cache_bytes: int = CACHE_BYTES) -> None:
        self._file_system = file_system
        self._file_bytes = file_bytes
        self._active: AppendFile | None = None
        self._number = max(queue_file_numbers(file_system), default=-1)
        self._size = 0
        self._open: OrderedDict[int, ReadFile] = OrderedDict()
        self._cache = ChunkCache(cache_bytes)

    @property
    def active_number(self) -> int:
        """The newest file, which is still written."""
        return self._number

    def save(self, batch: pa.RecordBatch) -> Location:
        """Appends a chunk; safe from a power cut only after :meth:`sync`. Raises OSError."""
        parts, checksum = encode_chunk(batch)
        active = self._writable_file()
        try:
            for part in parts:
                active.write(part)
        except OSError:
            self._leave_file()
            raise
        location = Location(self._number, self._size, sum(map(len, parts)), checksum)
        self._size += location.length
        return location

    def _writable_file(self) -> AppendFile:
        if self._active is not None and self._size >= self._file_bytes:
            self.sync()
            self._leave_file()
        if self._active is None:
            self._number += 1
            self._active, self._size = self._file_system.create(queue_file_name(self._number)), 0
        return self._active

    def _leave_file(self) -> None:
        """What comes next goes to a new file: nobody knows how this one ends."""
        if self._active is not None:
            self._active.close()
            self._active = None

    def sync(self) -> None:
        """Returns when all saved chunks survive a power cut. Raises OSError, and then some may not."""
        if self._active is not None:
            try:
                self._active.sync()
            except OSError:
                self._leave_file()
                raise

    def load(self, location: Location) -> pa.RecordBatch:
        """The rows that were saved there. Raises DamagedChunk when they are not there any more."""
        batch = self._cache.get(location)
        if batch is None:
            try:
                data = self._reader(location.file_number).read(location.place, location.length)
            except OSError as error:
                raise DamagedChunk(f"it cannot be read: {error}") from error
            batch = decode_chunk(data, location)
            self._cache.put(location, batch)
        return batch

    def keep(self, location: Location, batch: pa.RecordBatch) -> None:
        """Puts rows that are in memory anyway where :meth:`load` finds them."""
        self._cache.put(location, batch)

    def describe(self, location: Location) -> str:
        """How messages name the file of a chunk to people."""
        return self._file_system.describe(queue_file_name(location.file_number))

    def _reader(self, number: int) -> ReadFile:
        reader = self._open.get(number)
        if reader is None:
            reader = self._open[number] = self._file_system.open(queue_file_name(number))
            if len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(number)
        return reader

    def remove_all_but(self, numbers: Collection[int]) -> None:
        """Removes the files that nobody refers to any more, but for the newest, which is still written."""
        for number in queue_file_numbers(self._file_system):
            if number in numbers or (number == self._number and self._active is not None):
                continue
            if (reader := self._open.pop(number, None)) is not None:
                reader.close()
            with contextlib.suppress(OSError):
                self._file_system.remove(queue_file_name(number))

    def close(self) -> None:
        """Lets all files go."""
        self._leave_file()
        while self._open:
            self._open.popitem()[1].close()


class ChunkCache:
    """The chunks that were used last, up to so many bytes, and at least one."""

    def __init__(self, byte_count_max: int) -> None:
        self._byte_count_max = byte_count_max
        self._byte_count = 0
        self._batches: OrderedDict[Location, pa.RecordBatch] = OrderedDict()

    def get(self, location: Location) -> pa.RecordBatch | None:
        """The rows of a chunk, if they are here; from now on it is the one that was used last."""
        batch = self._batches.get(location)
        if batch is not None:
            self._batches.move_to_end(location)
        return batch

    def put(self, location: Location, batch: pa.RecordBatch) -> None:
        """Adds a chunk, and lets go of those that were not used for longest."""
        if location in self._batches:
            return
        self._batches[location] = batch
        self._byte_count += location.length
        while self._byte_count > self._byte_count_max and len(self._batches) > 1:
            self._byte_count -= self._batches.popitem(last=False)[0].length
