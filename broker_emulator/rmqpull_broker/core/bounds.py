"""Where queues begin and end, by time and by bytes (rocketmq-semantics 3.11; ``rmqpull.v1`` QueryBounds)."""

from __future__ import annotations

import enum

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state import BrokerState

_STEP_ROWS = 65_536


class BoundaryType(enum.Enum):
    """Which message a time means that several have, or none (rocketmq-semantics 3.11)."""

    LOWER = "LOWER"
    UPPER = "UPPER"


def offset_at_time(
    state: BrokerState, queue: MessageQueue, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
) -> int:
    """Looks for a store time (rocketmq-semantics 3.11) by binary search, since store times never fall in a queue.

    LOWER gives the first message stored then or later, the max offset when there is none; UPPER the last one stored
    then or earlier, the min offset when there is none.
    """
    if boundary is BoundaryType.LOWER:
        return _first_stored_since(state, queue, timestamp_ms)
    return max(state.bounds(queue).min_offset, _first_stored_since(state, queue, timestamp_ms + 1) - 1)


def _first_stored_since(state: BrokerState, queue: MessageQueue, timestamp_ms: int) -> int:
    low, high = state.store.time_range(queue, timestamp_ms)
    wanted_us = timestamp_ms * 1000
    while low < high:
        middle = (low + high) // 2
        if _store_time_us(state, queue, middle) < wanted_us:
            low = middle + 1
        else:
            high = middle
    return low


def store_time_ms(state: BrokerState, queue: MessageQueue, offset: int) -> int:
    """When the message at ``offset``, which lies within the queue's bounds, was stored (ms since the epoch)."""
    return _store_time_us(state, queue, offset) // 1000


def _store_time_us(state: BrokerState, queue: MessageQueue, offset: int) -> int:
    row = next(state.store.read(queue, offset, offset + 1))
    return int(row.column("storeTimestamp").cast(pa.int64())[0].as_py())


def offset_within_bytes(state: BrokerState, queue: MessageQueue, from_offset: int, byte_budget: int) -> int:
    """The largest offset for which ``[from_offset, offset)`` keeps within ``byte_budget`` bytes.

    A first message above the budget goes alone. An offset outside the queue is brought to its nearest bound first.
    """
    bounds = state.bounds(queue)
    reached = start = min(max(from_offset, bounds.min_offset), bounds.max_offset)
    while reached < bounds.max_offset:
        for batch in state.store.read(queue, reached, min(reached + _STEP_ROWS, bounds.max_offset)):
            sizes = columns.row_bytes(batch)
            count = columns.leading_rows_within(sizes, byte_budget)
            reached += count
            if count < batch.num_rows:
                return max(reached, start + 1)
            byte_budget -= int(pc.sum(sizes).as_py())
    return reached
