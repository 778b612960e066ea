"""Cuts the rows of a call into requests: batches as large as allowed, and single messages where a batch is refused.

A batch is for one queue and one kind of body, because all its messages share one system flag. Messages with a delay,
messages for retry topics and messages with very large properties are sent one by one (rules 4.10).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from rmqpull_client.transports.remoting.sending.queue_choice import ANY_QUEUE, Numbers

BATCH_ROWS_MAX = 4_000
"""A broker handles a batch of this size in about 15 ms. Requests that wait for 200 ms are refused."""
SPREAD_MAX = 8
"""Over how many queues a call spreads those rows of a topic that may go to any: more would make small batches."""
BATCH_BYTES_MAX = 4_000_000
"""A broker's ``maxMessageSize`` limits a whole batch too; its default is 4,194,304."""
BATCH_PROPERTY_BYTES_MAX = 16_384
"""The largest properties of a message in a batch.

Brokers limit them to 32,767 bytes, including those that they add. They check that for single messages only: a batch
with more is acknowledged, but neither it nor anything stored after it can be read.
"""


class RowKinds(NamedTuple):
    """What decides which rows share a request, for each row."""

    queues: Numbers
    """The index of the queue, or ``ANY_QUEUE``."""
    sys_flags: Numbers
    is_single: npt.NDArray[np.bool_]
    byte_counts: Numbers
    """The size of the row in a batch."""

    def take(self, rows: Numbers) -> RowKinds:
        """Returns these rows, in this order."""
        return RowKinds(self.queues[rows], self.sys_flags[rows], self.is_single[rows], self.byte_counts[rows])


class RequestRows(NamedTuple):
    """The rows ``[start, stop)``, in the order of :func:`cut_requests`, as one request."""

    start: int
    stop: int
    queue: int
    sys_flag: int


def cut_requests(
    kinds: RowKinds, rows_max: int, bytes_max: int, spread: int = 1
) -> tuple[Numbers | None, list[RequestRows]]:
    """Cuts rows into requests. Rows of one queue keep their order; those for any queue go to ``spread`` queues.

    Returns the order of the rows in the requests, as row numbers, or None if it is the given one.
    """
    order = _sort(kinds)
    sorted_kinds = kinds if order is None else kinds.take(order)
    requests = [
        RequestRows(start, stop, int(sorted_kinds.queues[start]), int(sorted_kinds.sys_flags[start]))
        for begin, end in _find_runs(sorted_kinds)
        for start, stop in _cut_run(sorted_kinds, begin, end, rows_max, bytes_max, spread)
    ]
    return order, requests


def _sort(kinds: RowKinds) -> Numbers | None:
    """Brings rows of one queue together, and of the rows for any queue those of one kind."""
    is_free = kinds.queues == ANY_QUEUE
    free_kinds = np.where(is_free, kinds.sys_flags * 2 + kinds.is_single, 0)
    if _is_sorted(kinds.queues) and (not is_free.any() or _is_sorted(free_kinds[is_free])):
        return None
    order: Numbers = np.lexsort((free_kinds, kinds.queues))  # a stable sort; the last key is the primary one
    return order


def _is_sorted(values: Numbers) -> bool:
    return bool(np.all(values[1:] >= values[:-1]))


def _find_runs(kinds: RowKinds) -> Iterator[tuple[int, int]]:
    """Finds the longest runs of rows that may share a request."""
    count = len(kinds.queues)
    if not count:
        return
    changes = np.zeros(count - 1, np.bool_)
    for column in (kinds.queues, kinds.sys_flags, kinds.is_single):
        changes |= column[1:] != column[:-1]
    bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), count]
    yield from pairwise(bounds)


def _cut_run(
    kinds: RowKinds, begin: int, end: int, rows_max: int, bytes_max: int, spread: int
) -> Iterator[tuple[int, int]]:
    """Cuts a run into pieces within the limits, of about the same number of rows. A single row may have more bytes."""
    if kinds.is_single[begin]:
        yield from ((row, row + 1) for row in range(begin, end))
        return
    ends = np.cumsum(kinds.byte_counts[begin:end])
    piece_count = -(-(end - begin) // rows_max)
    if kinds.queues[begin] == ANY_QUEUE:
        piece_count = max(piece_count, spread)
    rows_even = -(-(end - begin) // piece_count)
    start = begin
    while start < end:
        before = int(ends[start - begin - 1]) if start > begin else 0
        fitting = begin + int(np.searchsorted(ends, before + bytes_max, side="right"))
        stop = max(min(fitting, start + rows_even, end), start + 1)
        yield start, stop
        start = stop
