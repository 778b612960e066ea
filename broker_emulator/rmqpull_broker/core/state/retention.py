"""Retention: which segments of the commit log are deleted, by age (fileReservedTime) or by size (retentionBytes).

As in Apache's broker, whole segments are deleted, but never the one that is being written. A consumer that is behind
what is left gets OFFSET_TOO_SMALL with the min offset (rules 3.2.1).

A delayed or half message is kept however old it is. Apache's timer puts a message again before its file is deleted;
here :class:`Trimming` stores it again at the end of its queue, so that it pins no segment. A half message ends only by
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
from rmqpull_broker.core.state.facts import QueuesTrimmed, RowsStored, StillWaiting, WaitingEnded
from rmqpull_broker.core.state.names import HALF_TOPIC, STAGE_PREFIX, WAITING_TOPICS
from rmqpull_broker.core.state.pending import DelayedMessage, PendingMessage, estimate_stored_bytes, read_waiting
from rmqpull_broker.core.state.ports import RetentionLimits

_HOUR_MS = 3_600_000


class ClosedSegment(NamedTuple):
    """A segment by its log positions, and the newest store time of the messages in it and before it."""

    base: int
    end: int
    newest_store_ms: int


def make_retention_limits(properties: BrokerProperties) -> RetentionLimits:
    """What the broker's properties say."""
    return RetentionLimits(properties.file_reserved_time * _HOUR_MS, properties.retention_bytes or None)


def find_cut(closed: Sequence[ClosedSegment], log_end: int, limits: RetentionLimits, now_ms: int) -> int | None:
    """The log position before which everything may go; None when nothing may.

    ``closed`` are the closed segments, oldest first; ``log_end`` is where the log ends.
    """
    position = None
    for segment in closed:
        is_too_much = limits.log_bytes_max is not None and log_end - segment.base > limits.log_bytes_max
        if not is_too_much and not limits.is_expired(segment.newest_store_ms, now_ms):
            break
        position = segment.end
    return position


PUT_AGAIN_MAX = 1_000
"""Waiting messages that one command stores again."""
PUT_AGAIN_BYTES_MAX = 4 << 20
"""Their bytes, but for the last message: other commands wait while it is written."""


class Trimming:
    """Lets queues begin at new min offsets, once everything that waits before them is stored again behind them.

    Each :meth:`step` is one command, small enough that others need not wait long. The first one trims the queues of
    topics that can be deleted: between two steps such a queue may begin anew. The last one trims those where messages
    wait. A crash between two steps is harmless: what was stored again waits at its new place alone, and the rest still
    at its old one.
    """

    def __init__(self, state: BrokerState, min_offsets: Sequence[tuple[MessageQueue, int]]) -> None:
        self._at_once = [entry for entry in min_offsets if entry[0].topic not in WAITING_TOPICS]
        self._at_last = [entry for entry in min_offsets if entry[0].topic in WAITING_TOPICS]
        self._waiting = state.waiting_before(self._at_last)
        self._next: list[PendingMessage | DelayedMessage] = []
        self.put_again_bytes = 0
        """About how many bytes were stored again."""
        self.is_done = False

    def step(self, draft: Draft, now_ms: int) -> None:
        """Stores the next messages again, and trims the queues whose turn it is."""
        now_ms = max(now_ms, draft.state.newest_store_ms)  # store times never fall within a queue
        count, byte_budget = PUT_AGAIN_MAX, PUT_AGAIN_BYTES_MAX
        queues = set[MessageQueue]()  # each once: offsets go on only in the next command
        while count > 0 and byte_budget > 0 and self._has_more() and self._next[0].stored_at.queue not in queues:
            queues.add(self._next[0].stored_at.queue)
            rows = self._put_again(draft, count, byte_budget, now_ms)
            count -= len(rows)
            byte_budget -= sum(map(estimate_stored_bytes, rows))
        self.put_again_bytes += PUT_AGAIN_BYTES_MAX - byte_budget
        self.is_done = not self._has_more()
        trim(draft, [*self._at_once, *(self._at_last if self.is_done else ())])
        self._at_once = []

    def _has_more(self) -> bool:
        while not self._next:
            together = next(self._waiting, None)
            if together is None:
                return False
            self._next = list(together)
        return True

    def _put_again(self, draft: Draft, count: int, byte_budget: int, now_ms: int) -> list[StoredMessage]:
        """Stores messages of one queue again, as many as the limits allow, and gives them.

        A half message keeps the time of its next check, which would otherwise be counted from its new store time.
        """
        queue = self._next[0].stored_at.queue
        waiting = [entry for entry in self._next[:count] if draft.is_waiting(entry)]
        stored = read_waiting(draft.state.store, [entry.stored_at for entry in waiting], byte_budget)
        self._next = waiting[len(stored) :] + self._next[count:]
        first_offset = draft.next_offset(queue)
        rows = [
            replace(row, queue_offset=offset, store_timestamp_ms=now_ms)
            for offset, row in enumerate(stored, first_offset)
        ]
        if rows:
            done = waiting[: len(rows)]
            dues = tuple(entry.due_ms for entry in done)
            draft.add(RowsStored(queue, tuple(rows)))
            draft.add(WaitingEnded(queue, tuple(entry.stored_at.queue_offset for entry in done), dues))
            if queue.topic == HALF_TOPIC:
                ids = [row.message.msg_id for row in rows]
                draft.add(StillWaiting(queue, tuple(zip((row.queue_offset for row in rows), dues, ids, strict=True))))
        return rows


def trim(draft: Draft, min_offsets: Sequence[tuple[MessageQueue, int]]) -> None:
    """Lets queues begin at these offsets.

    An earlier command may have deleted a topic, whose queues begin anew. Stages end by themselves, and what is
    committed of them is nobody's to lose before it was readable.
    """
    kept = [
        (queue, min_offset)
        for queue, min_offset in min_offsets
        if draft.kept_bounds(queue).max_offset >= min_offset and not queue.topic.startswith(STAGE_PREFIX)
    ]
    draft.add(QueuesTrimmed(tuple(kept)))
