"""Snapshot files: written beside, renamed into place, and the newest two are kept."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator

from rmqpull_broker.store.snapshots.snapshot import DamagedSnapshot, Snapshot, decode_snapshot, encode_snapshot
from rmqpull_broker.store.vfs import FileSystem

KEPT = 2

_SUFFIX = ".snapshot"
_UNFINISHED = "unfinished" + _SUFFIX
_FILE_NAME = re.compile(r"[0-9]{20}\.snapshot")


def snapshot_names(file_system: FileSystem) -> list[str]:
    """The snapshot files of a directory, oldest first."""
    return [name for name in file_system.names() if _FILE_NAME.fullmatch(name)]


class Snapshots:
    """The snapshots of a directory, named after their log positions. ``report`` is told of those that are damaged."""

    def __init__(self, file_system: FileSystem, report: Callable[[str], None]) -> None:
        self._file_system = file_system
        self._report = report
        self._damaged: set[str] = set()

    def read(self) -> Iterator[Snapshot]:
        """The undamaged snapshots, newest first."""
        for name in reversed(snapshot_names(self._file_system)):
            try:
                snapshot = decode_snapshot(self._file_system.view(name))
            except (DamagedSnapshot, OSError) as error:
                self._damaged.add(name)
                self._report(f"{self._file_system.describe(name)} is passed over: {error}")
            else:
                yield snapshot

    def write(self, snapshot: Snapshot) -> None:
        """Keeps a snapshot for good, and lets go of the old and the damaged. Raises OSError."""
        if _UNFINISHED in self._file_system.names():
            self._file_system.remove(_UNFINISHED)
        file = self._file_system.create(_UNFINISHED)
        try:
            file.write(encode_snapshot(snapshot))
            file.sync()
        finally:
            file.close()
        self._file_system.rename(_UNFINISHED, _name(snapshot.position))
        self._damaged.discard(_name(snapshot.position))
        self._remove_old()

    def _remove_old(self) -> None:
        sound = [name for name in snapshot_names(self._file_system) if name not in self._damaged]
        for name in [*self._damaged, *sound[:-KEPT]]:
            with contextlib.suppress(OSError):
                self._file_system.remove(name)
        self._damaged.clear()

    def remove_before(self, position: int) -> None:
        """Removes the snapshots that are of no use when the log begins at ``position``. Raises OSError."""
        for name in snapshot_names(self._file_system):
            if _position(name) < position:
                self._file_system.remove(name)


def _name(position: int) -> str:
    return f"{position:020d}{_SUFFIX}"


def _position(name: str) -> int:
    return int(name.removesuffix(_SUFFIX))
