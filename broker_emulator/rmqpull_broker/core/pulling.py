"""What a pull finds: the decision table, then the rows that pass filter and limits (rocketmq-semantics 3.2).

Reads state and changes nothing. Whether an empty answer is given or held is the caller's business.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns
from rmqpull_broker.core.filtering import MessageFilter
from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.state import BrokerState

SCAN_ROWS_MAX = 800
"""Queue entries that one standard pull looks at: maxFilterMessageSize / 20 (rocketmq-semantics 3.2.2)."""
TRANSFER_COUNT_MAX = 32
TRANSFER_BYTES_MAX = 262_144

COLUMN_SCAN_ROWS_MAX = 262_144
"""Rows that a columnar pull looks at in one queue before it answers, so that a rare tag holds nobody else up."""


class PullStatus(enum.Enum):
    """What a look into a queue found, in RocketMQ's names (rocketmq-semantics 3.2.1)."""

    FOUND = enum.auto()
    NO_MATCHED_MESSAGE = enum.auto()
    NO_MESSAGE_IN_QUEUE = enum.auto()
    OFFSET_OVERFLOW_ONE = enum.auto()
    OFFSET_OVERFLOW_BADLY = enum.auto()
    OFFSET_TOO_SMALL = enum.auto()
    NO_MATCHED_LOGIC_QUEUE = enum.auto()
    NOT_REACHED = enum.auto()


@dataclass(frozen=True)
class Pulled:
    """The result for one queue: rows as slices in order, and where the next pull begins."""

    status: PullStatus
    offset: int
    next_offset: int
    bounds: Bounds
    batches: Sequence[pa.RecordBatch] = ()

    @property
    def row_count(self) -> int:
        """Rows over all slices."""
        return sum(batch.num_rows for batch in self.batches)

    @property
    def waits(self) -> bool:
        """Whether such a pull is held until something arrives (rocketmq-semantics 3.3)."""
        if self.status is PullStatus.NO_MESSAGE_IN_QUEUE:
            return self.offset == 0
        return self.status is PullStatus.OFFSET_OVERFLOW_ONE

    @property
    def is_outside(self) -> bool:
        """Whether the offset asked for lies outside the queue: OFFSET_ILLEGAL for a client (rocketmq-semantics 3.3)."""
        if self.status is PullStatus.NO_MESSAGE_IN_QUEUE:
            return self.offset != 0
        return self.status in (PullStatus.OFFSET_OVERFLOW_BADLY, PullStatus.OFFSET_TOO_SMALL)


def look_up(offset: int, bounds: Bounds) -> Pulled | None:
    """Rows 3 to 6 of the decision table (rocketmq-semantics 3.2.1); None when there is something to scan."""
    if bounds.max_offset == 0:
        return Pulled(PullStatus.NO_MESSAGE_IN_QUEUE, offset, 0, bounds)
    if offset < bounds.min_offset:
        return Pulled(PullStatus.OFFSET_TOO_SMALL, offset, bounds.min_offset, bounds)
    if offset == bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_ONE, offset, offset, bounds)
    if offset > bounds.max_offset:
        return Pulled(PullStatus.OFFSET_OVERFLOW_BADLY, offset, bounds.max_offset, bounds)
    return None


def pull_messages(
    state: BrokerState, queue: MessageQueue, offset: int, batch_size: int, tag_filter: MessageFilter
) -> Pulled:
    """A standard pull: at most 32 messages, 256 KiB and 800 scanned entries; the first message always fits.

    The scan loop of rocketmq-semantics 3.2.2: whether the batch is full is asked before each entry, and entries that
    the filter drops are behind the reader all the same.
    """
    bounds = state.bounds(queue)
    verdict = look_up(offset, bounds)
    if verdict is not None:
        return verdict
    count_max = max(1, min(batch_size, TRANSFER_COUNT_MAX))
    scan_rows = count_max if tag_filter.keeps_everything else SCAN_ROWS_MAX
    taken_count = taken_bytes = 0
    batches: list[pa.RecordBatch] = []
    next_offset = offset
    is_full = False
    for scanned in state.store.read(queue, offset, min(bounds.max_offset, offset + scan_rows)):
        mask = tag_filter.mask(scanned)
        passes = [True] * scanned.num_rows if mask is None else mask.to_pylist()
        taken = []
        for index, size in enumerate(columns.row_bytes(scanned).to_pylist()):
            is_full = taken_count > 0 and (taken_count >= count_max or taken_bytes + size > TRANSFER_BYTES_MAX)
            if is_full:
                break
            next_offset += 1
            if passes[index]:
                taken.append(index)
                taken_count += 1
                taken_bytes += size
        if taken:
            batches.append(scanned.take(pa.array(taken, pa.int64())))
        if is_full:
            break
    status = PullStatus.FOUND if batches else PullStatus.NO_MATCHED_MESSAGE
    return Pulled(status, offset, next_offset, bounds, batches)


@dataclass(frozen=True)
class ColumnPull:
    """One queue of a columnar pull: ``[offset, until_offset)``, to the queue's end when None."""

    queue: MessageQueue
    offset: int
    until_offset: int | None = None


class _Allowance:
    """What is left of the limits of one columnar answer."""

    def __init__(self, rows: int, byte_count: int) -> None:
        self._rows = rows
        self._bytes = byte_count
        self._is_empty = True
        self.is_spent = False

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The leading rows that still fit. The first row of the whole answer always does."""
        sizes = columns.row_bytes(batch)
        count = min(self._rows, columns.leading_rows_within(sizes, self._bytes))
        if self._is_empty:
            count = max(count, 1)
        self.is_spent = count < batch.num_rows
        self._is_empty = self._is_empty and count == 0
        self._rows -= count
        self._bytes -= int(pc.sum(sizes.slice(0, count)).as_py() or 0)
        return batch.slice(0, count)

    def rows_wanted(self) -> int:
        """Rows that may still be taken, at least one to look at."""
        return max(self._rows, 1)


def pull_columns(
    state: BrokerState, pulls: Sequence[ColumnPull], tag_filter: MessageFilter, rows_max: int, bytes_max: int
) -> list[Pulled]:
    """A columnar pull over many queues, filled in their order until ``rows_max`` rows or ``bytes_max`` bytes.

    Limits and statuses are those of ``rmqpull.v1``.
    """
    allowance = _Allowance(rows_max, bytes_max)
    return [_pull_queue(state, pull, tag_filter, allowance) for pull in pulls]


def _pull_queue(state: BrokerState, pull: ColumnPull, tag_filter: MessageFilter, allowance: _Allowance) -> Pulled:
    topic = state.find_topic(pull.queue.topic)
    if topic is None or not state.is_readable(topic, pull.queue):
        return Pulled(PullStatus.NO_MATCHED_LOGIC_QUEUE, pull.offset, pull.offset, Bounds(0, 0))
    bounds = state.bounds(pull.queue)
    verdict = look_up(pull.offset, bounds)
    if verdict is not None:
        return verdict
    if allowance.is_spent:
        return Pulled(PullStatus.NOT_REACHED, pull.offset, pull.offset, bounds)
    end = bounds.max_offset if pull.until_offset is None else min(pull.until_offset, bounds.max_offset)
    scan_rows = allowance.rows_wanted() if tag_filter.keeps_everything else COLUMN_SCAN_ROWS_MAX
    return _scan(state, pull, min(end, pull.offset + scan_rows), tag_filter, allowance, bounds)


def _scan(
    state: BrokerState, pull: ColumnPull, end: int, tag_filter: MessageFilter, allowance: _Allowance, bounds: Bounds
) -> Pulled:
    """Takes matching rows slice by slice; the next offset follows the last row that was looked at."""
    batches: list[pa.RecordBatch] = []
    next_offset = pull.offset
    for scanned in state.store.read(pull.queue, pull.offset, end) if end > pull.offset else ():
        mask = tag_filter.mask(scanned)
        matched = scanned if mask is None else scanned.filter(mask)
        taken = allowance.take(matched) if matched.num_rows else matched
        if taken.num_rows:
            batches.append(taken)
        if taken.num_rows < matched.num_rows:
            next_offset = matched.column(0)[taken.num_rows].as_py()
            break
        next_offset += scanned.num_rows
    if batches:
        status = PullStatus.FOUND
    elif allowance.is_spent and next_offset == pull.offset:
        status = PullStatus.NOT_REACHED
    else:
        status = PullStatus.NO_MATCHED_MESSAGE
    return Pulled(status, pull.offset, next_offset, bounds, batches)
