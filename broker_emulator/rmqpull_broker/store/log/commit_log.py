"""The commit log: every acknowledged command is in it, and all other state of the broker is derived from it.

docs/durability.md says what it guarantees, and under which assumptions.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import Kept, LogRange
from rmqpull_broker.store.log import record
from rmqpull_broker.store.log.recovery import Apply, LogRecovery, Recovery
from rmqpull_broker.store.log.segments import CorruptLog, list_segment_bases, read_frames, segment_name
from rmqpull_broker.store.vfs import AppendFile, FileSystem

SEGMENT_BYTES = 1 << 30
"""The size at which a segment is closed: Apache's mappedFileSizeCommitLog."""
_WRITTEN_ALONE_BYTES = 64 << 10
"""Parts of a record from this size on are written by themselves: copying them would take longer than a call."""


class Segment(NamedTuple):
    """A segment by the log positions at which it begins and ends."""

    base: int
    end: int


class CommitLog:
    """Appends batches of facts to segments, and reads them. Any thread may call every method.

    Arguments: the directory; the size at which a segment is closed; whether an append syncs before it returns
    (SYNC_FLUSH), or leaves that to the next :meth:`sync` (ASYNC_FLUSH).
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
        self._one_sync = threading.Lock()  # acquired before the other lock, never while that is held
        self._syncing: AppendFile | None = None
        self._active: AppendFile | None = None
        self._bases = list_segment_bases(file_system)
        self._base = self._bases[0] if self._bases else 0
        self._size = 0
        self._synced = 0
        self._must_roll = False
        self._ends_with_mark = True

    @property
    def begin(self) -> int:
        """The log position at which the oldest segment begins."""
        return self._bases[0] if self._bases else self._base

    @property
    def end(self) -> int:
        """The log position after the last record."""
        return self._base + self._size

    @property
    def is_synced(self) -> bool:
        """Whether everything appended is safe from a power cut."""
        return self._synced == self.end

    def segments(self) -> list[Segment]:
        """Returns all segments in order; the last one is being written."""
        with self._lock:
            ends = [*self._bases[1:], self.end]
            return [Segment(*bounds) for bounds in zip(self._bases, ends, strict=False)]

    # --- restart -------------------------------------------------------------------------------------------------

    def recover(self, apply: Apply, from_position: int = 0) -> Recovery:
        """Passes every batch of facts after ``from_position`` to ``apply``, in order, and opens the log for appending.

        Call it once, before anything else. ``from_position`` is the position of a snapshot; the log was synced up to
        there. Raises CorruptLog when acknowledged records are damaged, missing or of another format.
        """
        recovering = LogRecovery(self._file_system, self._bases, apply, from_position)
        recovery = recovering.run()
        self._bases, self._base, self._size = recovering.bases, recovering.base, recovering.size
        self._must_roll, self._ends_with_mark = recovering.must_roll, recovering.ends_with_mark
        self._reopen()
        return recovery

    def _reopen(self) -> None:
        if self._size:
            self._active = self._file_system.append(segment_name(self._base))
            # A killed process may not have synced its last writes, on which the log relies from now on.
            self._active.sync()
        self._synced = self.end
        self.leave_mark()

    def read(self, from_position: int, until_position: int) -> Iterator[list[Fact]]:
        """Yields the batches whose records begin in ``[from_position, until_position)``. Raises CorruptLog for
        damage, and for a segment that is missing."""
        for base, end in self.segments():
            start, end = max(from_position, base + record.SEGMENT_HEADER_BYTES), min(until_position, end)
            if start >= end:
                continue
            try:
                file, reached = self._file_system.open(segment_name(base)), start - base
            except FileNotFoundError:
                raise CorruptLog(f"{self._describe(base)} is missing, and acknowledged messages with it") from None
            try:
                version = record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
                for offset, frame in read_frames(file, reached, end - base):
                    reached = offset + frame.size
                    written = LogRange(base, base + offset, base + reached)
                    yield list(record.decode_payload(frame.payload, version, written))
            except record.UnknownFormat as error:
                raise CorruptLog(f"{self._describe(base)} cannot be read: {error}") from None
            finally:
                file.close()
            if reached < end - base:
                raise CorruptLog(f"{self._describe(base)} is damaged at offset {reached}")

    def _describe(self, base: int) -> str:
        return self._file_system.describe(segment_name(base))

    # --- appending -----------------------------------------------------------------------------------------------

    def append(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept]:
        """Keeps all batches in order, with one sync. Raises OSError, and then keeps none of them.

        The log stays usable after a failure: the bytes of the failed write are cut off. After a failed sync, or when
        they cannot be cut off, the log continues in a new segment, whose name says where the old one ended.
        """
        with self._lock:
            active, at = self._writable_segment(), self.end
            kept, parts = list[Kept](), record.Bytes()
            for facts in fact_batches:
                placed = record.encode_placed_record(facts, self._synced, self._base, at)
                parts += placed.parts
                kept.append(Kept(LogRange(self._base, at, at + placed.size), placed.facts))
                at += placed.size
            try:
                for data in _join_small(parts):
                    active.write(data)
            except OSError:
                self._cut_failed_write()
                raise
            if self._syncs_appends:
                self._sync_or_roll(active)
            self._size = at - self._base
            self._synced = self.end if self._syncs_appends else self._synced
            self._ends_with_mark = False
            return kept

    def append_at_once(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        """Appends if that is a write to an open file, without a sync; otherwise it returns None. Raises OSError."""
        if self._syncs_appends or not self._lock.acquire(blocking=False):
            return None
        try:
            is_open = self._active is not None and self._size < self._segment_bytes and not self._must_roll
            return self.append(fact_batches) if is_open else None
        finally:
            self._lock.release()

    def _sync_or_roll(self, active: AppendFile) -> None:
        try:
            active.sync()
        except OSError:
            # After a failed sync, the system may have dropped the pages: the next sync would succeed without them.
            self._must_roll = True
            self._cut_failed_write()
            raise

    def _cut_failed_write(self) -> None:
        try:
            self._file_system.truncate(segment_name(self._base), self._size)
        except OSError:
            # The name of the next segment, or a mark there, distinguishes these bytes from acknowledged ones.
            self._must_roll, self._ends_with_mark = True, False

    def _writable_segment(self) -> AppendFile:
        if self._active is not None and self._size < self._segment_bytes and not self._must_roll:
            return self._active
        return self._roll()

    def _roll(self) -> AppendFile:
        """Begins a new segment. Syncs the old one first: otherwise a power cut could leave a gap between them."""
        if self._active is not None:
            self._sync_all()
            self._close_active()
            self._base, self._size = self.end, 0
        self._must_roll = False
        name = segment_name(self._base)
        if name in self._file_system.names():  # left by a failed attempt
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
        """Returns when everything appended until now is safe from a power cut. Raises OSError.

        This can take long, so appends continue meanwhile.
        """
        with self._one_sync:
            with self._lock:
                if self._active is None or self.is_synced:
                    return
                active, end = self._active, self.end
                self._syncing = active
            try:
                active.sync()
            finally:
                with self._lock:
                    self._syncing = None
                    if active is not self._active:
                        active.close()
            with self._lock:
                self._synced = max(self._synced, end)

    def _sync_all(self) -> None:
        if self._active is not None and not self.is_synced:
            self._active.sync()
            self._synced = self.end

    def _close_active(self) -> None:
        """Closes the file that is written to; one that is being synced is closed by :meth:`sync`."""
        if self._active is not self._syncing and self._active is not None:
            self._active.close()
        self._active = None

    def leave_mark(self) -> None:
        """Syncs, and writes a mark that says so, so that damage before it is not taken for an interrupted write.

        Does nothing if the disk is too full, because a broker must be able to start and stop even so.
        """
        with self._lock, contextlib.suppress(OSError):
            self._sync_all()
            if not self._ends_with_mark:
                self.append([[]])
                self._sync_all()
                self._ends_with_mark = True

    # --- retention -----------------------------------------------------------------------------------------------

    def remove_before(self, position: int) -> int:
        """Deletes the closed segments that end at or before ``position``, oldest first, and returns their number."""
        with self._lock:
            removed = 0
            while len(self._bases) > 1 and self._bases[1] <= position:
                self._file_system.remove(segment_name(self._bases[0]))
                del self._bases[0]
                removed += 1
            return removed

    @property
    def byte_count(self) -> int:
        """The size of all segments in bytes."""
        return self.end - self.begin

    def close(self) -> None:
        """Syncs and closes the files. Raises OSError when the last sync fails."""
        with self._lock:
            if self._active is not None:
                try:
                    self._sync_all()
                finally:
                    self._close_active()


def _join_small(parts: record.Bytes) -> Iterator[bytes | memoryview]:
    """Yields the same bytes: large parts as they are, and what is between them as one."""
    waiting: record.Bytes = []
    for part in parts:
        if len(part) < _WRITTEN_ALONE_BYTES:
            waiting.append(part)
            continue
        if waiting:
            yield b"".join(waiting)
            waiting = []
        yield memoryview(part)
    if waiting:
        yield b"".join(waiting)
