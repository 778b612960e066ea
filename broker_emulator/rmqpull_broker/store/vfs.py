"""The file-system port and the real file system. The only module of the broker that touches a disk.

A :class:`FileSystem` is one flat directory. The commit log needs nothing more, and so little can be played by a fake
that loses, tears or refuses whatever a test wants.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from pathlib import Path
from typing import Protocol


class DirectoryInUse(OSError):
    """Another process has this directory open."""


class AppendFile(Protocol):
    """A file that only grows."""

    def write(self, data: bytes | memoryview) -> None:
        """Appends all of ``data``; not safe from a power cut before :meth:`sync`."""

    def sync(self) -> None:
        """Returns when everything written survives a power cut."""

    def close(self) -> None:
        """Lets the file go."""


class ReadFile(Protocol):
    """A file that is read where one likes, also while it grows."""

    def read(self, place: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``place``; fewer at the end of the file."""

    def close(self) -> None:
        """Lets the file go."""


class FileSystem(Protocol):
    """One directory that one process owns."""

    def names(self) -> list[str]:
        """The files of the directory, sorted."""

    def create(self, name: str) -> AppendFile:
        """A new empty file, whose name survives a power cut."""

    def append(self, name: str) -> AppendFile:
        """An existing file, to be written at its end."""

    def open(self, name: str) -> ReadFile:
        """An existing file, to be read."""

    def size(self, name: str) -> int:
        """Bytes in a file."""

    def view(self, name: str) -> memoryview:
        """The present content, without reading it into memory where the system allows."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts a file to ``size`` bytes and syncs it."""

    def rename(self, name: str, new_name: str) -> None:
        """Gives a file another name, in one step and for good, in place of a file that has it."""

    def remove(self, name: str) -> None:
        """Removes a file."""

    def free_bytes(self) -> int:
        """Room that is left for files."""

    def describe(self, name: str) -> str:
        """How messages name a file to people."""

    def close(self) -> None:
        """Lets the directory go."""


class OsFileSystem:
    """A directory on disk, created when missing and locked for this process; with ``is_read_only`` neither.

    Raises DirectoryInUse when another process has it, and OSError when it cannot be made or written.
    """

    def __init__(self, directory: str, *, is_read_only: bool = False) -> None:
        self._directory = Path(directory)
        self._lock = -1 if is_read_only else self._take()

    def _take(self) -> int:
        missing = [path for path in (self._directory, *self._directory.parents) if not path.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in missing:  # the names of files survive a power cut only together with their directory's
            _sync_directory(path.parent)
        lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise DirectoryInUse(f"{self._directory} is in use by another broker") from None
        return lock

    def names(self) -> list[str]:
        return sorted(path.name for path in self._directory.iterdir() if path.name != "lock")

    def create(self, name: str) -> AppendFile:
        file = _OsAppendFile(self._directory / name, os.O_CREAT | os.O_EXCL)
        try:
            _sync_directory(self._directory)
        except OSError:
            file.close()
            os.unlink(self._directory / name)
            raise
        return file

    def append(self, name: str) -> AppendFile:
        return _OsAppendFile(self._directory / name, 0)

    def open(self, name: str) -> ReadFile:
        return _OsReadFile(self._directory / name)

    def size(self, name: str) -> int:
        return (self._directory / name).stat().st_size

    def view(self, name: str) -> memoryview:
        with open(self._directory / name, "rb") as file:
            if os.fstat(file.fileno()).st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))

    def truncate(self, name: str, size: int) -> None:
        descriptor = os.open(self._directory / name, os.O_WRONLY)
        try:
            os.ftruncate(descriptor, size)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, name: str, new_name: str) -> None:
        os.replace(self._directory / name, self._directory / new_name)
        _sync_directory(self._directory)

    def remove(self, name: str) -> None:
        os.unlink(self._directory / name)
        _sync_directory(self._directory)

    def free_bytes(self) -> int:
        status = os.statvfs(self._directory)
        return status.f_bavail * status.f_frsize

    def describe(self, name: str) -> str:
        return str(self._directory / name)

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class _OsAppendFile:
    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | flags, 0o644)

    def write(self, data: bytes | memoryview) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def sync(self) -> None:
        os.fdatasync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)


class _OsReadFile:
    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)

    def read(self, place: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, place)
        while len(data) < length and (more := os.pread(self._descriptor, length - len(data), place + len(data))):
            data += more
        return data

    def close(self) -> None:
        os.close(self._descriptor)
