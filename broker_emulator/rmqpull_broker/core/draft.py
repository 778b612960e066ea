"""Commands that are not kept yet: a view of the state in which the facts of earlier drafted commands already hold.

Commands that arrive while the commit log syncs are drafted together and kept with one sync. Nothing of a draft is
visible before that; when the log cannot keep it, the draft is thrown away and no offset was spent.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_broker.core.errors import BadRequest, IllegalOffset, TopicNotFound
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
from rmqpull_broker.core.model import MessageQueue, TopicConfig
from rmqpull_broker.core.naming import check_group_name, check_topic_name
from rmqpull_broker.core.state import BrokerState

QUEUES_MAX = 1024
"""Queues of one topic; Apache's BenchmarkTest, the widest of its own topics, has as many (rocketmq-semantics 3.9.2)."""


class Draft:
    """Collects the facts of commands; ``groups`` holds one entry per command that changes anything."""

    def __init__(self, state: BrokerState) -> None:
        self._state = state
        self._next_offsets: dict[MessageQueue, int] = {}
        self._topics: dict[str, TopicConfig] = {}
        self._consumer_groups: set[str] = set()
        self._command: list[Fact] = []
        self.groups: list[list[Fact]] = []

    def end_command(self) -> None:
        """Closes the current command: its facts are kept together or not at all, and the next command sees them."""
        for fact in self._command:
            self._take_in(fact)
        if self._command:
            self.groups.append(self._command)
            self._command = []

    def drop_command(self) -> None:
        """Forgets the current command, which was refused."""
        self._command = []

    def _take_in(self, fact: Fact) -> None:
        if isinstance(fact, RowsStored):
            self._next_offsets[fact.queue] = fact.rows[-1].queue_offset + 1
        elif isinstance(fact, ColumnsStored):
            self._next_offsets.update({part.queue: part.first_offset + part.row_count for part in fact.parts})
        elif isinstance(fact, TopicCreated):
            self._topics[fact.topic.name] = fact.topic
        elif isinstance(fact, GroupCreated):
            self._consumer_groups.add(fact.group)

    def topic(self, name: str) -> TopicConfig:
        """The topic of that name. Raises TopicNotFound."""
        return self._topics.get(name) or self._state.topic(name)

    def queue(self, topic: TopicConfig, queue_id: int) -> MessageQueue:
        """One queue of a topic, by its id."""
        return self._state.queue(topic, queue_id)

    def next_offset(self, queue: MessageQueue) -> int:
        """The queue offset that the next message of ``queue`` gets."""
        drafted = self._next_offsets.get(queue)
        return self._state.bounds(queue).max_offset if drafted is None else drafted

    def store(self, stored: RowsStored | ColumnsStored) -> None:
        """States that messages are stored at the offsets that :meth:`next_offset` gave; once per queue in a command."""
        self._command.append(stored)

    def create_topic(self, topic: TopicConfig) -> None:
        """Creates a topic; one that exists with the same queues and type is left as it is.

        Raises IllegalTopic for a bad name, BadRequest for a bad number of queues or another shape than the existing.
        """
        check_topic_name(topic.name)
        if not 1 <= topic.queue_count <= QUEUES_MAX:
            raise BadRequest(f"topic {topic.name} needs 1 to {QUEUES_MAX} queues, got {topic.queue_count}")
        try:
            existing = self.topic(topic.name)
        except TopicNotFound:
            self._command.append(TopicCreated(topic))
            return
        if (existing.queue_count, existing.topic_type) != (topic.queue_count, topic.topic_type):
            raise BadRequest(
                f"topic {topic.name} exists with {existing.queue_count} queues of type {existing.topic_type.value}, "
                f"asked for were {topic.queue_count} of type {topic.topic_type.value}; leave it out or ask for the same"
            )

    def ensure_group(self, group: str) -> None:
        """Creates a consumer group unless it exists. Raises IllegalConsumerGroup for a bad name."""
        check_group_name(group)
        if group not in self._state.groups and group not in self._consumer_groups:
            self._command.append(GroupCreated(group))

    def update_offset(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Sets one consumer offset as UPDATE_CONSUMER_OFFSET does (rocketmq-semantics 3.5.1 and 6.1).

        Smaller offsets, -1 (which then reads as not found) and queue ids that the topic lacks are taken as well.
        Raises ConsumerGroupNotFound, then TopicNotFound.
        """
        if group not in self._consumer_groups:
            self._state.require_group(group)
        self.topic(queue.topic)
        self._command.append(OffsetsCommitted(group, ((queue, offset),)))

    def commit_offsets(self, group: str, offsets: Sequence[tuple[MessageQueue, int]]) -> None:
        """Sets consumer offsets of a group, which is created when missing; all of them or none.

        Raises IllegalConsumerGroup, TopicNotFound, BadRequest for a queue that the topic lacks, IllegalOffset for a
        negative offset.
        """
        self.ensure_group(group)
        for queue, offset in offsets:
            self.require_queue(queue)
            if offset < 0:
                raise IllegalOffset(f"offset {offset} of queue {queue} is negative; the smallest is 0")
        if offsets:
            self._command.append(OffsetsCommitted(group, tuple(offsets)))

    def report_lost(self, query_id: str, batch_id: int, ranges: Sequence[LostRange]) -> None:
        """Remembers rows that a query could not read. Raises BadRequest, TopicNotFound, IllegalOffset."""
        if not query_id:
            raise BadRequest("a report of lost rows needs a query id")
        for queue, from_offset, until_offset in ranges:
            self.require_queue(queue)
            if not 0 <= from_offset < until_offset:
                raise IllegalOffset(f"lost range [{from_offset}, {until_offset}) of queue {queue} is empty or negative")
        if ranges:
            self._command.append(RowsLost(query_id, batch_id, tuple(ranges)))

    def require_queue(self, queue: MessageQueue) -> None:
        """Raises TopicNotFound or BadRequest unless the queue exists."""
        topic = self.topic(queue.topic)
        if not self._state.is_queue_of(topic, queue):
            raise BadRequest(f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] has no queue {queue}")
