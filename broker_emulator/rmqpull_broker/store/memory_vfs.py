"""A file system in memory: the broker without a data directory, and a disk whose crashes a test can stage."""

from __future__ import annotations

from rmqpull_broker.store.vfs import AppendFile


class MemoryFileSystem:
    """Files as byte arrays. What was not synced is known, so that :meth:`crashed` can lose it.

    ``fail_next`` names the operations, ``write``, ``sync`` or ``truncate``, whose next call raises OSError.
    """

    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files: dict[str, bytearray] = {name: bytearray(data) for name, data in (files or {}).items()}
        self.synced: dict[str, int] = {name: len(data) for name, data in self.files.items()}
        self.fail_next: set[str] = set()

    def crashed(self) -> MemoryFileSystem:
        """The directory as a power cut leaves it: only what was synced."""
        return MemoryFileSystem({name: bytes(self.files[name][:size]) for name, size in self.synced.items()})

    def fail_if_told(self, operation: str) -> None:
        """Raises OSError once for an operation named in ``fail_next``."""
        if operation in self.fail_next:
            self.fail_next.remove(operation)
            raise OSError(f"{operation} failed")

    def names(self) -> list[str]:
        return sorted(self.files)

    def create(self, name: str) -> AppendFile:
        self.files[name] = bytearray()
        self.synced[name] = 0
        return _MemoryAppendFile(self, name)

    def append(self, name: str) -> AppendFile:
        return _MemoryAppendFile(self, name)

    def view(self, name: str) -> memoryview:
        return memoryview(bytes(self.files[name]))

    def truncate(self, name: str, size: int) -> None:
        self.fail_if_told("truncate")
        del self.files[name][size:]
        self.synced[name] = size

    def remove(self, name: str) -> None:
        del self.files[name], self.synced[name]

    def describe(self, name: str) -> str:
        return f"memory:{name}"

    def close(self) -> None:
        """Nothing to let go."""


class _MemoryAppendFile:
    def __init__(self, file_system: MemoryFileSystem, name: str) -> None:
        self._file_system = file_system
        self._name = name

    def write(self, data: bytes) -> None:
        self._file_system.fail_if_told("write")
        self._file_system.files[self._name] += data

    def sync(self) -> None:
        self._file_system.fail_if_told("sync")
        self._file_system.synced[self._name] = len(self._file_system.files[self._name])

    def close(self) -> None:
        """Nothing to let go."""
