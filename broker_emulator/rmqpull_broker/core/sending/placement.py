"""Placing the rows of a published batch in queues: in the order in which they came, unless something places a row.

Rows that nothing places become slices, one for each queue, so that a batch of such rows is neither sorted nor copied
(rules 9.4).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.sending.queue_selection import select_by_message_group
from rmqpull_broker.core.sending.storing import BatchToStore

Slices = Sequence[tuple[int, int]]
"""The next rows of a topic: (index of the queue, rows), each queue at most once."""


@dataclass
class Placement:
    """The queues of all rows of a batch, one topic after the other."""

    _queues: list[MessageQueue] = field(default_factory=list)
    _parts: list[Slices | pa.Array] = field(default_factory=list)

    def add_slices(self, queues: Sequence[MessageQueue], slices: Slices) -> None:
        """Places the rows of the next topic, which has these queues, in slices."""
        first = len(self._queues)
        self._parts.append([(first + index, count) for index, count in slices])
        self._queues += queues

    def add_rows(self, queues: Sequence[MessageQueue], indexes: pa.Array) -> None:
        """Places the rows of the next topic, which has these queues, one by one."""
        first = len(self._queues)
        self._parts.append(pc.add(indexes, pa.scalar(first, pa.int32())) if first else indexes)
        self._queues += queues

    def place(self, batch: pa.RecordBatch) -> BatchToStore:
        """Returns the batch with its queues. It is sorted by queue if any topic has rows that are placed one by one."""
        slices = [part for part in self._parts if not isinstance(part, pa.Array)]
        if len(slices) < len(self._parts):
            indexes = pa.concat_arrays(
                [part if isinstance(part, pa.Array) else _repeat_indexes(part) for part in self._parts]
            )
            batch, sorted_slices = _sort_by_queue(batch, indexes)
            slices = [sorted_slices]
        return BatchToStore([(self._queues[index], count) for part in slices for index, count in part], batch)


def _repeat_indexes(slices: Slices) -> pa.Array:
    return pa.concat_arrays([pa.repeat(pa.scalar(index, pa.int32()), count) for index, count in slices])


def _sort_by_queue(batch: pa.RecordBatch, indexes: pa.Array) -> tuple[pa.RecordBatch, Slices]:
    """Returns the rows sorted by queue, in the same order within a queue, and the slices that they are then."""
    tallies = pc.value_counts(indexes)
    slices = sorted(zip(tallies.field(0).to_pylist(), tallies.field(1).to_pylist(), strict=True))
    if len(slices) > 1:
        batch = batch.take(pc.array_sort_indices(indexes))  # a stable sort
    return batch, slices


def select_queue_ids(
    groups: pa.Array, chosen: pa.Array | None, queue_count: int, take_turn: Callable[[int], int]
) -> pa.Array:
    """Returns the index of each row's queue: the chosen one, or that of the message group, or the queues in turn.

    ``take_turn`` returns the first queue for a number of rows.
    """
    known = None
    if groups.null_count < len(groups):
        known = select_by_message_group(groups, queue_count)
    if chosen is not None:
        known = chosen if known is None else pc.coalesce(chosen, known)
    if known is None:
        return _make_turns(take_turn(len(groups)), queue_count, len(groups))
    if not known.null_count:
        return known
    return pc.replace_with_mask(
        known, known.is_null(), _make_turns(take_turn(known.null_count), queue_count, known.null_count)
    )


def _make_turns(first: int, queue_count: int, row_count: int) -> pa.Array:
    one_round = pa.array([*range(first, queue_count), *range(first)], pa.int32())
    rounds = -(-row_count // queue_count)
    return pa.concat_arrays([one_round] * rounds).slice(0, row_count)
