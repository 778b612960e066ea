"""A pull of many queues into columns, with the limits of ``rmqpull.v1``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeGuard

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.checks import begin_pull
from rmqpull_broker.core.pulling.message_pull import Pulled, find_status, first_offset, look_up
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
"""Rows that a columnar pull looks at in one queue before it answers, so that a rare tag holds nobody else up."""
ENOUGH_ROWS = 4096
"""An answer with so many rows ends with a stored batch and not within one: a part is copied by both sides, a whole
batch by none."""
WAITING_STATUSES = (PullStatus.NO_MESSAGE_IN_QUEUE, PullStatus.OFFSET_OVERFLOW_ONE)
"""What every queue must be answered for a columnar pull to wait."""


@dataclass(frozen=True)
class ColumnPull:
    """One queue of a columnar pull: ``[offset, until_offset)``, to the queue's end when None.

    ``creation_id`` is that of the topic which is meant; None takes any. ``commit_offset`` becomes the group's
    consumer offset of the queue.
    """

    queue: MessageQueue
    offset: int
    until_offset: int | None = None
    creation_id: str | None = None
    commit_offset: int | None = None


class _Allowance:
    """What is left of the limits of one columnar answer.

    Rows are measured one by one only where the byte limit is near: what a batch takes in memory is never less than its
    rows are counted with, and costs nothing to know.
    """

    def __init__(self, rows: int, byte_count: int) -> None:
        self._rows = rows
        self._bytes = byte_count
        self._taken_rows = 0
        self._unmeasured: list[pa.RecordBatch] = []
        self._unmeasured_bytes_max = 0
        self.is_spent = False

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The leading rows that still fit. The first row of the whole answer always does."""
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
        """Whether no row more may be taken."""
        return self._rows <= 0

    def rows_to_scan(self) -> int:
        """How far to look when each row is taken: at least at one, and to the end of a batch that may fit whole."""
        return COLUMN_SCAN_ROWS_MAX if self._rows >= ENOUGH_ROWS else max(self._rows, 1)


def _sum(sizes: pa.Array) -> int:
    return int(pc.sum(sizes).as_py() or 0)


def pull_columns(
    state: BrokerState,
    pulls: Sequence[ColumnPull],
    message_filter: MessageFilter,
    rows_max: int,
    bytes_max: int,
    verdicts: Sequence[PullVerdict | None] | None = None,
) -> list[Pulled]:
    """A columnar pull over many queues, filled in their order until ``rows_max`` rows or ``bytes_max`` bytes.

    Limits and statuses are those of ``rmqpull.v1``. ``verdicts`` are the checks' on each pull: a queue that was reset
    is told so instead of being read, and one that was not there is not read, though it may have come meanwhile.
    """
    allowance = _Allowance(rows_max, bytes_max)
    if verdicts is None:
        return [_pull_queue(state, pull, message_filter, allowance, None) for pull in pulls]
    return [
        _not_there(pull)
        if verdict is None
        else _pull_queue(state, pull, message_filter, allowance, verdict.reset_offset)
        for pull, verdict in zip(pulls, verdicts, strict=True)
    ]


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
    """The checks of a standard pull for each queue; None for one that is not there.

    ``request`` is the pull of any of them. What refuses one of the others refuses all: then that is raised.
    """
    verdicts: list[PullVerdict | None] = []
    for pull in pulls:
        if not _is_meant(draft.find_topic(pull.queue.topic), pull):
            verdicts.append(None)
            continue
        mine = _request_of(request, pull)
        verdict = begin_pull(draft, registry, mine, now_ms, context, is_first_run=is_first_run)
        if isinstance(verdict.refusal, BadRequest):  # row 8: the topic has no such queue
            verdicts.append(None)
            continue
        if verdict.refusal is not None:
            raise verdict.refusal
        verdicts.append(verdict)
    return verdicts


def _request_of(request: PullRequest, pull: ColumnPull) -> PullRequest:
    sys_flag = request.sys_flag | (PullSysFlag.NONE if pull.commit_offset is None else PullSysFlag.COMMIT_OFFSET)
    return replace(
        request, queue=pull.queue, offset=pull.offset, sys_flag=sys_flag, commit_offset=pull.commit_offset or 0
    )


def waits(results: Sequence[Pulled]) -> bool:
    """Whether such a pull is held: every queue is there and at its end."""
    return all(result.waits and result.status in WAITING_STATUSES for result in results)


def _is_meant(topic: TopicConfig | None, pull: ColumnPull) -> TypeGuard[TopicConfig]:
    """Whether the topic of a pull is there, and the one that is meant."""
    return topic is not None and pull.creation_id in (None, topic.creation_id)


def _not_there(pull: ColumnPull) -> Pulled:
    return Pulled(PullStatus.NO_MATCHED_LOGIC_QUEUE, pull.offset, pull.offset, Bounds(0, 0))


def _pull_queue(
    state: BrokerState, pull: ColumnPull, message_filter: MessageFilter, allowance: _Allowance, reset: int | None
) -> Pulled:
    topic = state.find_topic(pull.queue.topic)
    if not (_is_meant(topic, pull) and state.is_readable(topic, pull.queue)):
        return _not_there(pull)
    bounds = state.bounds(pull.queue)
    if reset is not None:
        return Pulled(PullStatus.OFFSET_RESET, pull.offset, reset, bounds)
    verdict = look_up(pull.offset, bounds)
    if verdict is not None:
        return verdict
    if allowance.is_spent:
        return Pulled(PullStatus.NOT_REACHED, pull.offset, pull.offset, bounds)
    end = bounds.max_offset if pull.until_offset is None else min(pull.until_offset, bounds.max_offset)
    scan_rows = allowance.rows_to_scan() if message_filter.keeps_everything else COLUMN_SCAN_ROWS_MAX
    return _scan(state, pull, min(end, pull.offset + scan_rows), message_filter, allowance, bounds)


def _scan(
    state: BrokerState, pull: ColumnPull, end: int, message_filter: MessageFilter, allowance: _Allowance, bounds: Bounds
) -> Pulled:
    """Takes matching rows slice by slice; the next offset follows the last row that was looked at."""
    batches: list[pa.RecordBatch] = []
    next_offset = pull.offset
    was_removed = is_read = False
    for scanned in state.store.read(pull.queue, pull.offset, end) if end > pull.offset else ():
        first, is_read = first_offset(scanned), True
        was_removed |= first > next_offset
        mask = message_filter.mask(scanned)
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
    return Pulled(find_status(batches, was_removed), pull.offset, next_offset, bounds, batches)
