"""Queues begin later: what retention lets go leaves them, and what still waits there is stored again.

A delayed or half message is kept however old it is, as by Apache's timer, which puts a message again before its file is
deleted; and it pins no segment. A half message ends by the limits of its checks alone (rocketmq-semantics 3.15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.facts import QueuesTrimmed, RowsStored, Settled, StillWaiting
from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.pending import Waiting, read_waiting
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.core.system_topics import STAGE_PREFIX

PUT_AGAIN_MAX = 1_000
"""Waiting messages that one command stores again."""
PUT_AGAIN_BYTES_MAX = 4 << 20
"""Their bytes, but for the last message: other commands wait while it is written."""

_ROW_BYTES = 512
"""About what the log holds of a message beside its body and properties."""


class Trimming:
    """Lets queues begin at new min offsets, once everything that waits before them is stored again behind them.

    Each :meth:`step` is one command, small enough that others need not wait long; the last one trims. A crash between
    two steps is harmless: what was stored again waits at its new place alone, and the rest still at its old one.
    """

    def __init__(self, state: BrokerState, min_offsets: Sequence[tuple[MessageQueue, int]]) -> None:
        self._min_offsets = min_offsets
        self._waiting = state.waiting_before(min_offsets)
        self._done = 0
        self.put_again_bytes = 0
        """About how many bytes were stored again."""
        self.is_done = False

    def step(self, draft: Draft, now_ms: int) -> None:
        """Stores the next messages again; when no more are left, trims the queues."""
        now_ms = max(now_ms, draft.state.newest_store_ms)  # store times never fall within a queue
        taken = self._waiting[self._done : self._done + PUT_AGAIN_MAX]
        budget = PUT_AGAIN_BYTES_MAX
        for queue, group in groupby(taken, lambda waiting: waiting.place.queue):
            if budget <= 0:
                break
            budget -= self._put_again(draft, queue, list(group), budget, now_ms)
        self.put_again_bytes += PUT_AGAIN_BYTES_MAX - budget
        if self._done == len(self._waiting):
            trim(draft, self._min_offsets)
            self.is_done = True

    def _put_again(
        self, draft: Draft, queue: MessageQueue, taken: Sequence[Waiting], byte_budget: int, now_ms: int
    ) -> int:
        """Stores messages of one queue again until the budget is spent, and says how many bytes they were.

        A half message keeps the time of its next check, which would otherwise be counted from its new store time.
        """
        rows: list[StoredMessage] = []
        settled: list[int] = []
        entries: list[tuple[int, int, str]] = []
        byte_count = 0
        for waiting in taken:
            if byte_count >= byte_budget:
                break
            self._done += 1
            if not draft.is_waiting(waiting.place):
                continue
            (stored,) = read_waiting(draft.state.store, [waiting.place])
            offset = draft.next_offset(queue) + len(rows)
            rows.append(replace(stored, queue_offset=offset, store_timestamp_ms=now_ms))
            settled.append(waiting.place.queue_offset)
            entries.append((offset, waiting.due_ms, waiting.msg_id))
            byte_count += _byte_count(stored)
        if rows:
            draft.add(RowsStored(queue, tuple(rows)))
            draft.add(Settled(queue, tuple(settled)))
            draft.add(StillWaiting(queue, tuple(entries)))
        return byte_count


def _byte_count(stored: StoredMessage) -> int:
    message = stored.message
    named = (*message.properties.items(), *message.system_properties.items())
    return _ROW_BYTES + len(message.body) + sum(len(name) + len(value) for name, value in named)


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
