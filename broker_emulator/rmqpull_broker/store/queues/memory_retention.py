"""Retention without a log: which rows in memory are too old, or too many."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.ports import Cut, RetentionLimits
from rmqpull_broker.store.queues.chunks import HeldRows

READS_APART_MS = 60_000
"""The precision of ages of messages that a store without a log got while its clock was behind."""


class ClockReads:
    """When the clock was found to have been set back: pairs of the log position and the time of each reading."""

    def __init__(self) -> None:
        self._reads: list[tuple[int, int]] = []

    def add(self, position: int, time_ms: int) -> None:
        """Notes that everything up to a position was written no later than ``time_ms``."""
        self._reads = [read for read in self._reads if read[1] < time_ms]
        if len(self._reads) > 1 and time_ms - self._reads[-2][1] < READS_APART_MS:
            self._reads.pop()
        self._reads.append((position, time_ms))

    def find_written_ms(self, held: HeldRows) -> int:
        """Returns the latest time at which the last of some rows can have been written."""
        index = bisect.bisect_left(self._reads, (held.written_until, 0))
        return min(held.last_store_ms, self._reads[index][1]) if index < len(self._reads) else held.last_store_ms


def find_memory_cut(
    held: Iterable[tuple[MessageQueue, HeldRows]],
    stages: Iterable[tuple[str, HeldRows]],
    byte_count: int,
    reads: ClockReads,
    limits: RetentionLimits,
    now_ms: int,
) -> Cut | None:
    """Decides which rows may be deleted: those that are too old or, oldest first, too many. None when none may.

    ``held`` has the rows of each queue in order, and ``stages`` those of each open stage. ``byte_count`` is the size of
    all of them. The newest rows of a queue are not deleted by age, as a log keeps its newest segment.
    """
    queues = list(held)
    newest = {queue: rows.until_offset for queue, rows in queues}
    owners: list[tuple[MessageQueue | str, HeldRows]] = [*queues, *stages]
    aged = [(reads.find_written_ms(rows), rows.until_offset, owner, rows.byte_count) for owner, rows in owners]
    min_offsets, stage_ids, limit = dict[MessageQueue, int](), list[str](), ""
    for written_ms, end, owner, row_bytes in sorted(aged, key=lambda entry: entry[:2]):
        is_too_much = limits.log_bytes_max is not None and byte_count > limits.log_bytes_max
        if not is_too_much and not limits.is_expired(written_ms, now_ms):
            break
        if isinstance(owner, str):
            stage_ids.append(owner)
        elif not is_too_much and end == newest[owner]:
            continue
        else:
            min_offsets[owner] = end
        limit = limit or limits.name(is_too_much)
        byte_count -= row_bytes
    return Cut(0, list(min_offsets.items()), stage_ids, limit) if limit else None
