"""Reading the commit log when a broker starts.

docs/durability.md says when recovery cuts the end of the log, when it must refuse to start, and why.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log import format_1, record
from rmqpull_broker.store.log.rows import LoggedRows
from rmqpull_broker.store.log.segments import CorruptLog, is_synced_behind, is_zero, read_frames, segment_name
from rmqpull_broker.store.vfs import FileSystem

ROWS_TOGETHER_MAX = 4096
"""The most records of single messages that are applied together."""

Apply = Callable[[list[Fact], LogRange], None]


@dataclass(frozen=True)
class Recovery:
    """What recovery found. ``dropped_bytes`` were never acknowledged, and were cut off file ``dropped_from``."""

    fact_batches: int
    dropped_bytes: int = 0
    dropped_from: str = ""


@contextlib.contextmanager
def pause_cycle_search() -> Iterator[None]:
    """Pauses the garbage collector's search for cycles, which would take half of the time of a replay.

    A replay makes a tuple for each message, but no cycles.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class LogRecovery:
    """Replays the segments of a directory, and finds out how the log ends.

    Arguments: the directory; the log positions at which its segments begin; the function that gets every batch of facts
    after ``from_position``, in order. The log was synced up to there when the newest snapshot was taken.
    """

    def __init__(self, file_system: FileSystem, bases: Sequence[int], apply: Apply, from_position: int) -> None:
        self._file_system = file_system
        self._apply = apply
        self._from_position = from_position
        self.bases = list(bases)
        self.base = 0
        """The position at which the last segment begins."""
        self.size = 0
        """The size of the last segment; 0 when it was removed."""
        self.must_roll = False
        """Whether the next append must begin a new segment, because the last one has an older format."""
        self.ends_with_mark = True

    @property
    def _end(self) -> int:
        return self.base + self.size

    def run(self) -> Recovery:
        """Replays all segments. Raises CorruptLog when acknowledged records are damaged, missing or of another
        format."""
        starts = [base for base in self.bases if base <= self._from_position]
        if not starts and (self.bases or self._from_position):
            where = f"{self._describe(self.bases[0])} should begin" if self.bases else "the log should reach"
            raise CorruptLog(
                f"{where} at log position {self._from_position}: a segment before it is missing; restore it from a copy"
            )
        batches, dropped, self.base = 0, Recovery(0), starts[-1] if starts else 0
        for index in range(max(len(starts) - 1, 0), len(self.bases)):
            base = self.bases[index]
            if self._end != base:
                raise CorruptLog(
                    f"{self._describe(base)} should begin at log position {self._end}: "
                    "a segment before it is missing or was cut; restore it from a copy"
                )
            self.base, self.size = base, 0
            following = self.bases[index + 1] if index + 1 < len(self.bases) else None
            found = self._recover_segment(following)
            batches, dropped = batches + found.fact_batches, found if found.dropped_bytes else dropped
        if self._from_position > self._end:
            raise CorruptLog(
                f"{self._describe(self.base)} ends at offset {self.size}, but a snapshot says that it was synced up to "
                f"offset {self._from_position - self.base}; restore it from a copy, or remove the *.snapshot files to "
                "continue with what is left"
            )
        return Recovery(batches, dropped.dropped_bytes, dropped.dropped_from)

    def _recover_segment(self, following: int | None) -> Recovery:
        """Replays one segment. ``following`` is the position at which the next one begins.

        Bytes beyond that position were never acknowledged: their sync failed, and the log continued in a new segment.
        """
        base, name = self.base, segment_name(self.base)
        start = max(self._from_position, base + record.SEGMENT_HEADER_BYTES)
        file_bytes = self._file_system.size(name)
        is_new = following is None and start == base + record.SEGMENT_HEADER_BYTES
        if is_new and self._has_no_header(name, file_bytes):
            return self._remove_segment(file_bytes)
        end = file_bytes if following is None else min(file_bytes, following - base)
        batches = self._replay(start, end)
        if self.size == file_bytes or self._end == following:
            return Recovery(batches)
        if following is not None or is_synced_behind(self._file_system.view(name), self.size, base):
            raise CorruptLog(
                f"{self._describe(base)} is damaged at offset {self.size}, and acknowledged records follow; "
                "restore the file from a copy, or move the data directory away to start empty"
            )
        self._file_system.truncate(name, self.size)
        return Recovery(batches, file_bytes - self.size, self._describe(base))

    def _has_no_header(self, name: str, file_bytes: int) -> bool:
        if file_bytes < record.SEGMENT_HEADER_BYTES:
            return True
        data = self._file_system.view(name)
        return record.is_torn_header(data) or is_zero(data)

    def _remove_segment(self, size: int) -> Recovery:
        """Removes a segment whose header was never synced, and which therefore holds nothing."""
        self._file_system.remove(segment_name(self.base))
        self.bases.pop()
        return Recovery(0, size, self._describe(self.base))

    def _replay(self, start: int, end: int) -> int:
        """Applies the records from log position ``start`` to file offset ``end``, and counts their batches."""
        base, name, batches = self.base, segment_name(self.base), 0
        rows = _RowCollector(self._apply, base)
        file = self._file_system.open(name)
        try:
            version = record.check_segment_header(memoryview(file.read(0, record.SEGMENT_HEADER_BYTES)))
            self.must_roll = version != record.FORMAT_VERSION
            self.size = min(start - base, max(end, record.SEGMENT_HEADER_BYTES))
            for offset, (size, _, payload) in read_frames(file, start - base, end):
                self.size = offset + size
                self.ends_with_mark = not payload
                if not payload:
                    continue
                batches += 1
                lone = record.decode_lone_rows(payload) if version != format_1.VERSION else None
                if lone is not None:
                    rows.add(lone, base + offset, size)
                else:
                    rows.apply()
                    written = LogRange(base, base + offset, base + offset + size)
                    self._apply(list(record.decode_payload(payload, version, written)), written)
            rows.apply()
        except record.UnknownFormat as error:
            raise CorruptLog(f"{self._describe(base)} cannot be read: {error}") from None
        except (AssertionError, LookupError, ValueError) as error:
            raise CorruptLog(
                f"{self._describe(base)} does not continue what comes before it, up to offset {self.size}: {error!r}; "
                "it may be a copy of another file. Restore it"
            ) from error
        finally:
            file.close()
        return batches

    def _describe(self, base: int) -> str:
        return self._file_system.describe(segment_name(base))


class _RowCollector:
    """Collects records of single messages, and applies those of each queue together.

    The order among queues does not matter, because these records only store messages.
    """

    def __init__(self, apply: Apply, segment: int) -> None:
        self._apply = apply
        self._segment = segment
        self._by_queue: dict[MessageQueue, list[bytes]] = {}
        self._count = self._begin = self._end = 0

    def add(self, lone: tuple[MessageQueue, bytes], position: int, size: int) -> None:
        """Adds the queue and rows of the record of ``size`` bytes at that log position."""
        if not self._count:
            self._begin = position
        self._end = position + size
        queue, data = lone
        self._by_queue.setdefault(queue, []).append(data)
        self._count += 1
        if self._count == ROWS_TOGETHER_MAX:
            self.apply()

    def apply(self) -> None:
        """Applies the collected rows."""
        for queue, data in self._by_queue.items():
            self._apply([LoggedRows(queue, *data)], LogRange(self._segment, self._begin, self._end))
        self._by_queue.clear()
        self._count = 0
