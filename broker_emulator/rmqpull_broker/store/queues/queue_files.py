"""Queue files: full chunks of all consume queues on the disk, read through a cache of limited size. The cache also has
messages of the log.

They are derived from the commit log. So no send waits for their syncs, and a lost or damaged file costs time, but no
messages. A process never appends to a file of an earlier process.
"""

from __future__ import annotations

import contextlib
import re
from collections import OrderedDict
from collections.abc import Callable, Collection

import pyarrow as pa

from rmqpull_broker.core.model import LoggedMessage
from rmqpull_broker.store.queues.chunks import DamagedChunk, Location, decode_chunk, encode_chunk, measure_chunk
from rmqpull_broker.store.vfs import AppendFile, FileSystem, OpenFiles, is_lack

FILE_BYTES = 256 << 20
"""Size at which a queue file is closed."""
CACHE_BYTES = 8 << 20
LOADED_BYTES = 64 << 20
"""After this many bytes of loaded chunks, the memory of evicted ones is returned to the system."""

_SUFFIX = ".chunks"
_UNFINISHED = "unfinished" + _SUFFIX
_FILE_NAME = re.compile(r"[0-9]{20}\.chunks")


def name_queue_file(number: int) -> str:
    """Returns the name of a queue file. Files are numbered in the order of their creation."""
    return f"{number:020d}{_SUFFIX}"


def list_queue_files(file_system: FileSystem) -> list[int]:
    """Returns the numbers of the queue files of a directory, in order."""
    return [int(name.removesuffix(_SUFFIX)) for name in file_system.names() if _FILE_NAME.fullmatch(name)]


def release_holes() -> None:
    """Returns free memory between used blocks to the system, in 1 to 4 ms.

    Chunks take megabytes, and leave holes in the heap that small objects do not fill: 20 to 60 MB.
    """
    pa.default_memory_pool().release_unused()


class QueueFiles:
    """Saves and loads chunks. The storage's thread calls ``save`` and ``sync``, the event loop all else."""

    def __init__(self, file_system: FileSystem, file_bytes: int = FILE_BYTES, cache_bytes: int = CACHE_BYTES) -> None:
        self._file_system = file_system
        self._file_bytes = file_bytes
        self._active: AppendFile | None = None
        self._number = max(list_queue_files(file_system), default=-1)
        self._size = 0
        # The sizes of files that are closed, and of which a sync failed. The system may have dropped what it had not
        # written, and would let the next sync succeed without it.
        self._unsynced: dict[int, int] = {}
        self._readers = OpenFiles(file_system, name_queue_file)
        self._chunk_cache = ChunkCache(cache_bytes)
        self._loaded_bytes = 0

    def save(self, batch: pa.RecordBatch) -> Location:
        """Appends a chunk, which is safe from a power cut after :meth:`sync`. Raises OSError."""
        parts, checksum = encode_chunk(batch)
        active = self._writable_file()
        try:
            for part in parts:
                active.write(part)
        except OSError:
            self._leave_active()
            raise
        location = Location(self._number, self._size, sum(map(len, parts)), checksum)
        self._size += location.length
        return location

    def _writable_file(self) -> AppendFile:
        if self._active is not None and self._size >= self._file_bytes:
            self._leave_active()
        if self._active is None:
            self._number += 1
            self._active, self._size = self._file_system.create(name_queue_file(self._number)), 0
        return self._active

    def _leave_active(self) -> None:
        """Syncs and closes the file; the next chunk goes to a new one. After a failed write its end is unknown."""
        if self._active is not None:
            try:
                self._active.sync()
            except OSError:
                self._unsynced[self._number] = self._size
            self._close_active()

    def _close_active(self) -> None:
        if self._active is not None:
            self._active.close()
            self._active = None

    def sync(self) -> None:
        """Returns when all saved chunks are safe from a power cut. Raises OSError; then some may not be."""
        for number, size in list(self._unsynced.items()):
            self._write_again(name_queue_file(number), size)
            del self._unsynced[number]
        if self._active is not None:
            try:
                self._active.sync()
            except OSError:
                self._unsynced[self._number] = self._size
                self._close_active()
                raise

    def _write_again(self, name: str, size: int) -> None:
        """Puts a copy of the chunks of a file in its place. Raises OSError, also when one is damaged."""
        data = self._file_system.view(name)[:size]
        offset = 0
        while offset < size:
            try:
                offset += measure_chunk(data[offset:])
            except DamagedChunk as error:
                raise OSError(f"{self._file_system.describe(name)} is damaged at offset {offset}: {error}") from error
        if _UNFINISHED in self._file_system.names():  # left by a failed attempt
            self._file_system.remove(_UNFINISHED)
        file = self._file_system.create(_UNFINISHED)
        try:
            file.write(data)
            file.sync()
        finally:
            file.close()
        self._file_system.rename(_UNFINISHED, name)

    def load(self, location: Location) -> pa.RecordBatch:
        """Returns the rows of a saved chunk. Raises DamagedChunk when the file does not have it.

        Raises OSError when no more files can be opened.
        """
        batch = self._chunk_cache.get(location)
        if batch is None:
            try:
                data = self._readers.find(location.file_number).read(location.offset, location.length)
            except OSError as error:
                if is_lack(error):
                    raise
                raise DamagedChunk(f"the file cannot be read: {error}") from error
            batch = decode_chunk(data, location)
            self._chunk_cache.put(location, batch)
            self._count_loaded(location.length)
        return batch

    def load_message(
        self, message: LoggedMessage, read_message: Callable[[LoggedMessage], pa.RecordBatch]
    ) -> pa.RecordBatch:
        """Returns the rows of a message in the log, from the cache of :meth:`load` or by ``read_message``."""
        batch = self._chunk_cache.get(message)
        if batch is None:
            batch = read_message(message)
            self._chunk_cache.put(message, batch)
            self._count_loaded(message.length)
        return batch

    def _count_loaded(self, byte_count: int) -> None:
        self._loaded_bytes += byte_count
        if self._loaded_bytes >= LOADED_BYTES:
            self._loaded_bytes = 0
            release_holes()

    def cache(self, location: Location | LoggedMessage, batch: pa.RecordBatch) -> None:
        """Adds rows that are in memory already to the cache of :meth:`load`."""
        self._chunk_cache.put(location, batch)

    def describe(self, location: Location) -> str:
        """Returns the path of a chunk's file, for messages."""
        return self._file_system.describe(name_queue_file(location.file_number))

    def remove_all_but(self, numbers: Collection[int]) -> None:
        """Deletes all files except these and the one that is being written."""
        kept = {*numbers, self._number} if self._active is not None else set(numbers)
        self._readers.close_where(lambda number: number not in kept)
        for number in sorted(set(list_queue_files(self._file_system)) - kept):
            self._unsynced.pop(number, None)
            with contextlib.suppress(OSError):
                self._file_system.remove(name_queue_file(number))

    def close(self) -> None:
        """Closes all files."""
        self._close_active()
        self._readers.close()


class ChunkCache:
    """The most recently used chunks, up to a number of bytes, but at least one."""

    def __init__(self, byte_count_max: int) -> None:
        self._byte_count_max = byte_count_max
        self._byte_count = 0
        self._batches: OrderedDict[Location | LoggedMessage, pa.RecordBatch] = OrderedDict()

    def get(self, location: Location | LoggedMessage) -> pa.RecordBatch | None:
        """Returns the rows of a chunk, or None. The chunk becomes the most recently used one."""
        batch = self._batches.get(location)
        if batch is not None:
            self._batches.move_to_end(location)
        return batch

    def put(self, location: Location | LoggedMessage, batch: pa.RecordBatch) -> None:
        """Adds a chunk, and evicts the least recently used ones."""
        if location in self._batches:
            return
        self._batches[location] = batch
        self._byte_count += location.length
        while self._byte_count > self._byte_count_max and len(self._batches) > 1:
            self._byte_count -= self._batches.popitem(last=False)[0].length
