"""What is in flight after the commands of a draft: what the state has, and what these commands have changed of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import PopEnded, Popped, PoppedInOrder
from rmqpull_broker.core.state.in_flight import PoppedMessages, count_from, trim_batch
from rmqpull_broker.core.state.queue_table import QueueTable


class DraftedPops:
    """Answers what ``kept``, which has the deliveries of the state, would answer if it had these facts, too."""

    def __init__(self, kept: PoppedMessages) -> None:
        self._kept = kept
        self._drafted = PoppedMessages()
        # (group, queue, offset, time of the pop): how many deliveries of the state have ended. While a manual clock
        # stands still, a message may be delivered several times, and each delivery ends by itself.
        self._ended = Counter[tuple[str, MessageQueue, int, int]]()
        # None: there is no batch any more.
        self._in_order = QueueTable[PoppedInOrder | None]()
        self._clock_ms: int | None = None
        self._min_offsets: dict[MessageQueue, int] = {}
        self._dropped_groups: set[str] = set()
        self._dropped_topics: set[str] = set()

    def apply(self, fact: Popped | PopEnded | PoppedInOrder) -> None:
        """Takes in a fact."""
        match fact:
            case Popped():
                self._drafted.apply(fact)
            case PopEnded(group, queue, offsets, pop_time_ms):
                for offset in offsets:
                    if self._drafted.find(group, queue, offset, pop_time_ms) is None:
                        self._ended[group, queue, offset, pop_time_ms] += 1
                    else:
                        self._drafted.apply(PopEnded(group, queue, (offset,), pop_time_ms))
            case PoppedInOrder(group, queue, offsets):
                self._in_order[group, queue] = fact if offsets else None

    def read_clock(self, time_ms: int) -> None:
        """Counts from ``time_ms`` the invisible times that have begun after it."""
        drafted = self._in_order.items()
        self._in_order = QueueTable(
            (key, None if batch is None else count_from(batch, time_ms)) for key, batch in drafted
        )
        self._clock_ms = time_ms if self._clock_ms is None else min(self._clock_ms, time_ms)

    def trim(self, min_offsets: Iterable[tuple[MessageQueue, int]]) -> None:
        """Ends the flights of messages that retention has deleted."""
        for queue, min_offset in min_offsets:
            self._min_offsets[queue] = max(min_offset, self._min_offsets.get(queue, 0))

    def drop_topic(self, topic: str) -> None:
        """Forgets everything about the queues of a deleted topic."""
        self._dropped_topics.add(topic)
        self._drafted.drop_topic(topic)
        self._in_order.drop_topic(topic)
        self._min_offsets = {queue: at for queue, at in self._min_offsets.items() if queue.topic != topic}

    def drop_group(self, group: str) -> None:
        """Forgets everything about a deleted group."""
        self._dropped_groups.add(group)
        self._drafted.drop_group(group)
        self._in_order.drop_group(group)

    def _is_dropped(self, group: str, queue: MessageQueue) -> bool:
        """Whether nothing is left of what the state has."""
        return group in self._dropped_groups or queue.topic in self._dropped_topics

    def is_in_flight(self, group: str, queue: MessageQueue, offset: int, pop_time_ms: int) -> bool:
        """Whether a message that a group got at this time is neither acknowledged nor stored again."""
        if offset < self._min_offsets.get(queue, 0):
            return False
        if self._drafted.find(group, queue, offset, pop_time_ms) is not None:
            return True
        key = group, queue, offset, pop_time_ms
        return not self._is_dropped(group, queue) and self._kept.count_deliveries(*key) > self._ended[key]

    def find_in_order(self, group: str, queue: MessageQueue) -> PoppedInOrder | None:
        """Returns the newest batch that a group got from a queue in order, or None."""
        batch: PoppedInOrder | None = None
        if (group, queue) in self._in_order:
            batch = self._in_order[group, queue]
        elif not self._is_dropped(group, queue):
            batch = self._kept.find_in_order(group, queue)
            if batch is not None and self._clock_ms is not None:
                batch = count_from(batch, self._clock_ms)
        return None if batch is None else trim_batch(batch, self._min_offsets.get(queue, 0))
