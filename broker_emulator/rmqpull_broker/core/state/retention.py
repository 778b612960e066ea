"""Retention: which segments of the commit log are deleted, by age (fileReservedTime) or by size (retentionBytes).

As in Apache's broker, whole segments are deleted, but never the one that is being written, however old it is (rules
3.16). So a topic without new messages keeps its last ones. A consumer whose offset was deleted gets OFFSET_TOO_SMALL
with the min offset (rules 3.2.1).

A delayed or half message is kept however old it is. Apache's timer puts a message again before its file is deleted;
here :class:`Trimmer` stores it again at the end of its queue, so that it pins no segment. A half message ends only by
the limits of its checks (rules 3.15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuesTrimmed, RowsStored, WaitingEnded
from rmqpull_broker.core.state.half_messages import keep_due_times
from rmqpull_broker.core.state.lengths import find_check_length_ms
from rmqpull_broker.core.state.names import STAGE_PREFIX, WAITING_TOPICS
from rmqpull_broker.core.state.ports import Cut, RetentionLimits
from rmqpull_broker.core.state.stage_facts import StagesEnded
from rmqpull_broker.core.state.waiting_messages import (
    DUE_MS,
    DelayedMessage,
    PendingMessage,
    estimate_stored_bytes,
    read_waiting,
)
from rmqpull_proto.names import HALF_TOPIC

_HOUR_MS = 3_600_000


class ClosedSegment(NamedTuple):
    """A segment by its log positions, and the latest time at which a message up to its end can have been written."""

    base: int
    end: int
    newest_written_ms: int


def make_retention_limits(properties: BrokerProperties) -> RetentionLimits:
    """Returns the limits that the broker's properties set."""
    return RetentionLimits(properties.file_reserved_time * _HOUR_MS, properties.retention_bytes or None)


def find_cut(
    closed: Sequence[ClosedSegment],
    log_end: int,
    limits: RetentionLimits,
    now_ms: int,
    *,
    ends_with_messages: bool = True,
) -> int | None:
    """Returns the log position before which everything may be deleted; None when nothing may.

    ``closed`` has the closed segments, oldest first. ``log_end`` is the position at which the log ends.
    ``ends_with_messages`` says whether the segment being written has messages. If not, as after a failed write, the
    segment before it is not deleted by age either.
    """
    position = None
    for after, segment in enumerate(closed, 1):
        is_too_much = limits.log_bytes_max is not None and log_end - segment.base > limits.log_bytes_max
        may_expire = ends_with_messages or after < len(closed)
        is_expired = may_expire and limits.is_expired(segment.newest_written_ms, now_ms)
        if not is_too_much and not is_expired:
            break
        position = segment.end
    return position


PUT_AGAIN_MAX = 1_000
"""The most waiting messages that one command stores again."""
PUT_AGAIN_BYTES_MAX = 4 << 20
"""The most bytes of them, not counting the last message, because other commands wait during the write."""


class Trimmer:
    """Sets new min offsets of queues, after storing again every message that waits before them.

    Each :meth:`step` is one small command, so that other commands need not wait long. The first step trims the queues
    of ordinary topics: a topic that is deleted and created again between two steps starts at offset 0. The last step
    trims the queues in which messages wait. A crash between two steps does no harm: a message that was stored again
    waits only at its new offset, and the others still wait at their old ones.
    """

    def __init__(self, state: BrokerState, cut: Cut) -> None:
        self.cut = cut
        self._ordinary = [entry for entry in cut.min_offsets if entry[0].topic not in WAITING_TOPICS]
        self._waiting = [entry for entry in cut.min_offsets if entry[0].topic in WAITING_TOPICS]
        self._stage_ids = list(cut.stage_ids)
        self._list_pending(state)
        self.put_again_bytes = 0
        """The approximate bytes that were stored again."""
        self.is_done = False

    def _list_pending(self, state: BrokerState) -> None:
        self._pending = state.list_pending_before(self._waiting)
        self._clock_reads = state.clock_reads
        self._next: list[PendingMessage | DelayedMessage] = []

    def step(self, draft: Draft, now_ms: int) -> None:
        """Stores the next messages again, and trims the queues that are ready."""
        if draft.reads_clock:
            return  # due times are about to change
        if self._clock_reads != draft.state.clock_reads:
            self._list_pending(draft.state)
        count, byte_budget = PUT_AGAIN_MAX, PUT_AGAIN_BYTES_MAX
        queues = set[MessageQueue]()  # each queue once: only the next command sees the new offsets
        while count > 0 and byte_budget > 0 and self._has_more() and self._next[0].stored_at.queue not in queues:
            queues.add(self._next[0].stored_at.queue)
            rows = self._put_again(draft, count, byte_budget, now_ms)
            count -= len(rows)
            byte_budget -= sum(map(estimate_stored_bytes, rows))
        self.put_again_bytes += PUT_AGAIN_BYTES_MAX - byte_budget
        self.is_done = not self._has_more()
        self._drop_stages(draft)
        trim(draft, [*self._ordinary, *(self._waiting if self.is_done else ())])
        self._ordinary = []

    def _drop_stages(self, draft: Draft) -> None:
        """Drops the open stages that would lose rows. A commit in the meantime has made theirs readable."""
        stages = ((stage_id, draft.find_stage(stage_id)) for stage_id in self._stage_ids)
        ended = tuple(stage_id for stage_id, stage in stages if stage is not None and not stage.is_committed)
        if ended:
            draft.add(StagesEnded(ended, self.cut.limit))
        self._stage_ids = []

    def _has_more(self) -> bool:
        while not self._next:
            messages = next(self._pending, None)
            if messages is None:
                return False
            self._next = list(messages)
        return True

    def _put_again(self, draft: Draft, count: int, byte_budget: int, now_ms: int) -> list[StoredMessage]:
        """Stores messages of one queue again, as many as the limits allow, and returns them.

        A message keeps its due time, and a half message the time of its next check. The due time in its properties is
        the original one, which may be out of date if the clock was set since.
        """
        queue = self._next[0].stored_at.queue
        pending = [entry for entry in self._next[:count] if draft.is_pending(entry)]
        stored = read_waiting(draft.state.store, [entry.stored_at for entry in pending], byte_budget)
        self._next = pending[len(stored) :] + self._next[count:]
        if not stored:
            return []
        first_offset = draft.find_next_offset(queue)
        store_ms = draft.find_store_ms(queue, now_ms)
        rows = [
            replace(_with_due_ms(row, entry), queue_offset=offset, store_timestamp_ms=store_ms)
            for offset, (row, entry) in enumerate(zip(stored, pending, strict=False), first_offset)
        ]
        done = pending[: len(rows)]
        due_times = tuple(entry.due_ms for entry in done)
        draft.add(RowsStored(queue, tuple(rows)))
        draft.add(WaitingEnded(queue, tuple(entry.stored_at.queue_offset for entry in done), due_times))
        if queue.topic == HALF_TOPIC:
            lengths = [find_check_length_ms(draft.properties, row.message) for row in rows]
            draft.add(keep_due_times(queue, rows, due_times, lengths))
        return rows


def _with_due_ms(row: StoredMessage, entry: PendingMessage | DelayedMessage) -> StoredMessage:
    """Returns a delayed message with its present due time among its properties."""
    own = row.message.system_properties
    if isinstance(entry, PendingMessage) or own[DUE_MS] == str(entry.due_ms):
        return row
    return replace(row, message=replace(row.message, system_properties={**own, DUE_MS: str(entry.due_ms)}))


def is_outdated(draft: Draft, cut: Cut) -> bool:
    """Whether an earlier command of this draft committed or dropped a stage that the cut found open.

    Then the rows of the stage may be readable by now, and the cut does not know it.
    """
    stages = map(draft.find_stage, cut.stage_ids)
    return any(stage is None or stage.is_committed for stage in stages)


def trim(draft: Draft, min_offsets: Sequence[tuple[MessageQueue, int]]) -> None:
    """Sets the min offsets of queues.

    Skips queues of topics that an earlier command deleted and that have started again at offset 0. Also skips stages:
    they end by themselves, and committed rows must not get lost before they are readable.
    """
    kept = [
        (queue, min_offset)
        for queue, min_offset in min_offsets
        if draft.find_kept_bounds(queue).max_offset >= min_offset and not queue.topic.startswith(STAGE_PREFIX)
    ]
    draft.add(QueuesTrimmed(tuple(kept)))
