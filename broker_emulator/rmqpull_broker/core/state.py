"""Everything the broker knows: the sum of all facts that the commit log keeps."""

from __future__ import annotations

from collections.abc import Iterable

from rmqpull_broker.core.errors import ConsumerGroupNotFound, OffsetNotFound, TopicNotFound
from rmqpull_broker.core.facts import (
    ColumnsStored,
    Fact,
    GroupCreated,
    LostRange,
    OffsetsCommitted,
    RowsLost,
    RowsStored,
    TopicCreated,
)
from rmqpull_broker.core.model import Bounds, MessageQueue, TopicConfig
from rmqpull_broker.core.ports import MessageStore

LOST_RANGES_MAX = 100_000
"""Reports of lost rows that are remembered; beyond it the oldest are forgotten."""


class BrokerState:
    """The broker's memory. Changed by :meth:`apply` alone; everything else only reads.

    Arguments: the consume queues that applied messages go to, and the name of the one logical broker that serves them.
    """

    def __init__(self, store: MessageStore, broker_name: str) -> None:
        self.store = store
        self.broker_name = broker_name
        self.topics: dict[str, TopicConfig] = {}
        self.groups: set[str] = set()
        # The newest store time of all messages; a clock that begins before it would let times fall within a queue.
        self.newest_store_ms = 0
        # (group, queue) -> next offset to consume
        self.consumer_offsets: dict[tuple[str, MessageQueue], int] = {}
        # Insertion order is age. The key makes a repeated report count once.
        self._lost: dict[tuple[str, int, LostRange], None] = {}

    def apply(self, facts: Iterable[Fact]) -> None:
        """Takes in facts that the commit log keeps."""
        for fact in facts:
            self._apply(fact)

    def _apply(self, fact: Fact) -> None:
        if isinstance(fact, (RowsStored, ColumnsStored)):
            self.store.append(fact)
            self.newest_store_ms = max(self.newest_store_ms, fact.store_timestamp_ms)
        elif isinstance(fact, OffsetsCommitted):
            # An offset is overwritten whatever it was (rocketmq-semantics 3.5).
            self.consumer_offsets.update({(fact.group, queue): offset for queue, offset in fact.offsets})
        elif isinstance(fact, GroupCreated):
            self.groups.add(fact.group)
        elif isinstance(fact, TopicCreated):
            self.topics[fact.topic.name] = fact.topic
        else:
            self._remember_lost(fact)

    def _remember_lost(self, fact: RowsLost) -> None:
        self._lost.update({(fact.query_id, fact.batch_id, lost): None for lost in fact.ranges})
        while len(self._lost) > LOST_RANGES_MAX:
            del self._lost[next(iter(self._lost))]

    def topic(self, name: str) -> TopicConfig:
        """The topic of that name. Raises TopicNotFound."""
        try:
            return self.topics[name]
        except KeyError:
            raise TopicNotFound(f"topic[{name}] not exist, apply first please!") from None

    def has_queue(self, queue: MessageQueue) -> bool:
        """Whether an existing topic has this queue."""
        topic = self.topics.get(queue.topic)
        return topic is not None and self.is_queue_of(topic, queue)

    def is_queue_of(self, topic: TopicConfig, queue: MessageQueue) -> bool:
        """Whether ``topic`` has this queue."""
        return queue.broker_name == self.broker_name and 0 <= queue.queue_id < topic.queue_count

    def queue(self, topic: TopicConfig, queue_id: int) -> MessageQueue:
        """One queue of a topic, by its id."""
        return MessageQueue(topic.name, self.broker_name, queue_id)

    def queues(self, topic: TopicConfig) -> list[MessageQueue]:
        """All queues of a topic in RocketMQ's order: broker name, then queue id."""
        return [self.queue(topic, queue_id) for queue_id in range(topic.queue_count)]

    def message_count(self) -> int:
        """Messages that can be read, over all queues."""
        queues = (queue for topic in self.topics.values() for queue in self.queues(topic))
        return sum(last - first for first, last in map(self.bounds, queues))

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The readable range of a queue."""
        return self.store.bounds(queue)

    def require_group(self, group: str) -> None:
        """Raises ConsumerGroupNotFound for a group that never pulled (rocketmq-semantics 3.5.1, row 2)."""
        if group not in self.groups:
            raise ConsumerGroupNotFound(f"Group {group} not exist!")

    def consumer_offset(self, group: str, queue: MessageQueue) -> int:
        """A group's stored offset, or 0 for a young queue that it never committed (rocketmq-semantics 3.5.2).

        Raises OffsetNotFound for a queue never written, or one whose first message is gone.
        """
        stored = self.consumer_offsets.get((group, queue), -1)
        if stored >= 0:
            return stored
        bounds = self.bounds(queue)
        if bounds.min_offset == 0 and bounds.max_offset > 0:
            return 0
        raise OffsetNotFound("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def rows_lost(self, query_id: str) -> dict[MessageQueue, int]:
        """How many rows a query has reported lost, by queue."""
        lost: dict[MessageQueue, int] = {}
        for reporter, _, (queue, from_offset, until_offset) in self._lost:
            if reporter == query_id:
                lost[queue] = lost.get(queue, 0) + until_offset - from_offset
        return lost
