"""The commit log: what is acknowledged is in here, and everything else the broker knows is derived from it.

What it promises. When :meth:`CommitLog.append` returns, its groups survive a kill of the process, and a power cut as
far as the disk keeps what it reported synced. When it raises, none of its groups is acknowledged.

Recovery reads the records in order. A record that fails its checksum ends the log when nothing behind it was written
later than itself: it is taken for a write that was cut short, and the rest is cut off and reported. If a later record
says that its own write began behind the damaged place, that place had been synced and acknowledged; then recovery
refuses to start. What it cannot tell from a write cut short is damage to the very last one: nothing was written since
to say that it had been synced.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rmqpull_broker.core.facts import Fact
from rmqpull_broker.store import record
from rmqpull_broker.store.vfs import AppendFile, FileSystem

SEGMENT_BYTES = 1 << 30
"""Size at which a segment is closed: Apache's mappedFileSizeCommitLog."""

_SUFFIX = ".log"
_SEGMENT_NAME = re.compile(r"[0-9]{20}\.log")


class CorruptLog(Exception):
    """Acknowledged records are damaged; the text names file and offset."""


class LogBroken(OSError):
    """An earlier write or sync failed in a way that leaves the end of the log unknown; a restart repairs it."""


@dataclass(frozen=True)
class Recovery:
    """What the log was found to hold. ``dropped_bytes`` were cut off ``dropped_from`` as never acknowledged."""

    groups: int
    dropped_bytes: int = 0
    dropped_from: str = ""


class CommitLog:
    """Segments named after the log position at which they begin, as Apache's are: 20 digits."""

    def __init__(self, file_system: FileSystem, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._file_system = file_system
        self._segment_bytes = segment_bytes
        self._active: AppendFile | None = None
        self._active_name = ""
        self._base = 0
        self._size = 0
        self._is_broken = False

    # --- recovery ------------------------------------------------------------------------------------------------

    def recover(self, apply: Callable[[list[Fact]], None]) -> Recovery:
        """Feeds every kept group to ``apply``, in order, and opens the log for appending. To be called once, first.

        Raises CorruptLog when acknowledged records are damaged, missing or of another format.
        """
        names = [name for name in self._file_system.names() if _SEGMENT_NAME.fullmatch(name)]
        groups, dropped = 0, Recovery(0)
        for name in names:
            if self._base + self._size != int(name.removesuffix(_SUFFIX)):
                raise CorruptLog(
                    f"{self._file_system.describe(name)} should begin at log position {self._base + self._size}: "
                    "a segment before it is missing or was cut; restore it from a copy"
                )
            self._base, self._active_name = int(name.removesuffix(_SUFFIX)), name
            count, dropped = self._recover_segment(name, apply, is_last=name == names[-1])
            groups += count
        if names and self._size:
            self._active = self._file_system.append(self._active_name)
            # A killed process may have written what it never synced; from here on it is read and written behind.
            self._active.sync()
        return Recovery(groups, dropped.dropped_bytes, dropped.dropped_from)

    def _recover_segment(
        self, name: str, apply: Callable[[list[Fact]], None], *, is_last: bool
    ) -> tuple[int, Recovery]:
        data = self._file_system.view(name)
        if is_last and (len(data) < record.SEGMENT_HEADER_BYTES or _is_zero(data)):
            return 0, self._restart_segment(name, len(data))
        place, groups = record.SEGMENT_HEADER_BYTES, 0
        try:
            record.check_segment_header(data)
            while (frame := record.read_frame(data, place)) is not None:
                apply(list(record.decode_payload(frame.payload)))
                place += frame.size
                groups += 1
        except record.UnknownFormat as error:
            raise CorruptLog(f"{self._file_system.describe(name)} cannot be read: {error}") from None
        self._size = place
        if place == len(data):
            return groups, Recovery(groups)
        if not is_last or self._was_synced(data, place):
            raise CorruptLog(
                f"{self._file_system.describe(name)} is damaged at offset {place}, and acknowledged records follow; "
                "restore the file from a copy, or move the data directory away to start empty"
            )
        self._file_system.truncate(name, place)
        return groups, Recovery(groups, len(data) - place, self._file_system.describe(name))

    def _restart_segment(self, name: str, size: int) -> Recovery:
        """A segment whose header was never synced holds nothing; its name is used again."""
        self._file_system.remove(name)
        self._size = 0
        return Recovery(0, size, self._file_system.describe(name))

    def _was_synced(self, data: memoryview, damaged: int) -> bool:
        """Whether some whole record behind ``damaged`` was written by a later write than the damaged one."""
        for found in re.finditer(re.escape(record.RECORD_MAGIC), data[damaged + 1 :]):
            frame = record.read_frame(data, damaged + 1 + found.start())
            if frame is not None and frame.written_from > self._base + damaged:
                return True
        return False

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, groups: Sequence[Sequence[Fact]]) -> None:
        """Keeps every group, in order, with one sync. Raises OSError, and then none of them is kept."""
        if self._is_broken:
            raise LogBroken("the commit log failed earlier and takes nothing more until the broker is restarted")
        active = self._writable_segment()
        written_from = self._base + self._size
        data = b"".join(record.encode_record(group, written_from) for group in groups)
        try:
            active.write(data)
        except OSError:
            self._forget_partial_write()
            raise
        try:
            active.sync()
        except OSError:
            # After a failed sync the system may have dropped the pages: what is on disk is unknown from here on.
            self._is_broken = True
            raise
        self._size += len(data)

    def _writable_segment(self) -> AppendFile:
        if self._active is not None and self._size < self._segment_bytes:
            return self._active
        if self._active is not None:
            self._active.close()
            self._active = None
            self._base, self._size = self._base + self._size, 0
        name = f"{self._base:020d}{_SUFFIX}"
        active = self._file_system.create(name)
        header = record.encode_segment_header()
        try:
            active.write(header)
            active.sync()
        except OSError:
            active.close()
            self._file_system.remove(name)
            raise
        self._active, self._active_name, self._size = active, name, len(header)
        return active

    def _forget_partial_write(self) -> None:
        try:
            self._file_system.truncate(self._active_name, self._size)
        except OSError:
            self._is_broken = True

    @property
    def byte_count(self) -> int:
        """Bytes of all segments."""
        return self._base + self._size

    def close(self) -> None:
        """Closes the files. Everything that was appended is synced already."""
        if self._active is not None:
            self._active.close()
            self._active = None
        self._file_system.close()


def _is_zero(data: memoryview) -> bool:
    """Whether a file has its size and not yet any content, as a power cut may leave it."""
    step = 1 << 20
    return not any(bytes(data[place : place + step]).strip(b"\0") for place in range(0, len(data), step))
