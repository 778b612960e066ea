"""Queue offsets by store time (rules 3.11), and ranges cut by size (``rmqpull.v1`` CutRanges)."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.broker_state import BrokerState


class BoundaryType(enum.Enum):
    """Which message a time stands for if several messages, or none, were stored at it (rules 3.11)."""

    LOWER = "LOWER"
    UPPER = "UPPER"


def find_offset_at_time(
    state: BrokerState, queue: MessageQueue, timestamp_ms: int, boundary: BoundaryType = BoundaryType.LOWER
) -> int:
    """Finds a store time by binary search, since store times never decrease in a queue (rules 3.11).

    LOWER returns the first message stored then or later, or the max offset. UPPER returns the last message stored then
    or earlier, or the min offset.
    """
    if boundary is BoundaryType.LOWER:
        return _find_first_since(state, queue, timestamp_ms)
    return max(state.bounds(queue).min_offset, _find_first_since(state, queue, timestamp_ms + 1) - 1)


def _find_first_since(state: BrokerState, queue: MessageQueue, timestamp_ms: int) -> int:
    low, high = state.store.find_time_range(queue, timestamp_ms)
    wanted_us = timestamp_ms * 1000
    while low < high:
        middle = (low + high) // 2
        if _read_store_time_us(state, queue, middle) < wanted_us:
            low = middle + 1
        else:
            high = middle
    return low


def read_store_time_ms(state: BrokerState, queue: MessageQueue, offset: int) -> int:
    """Returns the store time of the message at ``offset``, which must lie within the bounds (ms since the epoch)."""
    return _read_store_time_us(state, queue, offset) // 1000


def find_store_time_ms(state: BrokerState, queue: MessageQueue, offset: int) -> int | None:
    """Returns when the message at ``offset`` was stored; None if the queue does not have it."""
    bounds = state.bounds(queue)
    return read_store_time_ms(state, queue, offset) if bounds.min_offset <= offset < bounds.max_offset else None


def _read_store_time_us(state: BrokerState, queue: MessageQueue, offset: int) -> int:
    row = next(state.store.read(queue, offset, offset + 1))
    return int(row.column("storeTimestamp").cast(pa.int64())[0].as_py())


class Part(NamedTuple):
    """The messages between the previous part and ``until_offset``, and their bytes."""

    until_offset: int
    byte_count: int


def cut_by_bytes(
    state: BrokerState, queue: MessageQueue, from_offset: int, until_offset: int, byte_max: int
) -> Iterator[Part]:
    """Yields the parts of ``[from_offset, until_offset)``, each as long as ``byte_max`` bytes allow.

    A larger message is a part of its own. Offsets outside the queue are in no part. Rows are read only where their
    sizes are not known, or where a part may end. The queue must not change during the iteration.
    """
    bounds = state.bounds(queue)
    at = begin = max(from_offset, bounds.min_offset)
    taken = 0
    for span in state.store.list_spans(queue, at, min(until_offset, bounds.max_offset)):
        if span.byte_count is not None and taken + span.byte_count <= byte_max:
            taken += span.byte_count
            at = span.until_offset
            continue
        for sizes in map(columns.count_row_bytes, state.store.read(queue, at, span.until_offset)):
            if taken + (total := pc.sum(sizes).as_py()) <= byte_max:
                taken += total
                at += len(sizes)
                continue
            for size in sizes.to_pylist():
                if taken + size > byte_max and at > begin:
                    yield Part(at, taken)
                    begin, taken = at, 0
                taken += size
                at += 1
    if at > begin:
        yield Part(at, taken)
