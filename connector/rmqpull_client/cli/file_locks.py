"""Locks, so that one command at a time writes to a folder or a file. The end of a process, even a kill, frees its own.

They hold on one machine. Where a file system has no locks, nothing is locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".lock"


class InUse(Exception):
    """Another command has the lock."""


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Has the lock of a folder, without a file for it. Raises InUse and OSError."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        _lock(opened)
        yield
    finally:
        os.close(opened)


@contextmanager
def lock_file(file: Path) -> Iterator[None]:
    """Has the lock of a file that is replaced meanwhile: that of a file beside it, which is removed at the end.

    Raises InUse and OSError.
    """
    beside = file.with_name(file.name + _SUFFIX)
    opened = os.open(beside, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(opened)
        if not os.fstat(opened).st_nlink:
            raise InUse  # the command that had the lock has just removed the file
        try:
            yield
        finally:
            beside.unlink()
    finally:
        os.close(opened)


def _lock(opened: int) -> None:
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUse from None
    except OSError:
        pass  # some network file systems have no locks
