"""The commit log: what is acknowledged is in here, and everything else the broker knows is derived from it.

What it promises, under which assumptions, and why recovery may cut, must refuse, or goes on: docs/durability.md.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.replaying import Apply, RowsTogether
from rmqpull_broker.store.log.segments import (
    CorruptLog,
    is_synced_behind,
    is_zero,
    read_frames,
    segment_bases,
    segment_name,
)
from rmqpull_broker.store.vfs import AppendFile, FileSystem

SEGMENT_BYTES = 1 << 30
"""Size at which a segment is closed: Apache's mappedFileSizeCommitLog."""


@dataclass(frozen=True)
class Recovery:
    """What the log was found to hold. ``dropped_bytes`` were cut off ``dropped_from`` as never acknowledged."""

    groups: int
    dropped_bytes: int = 0
    dropped_from: str = ""


class Segment(NamedTuple):
    """A segment by the log positions of its first byte and of what follows it."""

    base: int
    end: int


class CommitLog:
    """Appends groups of facts to segments, and reads them back. Every method may be called by any thread.

    Arguments: the directory; the size at which a segment is closed; whether an append is synced before it returns
    (SYNC_FLUSH), or at the next :meth:`sync` (ASYNC_FLUSH).
    """

    def __init__(
        self,
        file_system: FileSystem,
        segment_bytes: int = SEGMENT_BYTES,
        *,
        syncs_appends: bool = True,
    ) -> None:
        self._file_system = file_system
        self._segment_bytes = segment_bytes
        self._syncs_appends = syncs_appends
        self._lock = threading.RLock()
        self._active: AppendFile | None = None
        self._bases = segment_bases(file_system)
        self._base = self._bases[0] if self._bases else 0
        self._size = 0
        self._synced = 0
        self._must_roll = False
        self._ends_with_mark = True

    @property
    def begin(self) -> int:
        """The log position of the oldest segment that is kept."""
        return self._bases[0] if self._bases else self._base

    @property
    def end(self) -> int:
        """The log position behind the last record."""
        return self._base + self._size

    @property
    def is_synced(self) -> bool:
        """Whether everything that was appended survives a power cut."""
        return self._synced == self.end

    def segments(self) -> list[Segment]:
        """All segments in order; the last one is being written."""
        with self._lock:
            ends = [*self._bases[1:], self.end]
            return [Segment(*bounds) for bounds in zip(self._bases, ends, strict=False)]

    # --- recovery ------------------------------------------------------------------------------------------------

    def recover(self, apply: Apply, from_position: int = 0) -> Recovery:
        """Feeds every kept group behind ``from_position`` to ``apply``, in order, and opens the log for appending.

        To be called once, first. ``from_position`` is where a snapshot was taken: the log was synced until there.
        Raises CorruptLog when acknowledged records are damaged, missing or of another format.
        """
        starts = [base for base in self._bases if base <= from_position]
        if not starts and (self._bases or from_position):
            where = f"{self._describe(self._bases[0])} should begin" if self._bases else "the log should reach"
            raise CorruptLog(
                f"{where} at log position {from_position}: a segment before it is missing; restore it from a copy"
            )
        groups, dropped, self._base, self._size = 0, Recovery(0), starts[-1] if starts else 0, 0
        for index in range(max(len(starts) - 1, 0), len(self._bases)):
            base = self._bases[index]
            if self.end != base:
                raise CorruptLog(
                    f"{self._describe(base)} should begin at log position {self.end}: "
                    "a segment before it is missing or was cut; restore it from a copy"
                )
            self._base, self._size = base, 0
            following = self._bases[index + 1] if index + 1 < len(self._bases) else None
            found = self._recover_segment(apply, max(from_position, base + record.SEGMENT_HEADER_BYTES), following)
            groups, dropped = groups + found.groups, found if found.dropped_bytes else dropped
        if from_position > self.end:
            raise CorruptLog(
                f"{self._describe(self._base)} ends at offset {self._size}, but a snapshot tells that it was synced "
                f"until offset {from_position - self._base}; restore it from a copy, or remove the *.snapshot files to "
                "go on with what is left"
            )
        self._reopen()
        return Recovery(groups, dropped.dropped_bytes, dropped.dropped_from)

    def _recover_segment(self, apply: Apply, start: int, following: int | None) -> Recovery:
        """``start`` is the log position to read from, ``following`` that of the next segment.

        What lies in the file beyond the next segment's position was written and never acknowledged: the sync had
        failed, and the log went on in a new segment.
        """
        base, name = self._base, segment_name(self._base)
        file_bytes = self._file_system.size(name)
        is_new = following is None and start == base + record.SEGMENT_HEADER_BYTES
        if is_new and self._has_no_header(name, file_bytes):
            return self._restart_segment(file_bytes)
        end = file_bytes if following is None else min(file_bytes, following - base)
        groups = self._replay(apply, start, end)
        if self._size == file_bytes or base + self._size == following:
            return Recovery(groups)
        if following is not None or is_synced_behind(self._file_system.view(name), self._size, base):
            raise CorruptLog(
                f"{self._describe(base)} is damaged at offset {self._size}, and acknowledged records follow; "
                "restore the file from a copy, or move the data directory away to start empty"
            )
        self._file_system.truncate(name, self._size)
        return Recovery(groups, file_bytes - self._size, self._describe(base))

    def _has_no_header(self, name: str, file_bytes: int) -> bool:
        if file_bytes < record.SEGMENT_HEADER_BYTES:
            return True
        data = self._file_system.view(name)
        return record.is_torn_header(data) or is_zero(data)

    def _replay(self, apply: Apply, start: int, end: int) -> int:
        """Applies the records of ``[start, end)``, log position to place in the file, and counts their groups."""
        base, name, groups = self._base, segment_name(self._base), 0
        rows = RowsTogether(apply, base)
        file = self._file_system.open(name)
        try:
            version = record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
            self._must_roll = version != record.FORMAT_VERSION
            self._size = min(start - base, max(end, record.SEGMENT_HEADER_BYTES))
            for place, (size, _, payload) in read_frames(file, start - base, end):
                self._size = place + size
                self._ends_with_mark = not payload
                if not payload:
                    continue
                groups += 1
                lone = record.lone_rows(payload) if version == record.FORMAT_VERSION else None
                if lone is not None:
                    rows.add(lone, base + place, size)
                else:
                    rows.apply()
                    facts = list(record.decode_payload(payload, version))
                    apply(facts, LogRange(base, base + place, base + place + size))
            rows.apply()
        except record.UnknownFormat as error:
            raise CorruptLog(f"{self._describe(self._base)} cannot be read: {error}") from None
        finally:
            file.close()
        return groups

    def _restart_segment(self, size: int) -> Recovery:
        """A segment whose header was never synced holds nothing; its name is used again."""
        self._file_system.remove(segment_name(self._base))
        self._bases.pop()
        return Recovery(0, size, self._describe(self._base))

    def _reopen(self) -> None:
        if self._size:
            self._active = self._file_system.append(segment_name(self._base))
            # A killed process may have written what it never synced; from here on it is read and written behind.
            self._active.sync()
        self._synced = self.end
        self.leave_mark()

    def read(self, from_position: int, until_position: int) -> Iterator[list[Fact]]:
        """The groups of records that begin in ``[from_position, until_position)``. Raises CorruptLog for damage."""
        for base, end in self.segments():
            start, end = max(from_position, base + record.SEGMENT_HEADER_BYTES), min(until_position, end)
            if start >= end:
                continue
            file, reached = self._file_system.open(segment_name(base)), start - base
            try:
                version = record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
                for place, frame in read_frames(file, reached, end - base):
                    reached = place + frame.size
                    yield list(record.decode_payload(frame.payload, version))
            finally:
                file.close()
            if reached < end - base:
                raise CorruptLog(f"{self._describe(base)} is damaged at offset {reached}")

    def _describe(self, base: int) -> str:
        return self._file_system.describe(segment_name(base))

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, groups: Sequence[Sequence[Fact]]) -> LogRange:
        """Keeps every group, in order, with one sync. Raises OSError, and then none of them is kept.

        The log stays usable: what could not be kept is cut off. After a failed sync, or when it cannot be cut off, the
        log goes on in a new segment, whose name says where the old one ended.
        """
        with self._lock:
            active, start = self._writable_segment(), self.end
            data = b"".join(record.encode_record(group, self._synced) for group in groups)
            try:
                active.write(data)
            except OSError:
                self._take_back()
                raise
            if self._syncs_appends:
                self._sync_or_leave(active)
            self._size += len(data)
            self._synced = self.end if self._syncs_appends else self._synced
            self._ends_with_mark = False
            return LogRange(self._base, start, self.end)

    def _sync_or_leave(self, active: AppendFile) -> None:
        try:
            active.sync()
        except OSError:
            # The system may have dropped the pages, and would report the next sync of this file as done.
            self._must_roll = True
            self._take_back()
            raise

    def _take_back(self) -> None:
        try:
            self._file_system.truncate(segment_name(self._base), self._size)
        except OSError:
            # It is told from what is acknowledged by the next segment, or by the one that a mark begins.
            self._must_roll, self._ends_with_mark = True, False

    def _writable_segment(self) -> AppendFile:
        if self._active is not None and self._size < self._segment_bytes and not self._must_roll:
            return self._active
        return self._roll()

    def _roll(self) -> AppendFile:
        """Begins a new segment. What the old one holds is synced first, or a power cut could leave a hole."""
        if self._active is not None:
            if not self.is_synced:
                self._active.sync()
            self._active.close()
            self._active = None
            self._base, self._size = self.end, 0
        self._must_roll = False
        name = segment_name(self._base)
        if name in self._file_system.names():  # begun before, not finished, and not removed
            self._file_system.remove(name)
        active = self._file_system.create(name)
        header = record.encode_segment_header()
        try:
            active.write(header)
            active.sync()
        except OSError:
            active.close()
            with contextlib.suppress(OSError):
                self._file_system.remove(name)
            raise
        self._bases.append(self._base)
        self._active, self._size = active, len(header)
        self._synced = self.end
        return active

    def sync(self) -> None:
        """Returns when everything that was appended survives a power cut. Raises OSError."""
        with self._lock:
            if self._active is not None and not self.is_synced:
                self._active.sync()
                self._synced = self.end

    def leave_mark(self) -> None:
        """Syncs, and says so behind the last record: damage to it is then told from a torn tail.

        A disk that is too full for that is no reason not to start or stop.
        """
        with self._lock, contextlib.suppress(OSError):
            self.sync()
            if not self._ends_with_mark:
                self.append([[]])
                self.sync()
                self._ends_with_mark = True

    # --- retention -----------------------------------------------------------------------------------------------

    def roll_next(self) -> None:
        """Lets the next append begin a new segment."""
        with self._lock:
            self._must_roll = True

    def remove_before(self, position: int) -> int:
        """Removes the closed segments that end at or before ``position``, oldest first, and tells how many."""
        with self._lock:
            removed = 0
            while len(self._bases) > 1 and self._bases[1] <= position:
                self._file_system.remove(segment_name(self._bases[0]))
                del self._bases[0]
                removed += 1
            return removed

    @property
    def byte_count(self) -> int:
        """Bytes of all segments that are kept."""
        return self.end - self.begin

    def close(self) -> None:
        """Syncs and closes the files. Raises OSError when the last sync fails."""
        with self._lock:
            if self._active is not None:
                try:
                    self.sync()
                finally:
                    self._active.close()
                    self._active = None
