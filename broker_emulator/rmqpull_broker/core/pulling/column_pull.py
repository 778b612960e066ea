"""Columnar pulls: many queues at once, with the limits of ``rmqpull.v1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.budget import FilterBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.checks import check_next_queue, check_pull, set_offset_of_pull
from rmqpull_broker.core.pulling.message_pull import Pulled, check_offset, find_status, read_first_offset
from rmqpull_broker.core.pulling.request import (
    DEFAULT_CONTEXT,
    PullContext,
    PullRequest,
    PullSysFlag,
    PullVerdict,
)
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft

COLUMN_SCAN_ROWS_MAX = 262_144
"""Rows that a columnar pull scans in one queue. With a rare tag, scanning more rows would block other calls."""
ENOUGH_ROWS = 4096
"""From this many rows, a response ends with a whole stored batch, because both sides copy a part of a batch, but not a
whole one."""
PARKING_STATUSES = (PullStatus.NO_MESSAGE_IN_QUEUE, PullStatus.OFFSET_OVERFLOW_ONE)
"""The statuses that all queues must have for a columnar pull to park."""


@dataclass(frozen=True)
class ColumnPull:
    """One queue of a columnar pull: ``[offset, until_offset)``; None stands for the end of the queue.

    ``creation_id`` identifies the topic; None accepts any. ``commit_offset`` becomes the group's consumer offset.
    """

    queue: MessageQueue
    offset: int
    until_offset: int | None = None
    creation_id: str | None = None
    commit_offset: int | None = None


class _Allowance:
    """What is left of the limits of one response.

    Rows are measured one by one only near the byte limit. Far from it, the size of a batch in memory is enough: it is
    known, and never smaller than the sum of its rows.
    """

    def __init__(self, rows: int, byte_count: int) -> None:
        self._rows = rows
        self._bytes = byte_count
        self._taken_rows = 0
        self._unmeasured: list[pa.RecordBatch] = []
        self._unmeasured_bytes_max = 0
        self.is_spent = False

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the leading rows that still fit. The first row of the response always fits."""
        bytes_max = self._unmeasured_bytes_max + batch.nbytes
        if 0 < batch.num_rows <= self._rows and bytes_max <= self._bytes:
            self._unmeasured.append(batch)
            self._unmeasured_bytes_max = bytes_max
            self._rows -= batch.num_rows
            self._taken_rows += batch.num_rows
            return batch
        if self._taken_rows >= ENOUGH_ROWS:
            self.is_spent = True
            return batch.slice(0, 0)
        self._measure()
        return self._take_measured(batch)

    def _measure(self) -> None:
        for batch in self._unmeasured:
            self._bytes -= _sum(columns.count_row_bytes(batch))
        self._unmeasured, self._unmeasured_bytes_max = [], 0

    def _take_measured(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sizes = columns.count_row_bytes(batch)
        count = min(self._rows, columns.count_leading_rows_within(sizes, self._bytes))
        if not self._taken_rows:
            count = max(count, 1)
        self.is_spent = count < batch.num_rows
        self._rows -= count
        self._taken_rows += count
        self._bytes -= _sum(sizes.slice(0, count))
        return batch.slice(0, count)

    @property
    def is_full(self) -> bool:
        """Whether the row limit is reached."""
        return self._rows <= 0

    def rows_to_scan(self) -> int:
        """Returns how many rows to scan without a filter: at least one, and enough for a whole batch that may fit."""
        return COLUMN_SCAN_ROWS_MAX if self._rows >= ENOUGH_ROWS else max(self._rows, 1)


def _sum(sizes: pa.Array) -> int:
    return int(pc.sum(sizes).as_py() or 0)


class ColumnRead:
    """Reads many queues in order, until ``rows_max`` rows or ``bytes_max`` bytes: all at once, or piece by piece.

    Limits and statuses are those of ``rmqpull.v1``.
    """

    def __init__(self, state: BrokerState, message_filter: MessageFilter, rows_max: int, bytes_max: int) -> None:
        self._state = state
        self._allowance = _Allowance(rows_max, bytes_max)
        self._budget = FilterBudget(message_filter)

    def pull(self, pulls: Sequence[ColumnPull], verdicts: Sequence[PullVerdict | None] | None = None) -> list[Pulled]:
        """Reads the next queues. ``verdicts`` are the results of :func:`begin_column_pull` for them.

        A queue with a reset gets OFFSET_RESET and is not read. A queue that did not exist is not read, even if it
        exists now.
        """
        if verdicts is None:
            return [self._pull_queue(pull, None) for pull in pulls]
        return [
            _report_missing(pull) if verdict is None else self._pull_queue(pull, verdict.reset_offset)
            for pull, verdict in zip(pulls, verdicts, strict=True)
        ]

    def _pull_queue(self, pull: ColumnPull, reset: int | None) -> Pulled:
        state, allowance, budget = self._state, self._allowance, self._budget
        if not _is_readable(state, pull):
            return _report_missing(pull)
        bounds = state.bounds(pull.queue)
        if reset is not None:
            return Pulled(PullStatus.OFFSET_RESET, pull.offset, reset, bounds)
        verdict = check_offset(pull.offset, bounds)
        if verdict is not None:
            return verdict
        if allowance.is_spent or budget.is_spent:
            return Pulled(PullStatus.NOT_REACHED, pull.offset, pull.offset, bounds)
        end = bounds.max_offset if pull.until_offset is None else min(pull.until_offset, bounds.max_offset)
        scan_rows = allowance.rows_to_scan() if budget.filter.keeps_everything else COLUMN_SCAN_ROWS_MAX
        return _scan(state, pull, min(end, pull.offset + scan_rows), budget, allowance, bounds)


def begin_column_pull(
    draft: Draft,
    registry: ConsumerRegistry,
    request: PullRequest,
    pulls: Sequence[ColumnPull],
    now_ms: int,
    context: PullContext = DEFAULT_CONTEXT,
    *,
    is_first_run: bool = True,
) -> list[PullVerdict | None]:
    """Makes the checks of a standard pull for each queue; None for a queue that does not exist.

    ``request`` has what all queues share. Raises the refusal of any other queue: it refuses the whole call.
    """
    verdicts: list[PullVerdict | None] = []
    of_topics: dict[str, PullVerdict] = {}
    for pull in pulls:
        if not _has_topic(draft.find_topic(pull.queue.topic), pull):
            verdicts.append(None)
            continue
        mine = _make_request(request, pull)
        verdict = of_topics.get(pull.queue.topic)
        if verdict is None:
            verdict = check_pull(draft, registry, mine, now_ms, context)
        elif draft.state.is_readable(draft.require_topic(pull.queue.topic), pull.queue):
            verdict = check_next_queue(draft, verdict, mine)
        else:
            verdicts.append(None)
            continue
        if isinstance(verdict.refusal, BadRequest):  # row 8: the topic has no such queue
            verdicts.append(None)
            continue
        if verdict.refusal is not None:
            raise verdict.refusal
        of_topics[pull.queue.topic] = verdict
        if is_first_run:
            set_offset_of_pull(draft, mine)
        verdicts.append(verdict)
    return verdicts


def _make_request(request: PullRequest, pull: ColumnPull) -> PullRequest:
    sys_flag = request.sys_flag | (PullSysFlag.NONE if pull.commit_offset is None else PullSysFlag.COMMIT_OFFSET)
    return replace(
        request, queue=pull.queue, offset=pull.offset, sys_flag=sys_flag, commit_offset=pull.commit_offset or 0
    )


def may_park(results: Sequence[Pulled]) -> bool:
    """Whether a pull with these results parks: every queue exists, and the pull is at its end."""
    return all(result.may_park and result.status in PARKING_STATUSES for result in results)


def are_at_end(state: BrokerState, group: str, pulls: Sequence[ColumnPull]) -> bool:
    """Whether pulls that may park would still find nothing: no message, no reset, no change of a topic."""
    for pull in pulls:
        if not (_is_permitted(state, pull) and _is_readable(state, pull)) or (group, pull.queue) in state.resets:
            return False
        verdict = check_offset(pull.offset, state.bounds(pull.queue))
        if verdict is None or not may_park([verdict]):
            return False
    return True


def _has_topic(topic: TopicConfig | None, pull: ColumnPull) -> TypeGuard[TopicConfig]:
    """Whether the topic of a pull exists and has the right creation id."""
    return topic is not None and pull.creation_id in (None, topic.creation_id)


def _is_permitted(state: BrokerState, pull: ColumnPull) -> bool:
    topic = state.find_topic(pull.queue.topic)
    return topic is not None and topic.is_readable


def _is_readable(state: BrokerState, pull: ColumnPull) -> bool:
    topic = state.find_topic(pull.queue.topic)
    return _has_topic(topic, pull) and state.is_readable(topic, pull.queue)


def _report_missing(pull: ColumnPull) -> Pulled:
    return Pulled(PullStatus.NO_MATCHED_LOGIC_QUEUE, pull.offset, pull.offset, Bounds(0, 0))


def _scan(
    state: BrokerState, pull: ColumnPull, end: int, budget: FilterBudget, allowance: _Allowance, bounds: Bounds
) -> Pulled:
    """Takes matching rows slice by slice. The next offset follows the last scanned row."""
    batches: list[pa.RecordBatch] = []
    next_offset = pull.offset
    has_gap = is_read = False
    rows = state.store.read(pull.queue, pull.offset, end) if end > pull.offset else ()
    for scanned, mask in budget.split(rows):
        first, is_read = read_first_offset(scanned), True
        has_gap |= first > next_offset
        matched = scanned if mask is None else scanned.filter(mask)
        taken = allowance.take(matched) if matched.num_rows else matched
        if taken.num_rows:
            batches.append(taken)
        if taken.num_rows < matched.num_rows:
            next_offset = matched.column(0)[taken.num_rows].as_py()
            break
        next_offset = first + scanned.num_rows
        if allowance.is_full:
            break
    if not is_read and end > pull.offset:
        return Pulled(PullStatus.OFFSET_FOUND_NULL, pull.offset, end, bounds)
    if not batches and allowance.is_spent and next_offset == pull.offset:
        return Pulled(PullStatus.NOT_REACHED, pull.offset, next_offset, bounds)
    return Pulled(find_status(batches, has_gap), pull.offset, next_offset, bounds, batches)
