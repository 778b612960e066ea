"""Finds the newest or the first messages of queues that match, by reading all queues window by window.

A search reads windows of all queues together, and larger ones while it finds too little. It ends at the bounds, or
after so many messages of each queue.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_client.model import EVERYTHING, Bounds, MessageFilter, MessageQueue, QueueRange
from rmqpull_proto.names import TOOLS_GROUP

if TYPE_CHECKING:
    from rmqpull_client.loss import Loss
    from rmqpull_client.transports.port import BrokerClient

WINDOW_ROWS = 2_000
WINDOW_ROWS_MAX = 64_000

Matches = Callable[[pa.RecordBatch], pa.Array]
"""Returns which rows of a batch are wanted."""


class Found(NamedTuple):
    """A message: its store time in microseconds, its queue and offset, and a batch with its row."""

    store_us: int
    queue: MessageQueue
    offset: int
    row: pa.RecordBatch


@dataclass
class _Window:
    """What a search has of a queue: the messages of ``[low, high)`` are still to be read."""

    queue: MessageQueue
    low: int
    high: int
    batches: list[pa.RecordBatch] = field(default_factory=list)

    @property
    def row_count(self) -> int:
        return sum(batch.num_rows for batch in self.batches)

    def take(self, size: int, *, is_newest: bool) -> QueueRange:
        """Takes the next messages to read."""
        if is_newest:
            first, until = max(self.low, self.high - size), self.high
            self.high = first
        else:
            first, until = self.low, min(self.high, self.low + size)
            self.low = until
        return QueueRange(self.queue, first, until)


@dataclass(frozen=True)
class Search:
    """What to look for: messages that the filter keeps and that match, at most ``count`` of each queue."""

    client: BrokerClient
    count: int
    message_filter: MessageFilter = EVERYTHING
    matches: Matches | None = None

    def find_newest(self, bounds: Mapping[MessageQueue, Bounds], scan: int) -> tuple[list[Found], bool]:
        """Finds the newest messages, oldest first, and says whether no message beyond ``scan`` of a queue could
        match."""
        windows = [
            _Window(queue, max(own.min_offset, own.max_offset - scan), own.max_offset) for queue, own in bounds.items()
        ]
        ends = {window.queue: window.low for window in windows}
        self._read(windows, is_newest=True)
        is_complete = all(
            window.row_count >= self.count or ends[window.queue] == bounds[window.queue].min_offset
            for window in windows
        )
        return sorted(heapq.nlargest(self.count, _list_found(windows), key=order), key=order), is_complete

    def find_first(
        self, bounds: Mapping[MessageQueue, Bounds], offsets: Mapping[MessageQueue, int], scan: int
    ) -> tuple[list[Found], bool]:
        """Finds the first messages from these offsets on, oldest first, and says the same."""
        windows = [
            _Window(
                queue, bounds[queue].clamp(offset), min(bounds[queue].max_offset, bounds[queue].clamp(offset) + scan)
            )
            for queue, offset in offsets.items()
        ]
        ends = {window.queue: window.high for window in windows}
        self._read(windows, is_newest=False)
        is_complete = all(
            window.row_count >= self.count or ends[window.queue] == bounds[window.queue].max_offset
            for window in windows
        )
        return heapq.nsmallest(self.count, _list_found(windows), key=order), is_complete

    def _read(self, windows: Sequence[_Window], *, is_newest: bool) -> None:
        is_selective = self.matches is not None or not self.message_filter.keeps_everything
        size = max(self.count, WINDOW_ROWS) if is_selective else self.count
        while unfinished := {own.queue: own for own in windows if own.low < own.high and own.row_count < self.count}:
            ranges = [own.take(size, is_newest=is_newest) for own in unfinished.values()]
            for queue, batches in self._read_ranges(ranges).items():
                own = unfinished[queue]
                own.batches = [*batches, *own.batches] if is_newest else [*own.batches, *batches]
            size = min(2 * size, max(size, WINDOW_ROWS_MAX))

    def _read_ranges(self, ranges: Sequence[QueueRange]) -> dict[MessageQueue, list[pa.RecordBatch]]:
        """Returns the rows that match, by queue."""
        found = defaultdict[MessageQueue, list[pa.RecordBatch]](list)
        reading = self.client.read(
            TOOLS_GROUP, ranges, (), message_filter=self.message_filter, on_loss=_pass_over_deleted
        )
        for step in reading:
            for queue, batches in step:
                for batch in batches:
                    found[queue].append(batch if self.matches is None else batch.filter(self.matches(batch)))
        return found


def _pass_over_deleted(loss: Loss) -> None:
    """Continues: messages that are deleted meanwhile are not there to be shown."""


def order(found: Found) -> tuple[int, MessageQueue, int]:
    """Returns the place of a message among those of all queues: by store time."""
    return found[:3]


def _list_found(windows: Iterable[_Window]) -> Iterable[Found]:
    return (found for window in windows for batch in window.batches for found in split_rows(window.queue, batch))


def split_rows(queue: MessageQueue, batch: pa.RecordBatch) -> Iterable[Found]:
    """Returns each row of a batch."""
    times = batch.column("storeTimestamp").cast(pa.int64()).to_pylist()
    offsets = batch.column("queueOffset").to_pylist()
    return (
        Found(store_us or 0, queue, offset, batch.slice(at, 1))
        for at, (store_us, offset) in enumerate(zip(times, offsets, strict=True))
    )


def make_matches(key: str | None, msg_id: str | None) -> Matches | None:
    """Returns a function that selects rows by key and id; None without both."""
    if key is None and msg_id is None:
        return None

    def matches(batch: pa.RecordBatch) -> pa.Array:
        mask = pa.repeat(True, batch.num_rows)
        if key is not None:
            mask = pa.array([key in (keys or ()) for keys in batch.column("keys").to_pylist()], pa.bool_())
        return mask if msg_id is None else pc.and_(mask, pc.equal(batch.column("msgId"), msg_id))

    return matches
