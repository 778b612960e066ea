"""A file system in memory, for tests of crashes and disk faults."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterable

from rmqpull_broker.store.vfs import AppendFile, ReadFile


def lose(unsynced: bytes) -> bytes:
    """Keeps no unsynced byte."""
    return b""


class MemoryFileSystem:
    """Files as byte arrays. Knows which bytes are synced, so that :meth:`crashed` can lose the others.

    ``fail_next`` names operations, ``create``, ``write``, ``sync``, ``truncate``, ``rename``, ``remove`` or ``read``,
    whose next call raises OSError. ``capacity`` is the size of the disk in bytes: a write beyond it is incomplete and
    raises OSError, as on a full disk.
    """

    def __init__(self, files: dict[str, bytes] | None = None, capacity: int = 1 << 50) -> None:
        self.files: dict[str, bytearray] = {name: bytearray(data) for name, data in (files or {}).items()}
        self.synced: dict[str, int] = {name: len(data) for name, data in self.files.items()}
        self.fail_next: set[str] = set()
        self.capacity = capacity

    def crashed(self, kept: Callable[[bytes], bytes] = lose) -> MemoryFileSystem:
        """Returns the directory after a power cut: the synced bytes, and what ``kept`` returns for the rest of a
        file."""
        rest = {name: kept(bytes(self.files[name][size:])) for name, size in self.synced.items()}
        return MemoryFileSystem(
            {name: bytes(self.files[name][:size]) + rest[name] for name, size in self.synced.items()}
        )

    def list_crashed(self, kinds: Iterable[Callable[[bytes], bytes]]) -> list[MemoryFileSystem]:
        """Returns the directories after a power cut that differ, of those with what each of ``kinds`` keeps."""
        different = list[MemoryFileSystem]()
        for after in map(self.crashed, kinds):
            if all(after.files != other.files for other in different):
                different.append(after)
        return different

    def fail_if_told(self, operation: str) -> None:
        """Raises OSError once for an operation in ``fail_next``."""
        if operation in self.fail_next:
            self.fail_next.remove(operation)
            raise OSError(f"{operation} failed")

    def names(self) -> list[str]:
        return sorted(self.files)

    def create(self, name: str) -> AppendFile:
        self.fail_if_told("create")
        if name in self.files:
            raise FileExistsError(errno.EEXIST, "File exists", name)
        self.files[name] = bytearray()
        self.synced[name] = 0
        return _MemoryAppendFile(self, name)

    def append(self, name: str) -> AppendFile:
        return _MemoryAppendFile(self, name)

    def open(self, name: str) -> ReadFile:
        if name not in self.files:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory", name)
        return _MemoryReadFile(self, name)

    def size(self, name: str) -> int:
        return len(self.files[name])

    def view(self, name: str) -> memoryview:
        return memoryview(bytes(self.files[name]))

    def truncate(self, name: str, size: int) -> None:
        self.fail_if_told("truncate")
        del self.files[name][size:]
        self.synced[name] = size

    def rename(self, name: str, new_name: str) -> None:
        self.fail_if_told("rename")
        self.files[new_name], self.synced[new_name] = self.files.pop(name), self.synced.pop(name)

    def remove(self, name: str) -> None:
        self.fail_if_told("remove")
        del self.files[name], self.synced[name]

    def free_bytes(self) -> int:
        return max(0, self.capacity - sum(map(len, self.files.values())))

    def describe(self, name: str) -> str:
        return f"memory:{name}"

    def close(self) -> None:
        """There is nothing to close."""


class PowerCut(Exception):
    """The process was killed."""


class DoomedDisk(MemoryFileSystem):
    """Cuts the power after ``operations_left`` operations."""

    def __init__(self, operations_left: int) -> None:
        super().__init__()
        self.operations_left = operations_left
        self.is_dead = False

    def fail_if_told(self, operation: str) -> None:
        if operation != "read":
            if self.operations_left == 0:
                self.is_dead = True
                raise PowerCut
            self.operations_left -= 1


def tear(seed: int) -> Callable[[bytes], bytes]:
    """Keeps a first part of the unsynced bytes, perhaps with a gap in it."""
    dice = random.Random(seed)

    def kept(unsynced: bytes) -> bytes:
        part = bytearray(unsynced[: dice.randint(0, len(unsynced))])
        if part and dice.random() < 0.5:
            hole = dice.randrange(len(part))
            part[hole : hole + 64] = bytes(len(part[hole : hole + 64]))
        return bytes(part)

    return kept


class _MemoryAppendFile:
    def __init__(self, file_system: MemoryFileSystem, name: str) -> None:
        self._file_system = file_system
        self._name = name

    def write(self, data: bytes | memoryview) -> None:
        self._file_system.fail_if_told("write")
        room = self._file_system.free_bytes()
        self._file_system.files[self._name] += data[:room]
        if room < len(data):
            raise OSError(errno.ENOSPC, "No space left on device", self._name)

    def sync(self) -> None:
        self._file_system.fail_if_told("sync")
        self._file_system.synced[self._name] = len(self._file_system.files[self._name])

    def close(self) -> None:
        """There is nothing to close."""


class _MemoryReadFile:
    def __init__(self, file_system: MemoryFileSystem, name: str) -> None:
        self._file_system = file_system
        self._data = file_system.files[name]

    def read(self, offset: int, length: int) -> bytes:
        self._file_system.fail_if_told("read")
        return bytes(memoryview(self._data)[offset : offset + length])

    def close(self) -> None:
        """There is nothing to close."""
