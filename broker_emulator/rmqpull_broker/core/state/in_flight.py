"""Messages in flight: delivered to a group, and neither acknowledged nor stored again (rules 3.17)."""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact, PopEnded, Popped, PoppedInOrder
from rmqpull_broker.core.state.queue_table import GroupQueue, QueueTable

IN_FLIGHT_MAX = 5_000_000
"""The most messages in flight, of all groups. Above this limit, nothing more is delivered to pops."""


V = TypeVar("V")


class InFlight(NamedTuple):
    """A message in flight, when it was delivered and when it becomes visible again, in milliseconds since the epoch."""

    group: str
    queue: MessageQueue
    queue_offset: int
    pop_time_ms: int
    visible_ms: int


def make_offsets(offsets: Sequence[int]) -> Sequence[int]:
    """Returns ascending offsets as a range if they are consecutive, otherwise as a tuple. Offsets may repeat."""
    if offsets and offsets[-1] - offsets[0] + 1 == len(offsets) == len(set(offsets)):
        return range(offsets[0], offsets[-1] + 1)
    return tuple(offsets)


class Delivery:
    """Messages of one queue that a group got at the same time. ``ended`` has a bit for each that is not in flight."""

    __slots__ = ("begin_ms", "ended", "group", "invisible_ms", "offsets", "pop_time_ms", "queue")

    def __init__(self, fact: Popped) -> None:
        self.group, self.queue, self.offsets = fact.group, fact.queue, fact.offsets
        self.pop_time_ms, self.invisible_ms = fact.pop_time_ms, fact.invisible_ms
        # ``pop_time_ms`` stays as it is in receipts; only ``begin_ms`` changes when the clock is set.
        self.begin_ms = fact.pop_time_ms if fact.begin_ms is None else fact.begin_ms
        self.ended = 0

    @property
    def due_ms(self) -> int:
        """When those that are still in flight become visible again."""
        return self.begin_ms + self.invisible_ms

    def holds(self, offset: int) -> bool:
        """Whether the message at an offset is still in flight in this delivery."""
        return offset in self.offsets and not self.ended >> self.offsets.index(offset) & 1

    def end(self, offset: int) -> bool:
        """Marks a message as no longer in flight. Returns False if it was not in flight."""
        if not self.holds(offset):
            return False
        self.ended |= 1 << self.offsets.index(offset)
        return True

    @property
    def left(self) -> int:
        """How many messages are still in flight."""
        return len(self.offsets) - self.ended.bit_count()

    def list_left(self) -> list[int]:
        """Returns the offsets of the messages that are still in flight."""
        return [offset for index, offset in enumerate(self.offsets) if not self.ended >> index & 1]


def find_visible_ms(batch: PoppedInOrder, offset: int) -> int:
    """Returns when a message of an ordered batch becomes visible again."""
    return dict(batch.visible_ms).get(offset, _find_begin_ms(batch) + batch.invisible_ms)


def _find_begin_ms(batch: PoppedInOrder) -> int:
    return batch.pop_time_ms if batch.begin_ms is None else batch.begin_ms


def count_from(batch: PoppedInOrder, time_ms: int) -> PoppedInOrder:
    """Returns the batch with every invisible time that has begun after ``time_ms`` counted from then."""
    began = {offset: _find_begin_ms(batch) for offset, _ in batch.visible_ms} | dict(batch.changed_ms)
    if max(_find_begin_ms(batch), *began.values(), 0) <= time_ms:
        return batch
    visible = tuple((offset, at_ms - max(0, began[offset] - time_ms)) for offset, at_ms in batch.visible_ms)
    changed = tuple((offset, min(began_ms, time_ms)) for offset, began_ms in sorted(began.items()))
    begin_ms = min(_find_begin_ms(batch), time_ms)
    return replace(batch, visible_ms=visible, changed_ms=changed, begin_ms=begin_ms)


def trim_batch(batch: PoppedInOrder, min_offset: int) -> PoppedInOrder | None:
    """Returns a batch of which the messages before an offset count as acknowledged; None if they are all of it."""
    gone = [offset for offset in batch.offsets if offset < min_offset]
    if len(gone) == len(batch.offsets):
        return None
    return replace(batch, acknowledged=tuple(sorted({*batch.acknowledged, *gone}))) if gone else batch


def find_newest_begin_ms(batch: PoppedInOrder) -> int:
    """Returns when the last invisible time in a batch began."""
    return max([_find_begin_ms(batch), *(began_ms for _, began_ms in batch.changed_ms)])


def _list_keys(table: QueueTable[V], topics: Iterable[str], queues: Container[MessageQueue]) -> list[GroupQueue]:
    """Returns the keys of some queues, all of which belong to these topics."""
    return [key for topic in topics for key in table.list_keys_of_topic(topic) if key[1] in queues]


def _first_offset(delivery: Delivery) -> int:
    return delivery.offsets[0]


class PoppedMessages:
    """The deliveries of all groups, and the newest batch of each queue that a group consumes in order.

    Part of the broker's state: only facts change it.
    """

    def __init__(self) -> None:
        # By pop time, and then by first offset: the same queue may be popped twice within a millisecond, and thousands
        # of times while a manual clock stands still.
        self._deliveries = QueueTable[dict[int, list[Delivery]]]()
        self._counts: dict[GroupQueue, int] = {}
        self._due: list[tuple[int, int, Delivery]] = []
        self._next_number = 0
        self._total = 0
        self._in_order = QueueTable[PoppedInOrder]()
        self.newest_begin_ms = 0
        """When the last invisible time began, or later."""

    def __len__(self) -> int:
        """How many messages are in flight, not counting those of ordered batches."""
        return self._total

    # --- facts -----------------------------------------------------------------------------------------------------

    def apply(self, fact: Popped | PopEnded | PoppedInOrder) -> None:
        """Applies a fact."""
        match fact:
            case Popped():
                self._add(Delivery(fact))
            case PopEnded(group, queue, offsets, pop_time_ms):
                self._end(group, queue, offsets, pop_time_ms)
            case PoppedInOrder(group, queue, offsets):
                if offsets:
                    self._in_order[group, queue] = fact
                    self.newest_begin_ms = max(self.newest_begin_ms, find_newest_begin_ms(fact))
                else:
                    self._in_order.pop((group, queue), None)

    def _add(self, delivery: Delivery) -> None:
        key = delivery.group, delivery.queue
        at_time = self._deliveries.setdefault(key, {}).setdefault(delivery.pop_time_ms, [])
        insort(at_time, delivery, key=_first_offset)
        self._count(key, len(delivery.offsets))
        heapq.heappush(self._due, (delivery.due_ms, self._next_number, delivery))
        self._next_number += 1
        self.newest_begin_ms = max(self.newest_begin_ms, delivery.begin_ms)

    def read_clock(self, time_ms: int) -> None:
        """Counts from ``time_ms`` the invisible times that have begun after it."""
        for _, _, delivery in self._due:
            delivery.begin_ms = min(delivery.begin_ms, time_ms)
        self._due = [(delivery.due_ms, number, delivery) for _, number, delivery in self._due]
        heapq.heapify(self._due)
        self._in_order = QueueTable((key, count_from(batch, time_ms)) for key, batch in self._in_order.items())
        self.newest_begin_ms = min(self.newest_begin_ms, time_ms)

    def _end(self, group: str, queue: MessageQueue, offsets: Iterable[int], pop_time_ms: int) -> None:
        """Ignores messages that are not in flight."""
        for offset in offsets:
            delivery = self.find(group, queue, offset, pop_time_ms)
            if delivery is not None:
                self._end_one(delivery, offset)

    def _end_one(self, delivery: Delivery, offset: int) -> None:
        if delivery.end(offset):
            self._count((delivery.group, delivery.queue), -1)
            if not delivery.left:
                self._remove(delivery)

    def _remove(self, delivery: Delivery) -> None:
        key = delivery.group, delivery.queue
        at_time = self._deliveries[key][delivery.pop_time_ms]
        del at_time[at_time.index(delivery, bisect_left(at_time, delivery.offsets[0], key=_first_offset))]
        if not at_time:
            del self._deliveries[key][delivery.pop_time_ms]
        if not self._deliveries[key]:
            del self._deliveries[key]
        # Ended deliveries leave the heap when they reach its top, or when they make up most of it.
        if len(self._due) > 64 and len(self._due) > 2 * self._total:
            self._due = [entry for entry in self._due if entry[2].left]
            heapq.heapify(self._due)

    def _count(self, key: GroupQueue, change: int) -> None:
        self._total += change
        self._counts[key] = self._counts.get(key, 0) + change
        if not self._counts[key]:
            del self._counts[key]

    def trim(self, min_offsets: Iterable[tuple[MessageQueue, int]]) -> None:
        """Ends deliveries of messages that retention has deleted, which could never be redelivered."""
        kept_from = dict(min_offsets)
        topics = {queue.topic for queue in kept_from}
        for key in _list_keys(self._deliveries, topics, kept_from):
            min_offset = kept_from[key[1]]
            at_times = self._deliveries[key].values()
            for delivery in [each for at_time in at_times for each in at_time if each.offsets[0] < min_offset]:
                for offset in [offset for offset in delivery.list_left() if offset < min_offset]:
                    self._end_one(delivery, offset)
        for key in _list_keys(self._in_order, topics, kept_from):
            batch = trim_batch(self._in_order[key], kept_from[key[1]])
            if batch is None:
                del self._in_order[key]
            else:
                self._in_order[key] = batch

    def drop_topic(self, topic: str) -> None:
        """Forgets everything about the queues of a deleted topic."""
        self._drop(self._deliveries.list_keys_of_topic(topic))
        self._in_order.drop_topic(topic)

    def drop_group(self, group: str) -> None:
        """Forgets everything about a deleted group."""
        self._drop(self._deliveries.list_keys_of_group(group))
        self._in_order.drop_group(group)

    def _drop(self, keys: Iterable[GroupQueue]) -> None:
        for key in keys:
            for at_time in list(self._deliveries[key].values()):
                for delivery in list(at_time):
                    for offset in delivery.list_left():
                        self._end_one(delivery, offset)

    # --- what is in flight -----------------------------------------------------------------------------------------

    def find(self, group: str, queue: MessageQueue, offset: int, pop_time_ms: int) -> Delivery | None:
        """Returns the delivery by which a message is in flight, or None."""
        return next(self._list_holding(group, queue, offset, pop_time_ms), None)

    def count_deliveries(self, group: str, queue: MessageQueue, offset: int, pop_time_ms: int) -> int:
        """Returns by how many deliveries a message is in flight: several while a manual clock stands still."""
        return sum(1 for _ in self._list_holding(group, queue, offset, pop_time_ms))

    def _list_holding(self, group: str, queue: MessageQueue, offset: int, pop_time_ms: int) -> Iterator[Delivery]:
        found = self._deliveries.get((group, queue), {}).get(pop_time_ms, ())
        nearest = bisect_right(found, offset, key=_first_offset)
        return (found[place] for place in reversed(range(nearest)) if found[place].holds(offset))

    def find_in_order(self, group: str, queue: MessageQueue) -> PoppedInOrder | None:
        """Returns the newest batch that a group got from a queue in order, or None."""
        return self._in_order.get((group, queue))

    def next_due_ms(self) -> int | None:
        """Returns when the first message becomes visible again; None while none is in flight."""
        while self._due and not self._due[0][2].left:
            heapq.heappop(self._due)
        return self._due[0][0] if self._due else None

    def list_due(self, now_ms: int, limit: int) -> list[Delivery]:
        """Returns the deliveries whose messages are visible again, oldest first, up to about ``limit`` messages."""
        found, count = list[Delivery](), 0
        entries = list[tuple[int, int, Delivery]]()
        while count < limit and (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            entries.append(heapq.heappop(self._due))
            found.append(entries[-1][2])
            count += found[-1].left
        for entry in entries:  # they stay until a fact ends them
            heapq.heappush(self._due, entry)
        return found

    def count(self, group: str, queue: MessageQueue) -> int:
        """Returns how many messages of a queue are in flight for a group, those of an ordered batch included."""
        batch = self._in_order.get((group, queue))
        in_order = 0 if batch is None else len(batch.offsets) - len(batch.acknowledged)
        return self._counts.get((group, queue), 0) + in_order

    def list_queues(self) -> list[GroupQueue]:
        """Returns the groups and queues that have messages in flight, in order."""
        return sorted({*self._counts, *(key for key in self._in_order if self.count(*key))})

    def list_in_flight(self, group: str, queue: MessageQueue) -> Iterator[InFlight]:
        """Yields the messages of a queue that are in flight for a group, by pop time and then by offset."""
        for at_time in self._deliveries.get((group, queue), {}).values():
            for delivery in at_time:
                for offset in delivery.list_left():
                    yield InFlight(group, queue, offset, delivery.pop_time_ms, delivery.due_ms)
        batch = self._in_order.get((group, queue))
        if batch is not None:
            for offset in batch.offsets:
                if offset not in batch.acknowledged:
                    yield InFlight(group, queue, offset, batch.pop_time_ms, find_visible_ms(batch, offset))

    def to_facts(self) -> list[Fact]:
        """Returns the facts with which a snapshot describes what is in flight."""
        facts: list[Fact] = []
        for (group, queue), by_time in self._deliveries.items():
            for pop_time_ms, at_time in by_time.items():
                for delivery in at_time:
                    offsets = make_offsets(delivery.list_left())
                    begin_ms = None if delivery.begin_ms == pop_time_ms else delivery.begin_ms
                    facts.append(Popped(group, queue, offsets, pop_time_ms, delivery.invisible_ms, begin_ms))
        return [*facts, *self._in_order.values()]
