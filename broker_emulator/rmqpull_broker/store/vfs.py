"""The file-system port and the real file system. No other module of the broker accesses a disk.

A :class:`FileSystem` is one flat directory: the storage needs no more, and a fake can lose, tear or refuse whatever a
test wants.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

OPEN_FILES_MAX = 64
_LACKS = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)


class DirectoryInUse(OSError):
    """Another process has this directory open."""


def is_lack(error: OSError) -> bool:
    """Whether the process or the system has no file descriptor or no memory left, which says nothing about the file."""
    return error.errno in _LACKS


class AppendFile(Protocol):
    """A file that is only appended to."""

    def write(self, data: bytes | memoryview) -> None:
        """Appends all of ``data``. It is safe from a power cut after :meth:`sync`."""

    def sync(self) -> None:
        """Returns when everything written is safe from a power cut."""

    def close(self) -> None:
        """Closes the file."""


class ReadFile(Protocol):
    """A file that is read at any offset, also while it grows."""

    def read(self, offset: int, length: int) -> bytes:
        """Returns ``length`` bytes from ``offset``, or fewer at the end of the file."""

    def close(self) -> None:
        """Closes the file."""


class FileSystem(Protocol):
    """One directory that one process owns."""

    def names(self) -> list[str]:
        """Returns the files of the directory, sorted."""

    def create(self, name: str) -> AppendFile:
        """Creates an empty file, whose name is safe from a power cut."""

    def append(self, name: str) -> AppendFile:
        """Opens an existing file for appending."""

    def open(self, name: str) -> ReadFile:
        """Opens an existing file for reading."""

    def size(self, name: str) -> int:
        """Returns the size of a file in bytes."""

    def view(self, name: str) -> memoryview:
        """Returns the content of a file, mapped into memory where the system allows it."""

    def truncate(self, name: str, size: int) -> None:
        """Cuts a file to ``size`` bytes and syncs it."""

    def rename(self, name: str, new_name: str) -> None:
        """Renames a file atomically, replaces a file of the new name, and syncs both names."""

    def remove(self, name: str) -> None:
        """Deletes a file."""

    def free_bytes(self) -> int:
        """Returns the number of free bytes."""

    def describe(self, name: str) -> str:
        """Returns the path of a file, for messages."""

    def close(self) -> None:
        """Closes the directory."""


class OpenFiles:
    """Files of a directory by number, of which those that were read last stay open.

    ``name_file`` returns the name of a number's file. Each thread needs its own object.
    """

    def __init__(self, file_system: FileSystem, name_file: Callable[[int], str]) -> None:
        self._file_system = file_system
        self._name_file = name_file
        self._open: OrderedDict[int, ReadFile] = OrderedDict()

    def find(self, number: int) -> ReadFile:
        """Returns a file, which is opened unless it is open. Raises OSError."""
        file = self._open.get(number)
        if file is None:
            file = self._open[number] = self._file_system.open(self._name_file(number))
            if len(self._open) > OPEN_FILES_MAX:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(number)
        return file

    def close_where(self, is_closed: Callable[[int], bool]) -> None:
        """Closes the files of some numbers. A deleted file takes space of the disk until it is closed."""
        for number in [number for number in self._open if is_closed(number)]:
            self._open.pop(number).close()

    def close(self) -> None:
        """Closes all files."""
        self.close_where(lambda _: True)


class OsFileSystem:
    """A directory on disk. It is created and locked for this process, unless ``is_read_only``.

    Raises DirectoryInUse when another process has locked it, and OSError when it cannot be created or written.
    """

    def __init__(self, directory: str, *, is_read_only: bool = False) -> None:
        self._directory = Path(directory)
        self._lock = -1 if is_read_only else self._create_and_lock()

    def _create_and_lock(self) -> int:
        missing = [path for path in (self._directory, *self._directory.parents) if not path.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in missing:  # the directory's own name must also be safe from a power cut
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

    def read(self, offset: int, length: int) -> bytes:
        data = os.pread(self._descriptor, length, offset)
        while len(data) < length and (more := os.pread(self._descriptor, length - len(data), offset + len(data))):
            data += more
        return data

    def close(self) -> None:
        os.close(self._descriptor)
