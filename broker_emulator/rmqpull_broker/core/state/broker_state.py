"""The broker's state: the sum of all facts in the commit log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from rmqpull_broker.core.errors import OffsetNotFound
from rmqpull_broker.core.model import PERM_INHERIT, Bounds, GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.delayed_messages import DelayedMessages
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    GroupDeleted,
    GroupPut,
    LostRange,
    OffsetsCommitted,
    OffsetsReset,
    PopEnded,
    Popped,
    PoppedInOrder,
    QueuesTrimmed,
    RequestModeSet,
    ResetsAnswered,
    RowsLost,
    RowsStored,
    StillDelayed,
    StillReset,
    StillWaiting,
    TopicDeleted,
    TopicPut,
    WaitingEnded,
)
from rmqpull_broker.core.state.half_messages import HalfMessages, find_next_check_ms
from rmqpull_broker.core.state.in_flight import PoppedMessages
from rmqpull_broker.core.state.lengths import find_length_ms
from rmqpull_broker.core.state.names import make_system_topics
from rmqpull_broker.core.state.physical_offsets import PhysicalOffsets
from rmqpull_broker.core.state.ports import NOT_LOGGED, LogRange, MessageStore
from rmqpull_broker.core.state.queue_table import QueueTable
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    ColumnsStaged,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    StillStaged,
)
from rmqpull_broker.core.state.stages import Stages
from rmqpull_broker.core.state.topics_and_groups import TopicsAndGroups
from rmqpull_broker.core.state.waiting_messages import (
    DelayedMessage,
    PendingMessage,
    StoredAt,
    read_due_ms,
    read_waiting,
)
from rmqpull_proto.names import HALF_TOPIC, SCHEDULE_TOPIC, TIMER_TOPIC

LOST_RANGES_MAX = 100_000
"""The most reports of lost rows that are kept. Above this limit, the oldest are forgotten."""


class BrokerState(TopicsAndGroups):
    """Everything the broker knows. Only :meth:`apply` changes it, and :meth:`end_inheriting`.

    Arguments: the consume queues, which store the messages; the names of the logical brokers; the properties that all
    logical brokers share.
    """

    def __init__(
        self, store: MessageStore, broker_names: Sequence[str], properties: BrokerProperties | None = None
    ) -> None:
        self.store = store
        self.broker_names = tuple(sorted(broker_names))
        self.properties = properties or BrokerProperties()
        # The addresses of the logical brokers that have their own. They come from the settings, not from facts.
        self.store_hosts: dict[str, str] = {}
        self.system_topics = make_system_topics(self.properties, self.broker_names)
        self.topics: dict[str, TopicConfig] = {}
        self.groups: dict[str, GroupConfig] = {}
        # The newest store time of all messages. A manual clock must not start before it.
        self.newest_store_ms = 0
        # (group, queue) -> next offset to consume
        self.consumer_offsets = QueueTable[int]()
        # (group, queue) -> the offset that the group's next pull is reset to
        self.resets = QueueTable[int]()
        # (topic, group) -> pull or pop. As in Apache's broker, they outlive topics and groups.
        self.request_modes: dict[tuple[str, str], RequestModeSet] = {}
        # How many times the due times of waiting messages may have changed.
        self.clock_reads = 0
        self.delayed = DelayedMessages()
        self.halves = HalfMessages()
        self.popped = PoppedMessages()
        self.stages = Stages()
        self.physical_offsets = PhysicalOffsets(
            self.find_topic, lambda: [*self.system_topics.values(), *self.topics.values()]
        )
        self._pending: dict[str, DelayedMessages | HalfMessages] = {
            SCHEDULE_TOPIC: self.delayed,
            TIMER_TOPIC: self.delayed,
            HALF_TOPIC: self.halves,
        }
        # In the order of the reports. A dict, so that a repeated report counts once.
        self._lost: dict[tuple[str, int, LostRange], None] = {}

    def apply(self, facts: Iterable[Fact], written: LogRange = NOT_LOGGED) -> None:
        """Applies facts that the commit log keeps at ``written``."""
        for fact in facts:
            self.store.apply(fact, written)
            self._apply(fact)

    def _apply(self, fact: Fact) -> None:
        match fact:
            case RowsStored() | ColumnsStored():
                self.newest_store_ms = max(self.newest_store_ms, fact.store_timestamp_ms)
                if isinstance(fact, RowsStored) and fact.queue.topic in self._pending:
                    self._add_pending(fact)
            case OffsetsCommitted(group, offsets):
                self._set_consumer_offsets(group, offsets)
            case OffsetsReset(group, offsets):
                self.consumer_offsets.update({(group, queue): offset for queue, offset in offsets})
                self._add_resets(group, offsets)
            case ResetsAnswered(group, queues):
                for queue in queues:
                    self.resets.pop((group, queue), None)
            case GroupPut(config):
                self.groups[config.name] = config
            case GroupDeleted(name):
                del self.groups[name]
                self.consumer_offsets.drop_group(name)
                self.resets.drop_group(name)
                self.popped.drop_group(name)
            case TopicPut(topic):
                self.topics[topic.name] = topic
            case TopicDeleted(name):
                self._delete_topic(name)
            case QueuesTrimmed(min_offsets):
                for queue, min_offset in min_offsets:
                    if queue.topic in self._pending:
                        self._pending[queue.topic].trim(queue, min_offset)
                self.popped.trim(min_offsets)
            case WaitingEnded(queue, queue_offsets, due_times):
                self._pending[queue.topic].remove(queue, queue_offsets, due_times)
            case StillWaiting(queue, entries):
                for offset, due_ms, msg_id, length_ms in entries:
                    self._pending[queue.topic].add(PendingMessage(StoredAt(queue, offset), due_ms, msg_id, length_ms))
            case StillDelayed():
                self.delayed.restore(fact)
            case StillReset(group, offsets):
                self._add_resets(group, offsets)
            case Popped() | PopEnded() | PoppedInOrder():
                self.popped.apply(fact)
                self._drop_gone(fact)
            case ClockRead(time_ms):
                self.clock_reads += 1
                self.delayed.read_clock(time_ms, self._read_lengths)
                self.halves.read_clock(time_ms, self._read_lengths)
                self.popped.read_clock(time_ms)
            case RequestModeSet(topic_name, group):
                self.request_modes[topic_name, group] = fact
            case RowsLost():
                self._add_lost_rows(fact)
            case ColumnsStaged(written_ms=written_ms):
                self.newest_store_ms = max(self.newest_store_ms, written_ms)
                self.stages.apply(fact)
            case StagesCommitted():
                self.newest_store_ms = max(self.newest_store_ms, fact.store_timestamp_ms)
                self.stages.apply(fact)
            case CallStaged() | StillStaged() | StagedCallStored() | StagesEnded():
                self.stages.apply(fact)

    def _drop_gone(self, fact: Popped | PopEnded | PoppedInOrder) -> None:
        """Ends deliveries of messages that retention deleted earlier in the same write."""
        min_offset = self.bounds(fact.queue).min_offset
        if not isinstance(fact, PopEnded) and fact.offsets and fact.offsets[0] < min_offset:
            self.popped.trim([(fact.queue, min_offset)])

    def _set_consumer_offsets(self, group: str, offsets: Iterable[tuple[MessageQueue, int]]) -> None:
        """Overwrites any offset, also with a smaller one. A negative offset reads as not found (rules 3.5, 6.1)."""
        for queue, offset in offsets:
            if offset >= 0:
                self.consumer_offsets[group, queue] = offset
            else:
                self.consumer_offsets.pop((group, queue), None)

    def _add_resets(self, group: str, offsets: Iterable[tuple[MessageQueue, int]]) -> None:
        """Ignores resets while ``useServerSideResetOffset`` is off: no pull would end them, and they block commits."""
        if self.properties.use_server_side_reset_offset:
            self.resets.update({(group, queue): offset for queue, offset in offsets})

    def _add_pending(self, stored: RowsStored) -> None:
        for row in stored.rows:
            is_half = stored.queue.topic == HALF_TOPIC
            due_ms = find_next_check_ms(self.properties, row) if is_half else read_due_ms(row.message)
            stored_at = StoredAt(stored.queue, row.queue_offset)
            length_ms = find_length_ms(self.properties, stored.queue, row.message)
            self._pending[stored.queue.topic].add(PendingMessage(stored_at, due_ms, row.message.msg_id, length_ms))

    def _read_lengths(self, queue: MessageQueue, offsets: Sequence[int]) -> dict[int, int]:
        """Reads from the messages how long they wait. Snapshots of older releases do not say it."""
        left, lengths = [StoredAt(queue, offset) for offset in offsets], dict[int, int]()
        while left:
            rows = read_waiting(self.store, left)
            lengths.update((row.queue_offset, find_length_ms(self.properties, queue, row.message)) for row in rows)
            left = left[len(rows) :]
        return lengths

    def _delete_topic(self, name: str) -> None:
        """Keeps pending resets, as Apache's broker does, for a new topic of the same name (rules 6.1, 3.5.4)."""
        del self.topics[name]
        self.consumer_offsets.drop_topic(name)
        self.popped.drop_topic(name)

    def _add_lost_rows(self, fact: RowsLost) -> None:
        self._lost.update({(fact.query_id, fact.batch_id, lost): None for lost in fact.ranges})
        while len(self._lost) > LOST_RANGES_MAX:
            del self._lost[next(iter(self._lost))]

    def find_newest_message_ms(self) -> int:
        """Returns the newest store time of the messages that can be read; 0 if there are none."""
        return max(map(self.store.find_last_store_ms, self._list_read_queues()), default=0)

    def _list_read_queues(self) -> Iterator[MessageQueue]:
        """Yields the queues with messages that consumers see, except those of system topics."""
        for queue in self.store.list_queues():
            topic = self.topics.get(queue.topic)
            if topic is not None and self.is_readable(topic, queue):
                yield queue

    @property
    def newest_begin_ms(self) -> int:
        """When the last delay or invisible time began, or later. Later than now if the clock was set back."""
        return max(self.delayed.newest_begin_ms, self.popped.newest_begin_ms)

    # --- topics and queues ---------------------------------------------------------------------------------------

    def find_topic(self, name: str) -> TopicConfig | None:
        """Returns the topic of that name, system topics included, or None."""
        return self.topics.get(name) or self.system_topics.get(name)

    def end_inheriting(self, name: str) -> None:
        """Takes INHERIT from a template topic until a restart, so that no topic is created from it (rules 3.9.3).

        This is not a fact: Apache's broker does it for a send that it refuses, and a refused command has no facts.
        """
        topic = self.system_topics.get(name)
        if topic is not None:
            self.system_topics[name] = replace(topic, perm=topic.perm & ~PERM_INHERIT)

    def queues(self, topic: TopicConfig, queue_nums: int) -> list[MessageQueue]:
        """Returns the first ``queue_nums`` queues of a topic on each broker, sorted by broker name and queue id."""
        return [
            MessageQueue(topic.name, broker, number) for broker in self.broker_names for number in range(queue_nums)
        ]

    def list_readable_queues(self, topic: TopicConfig) -> list[MessageQueue]:
        """Returns the queues that consumers see."""
        return self.queues(topic, topic.read_queue_nums)

    def list_writable_queues(self, topic: TopicConfig) -> list[MessageQueue]:
        """Returns the queues that producers see."""
        return self.queues(topic, topic.write_queue_nums)

    def is_readable(self, topic: TopicConfig, queue: MessageQueue) -> bool:
        """Whether consumers see this queue of ``topic``."""
        return queue.broker_name in self.broker_names and 0 <= queue.queue_id < topic.read_queue_nums

    def count_messages(self) -> int:
        """Returns the number of readable messages in all topics except system topics."""
        return sum(last - first for first, last in map(self.bounds, self._list_read_queues()))

    def bounds(self, queue: MessageQueue) -> Bounds:
        """Returns the readable range of a queue."""
        return self.store.bounds(queue)

    def is_pending(self, message: PendingMessage | DelayedMessage) -> bool:
        """Whether a message of a system queue still waits."""
        if isinstance(message, DelayedMessage):
            return message in self.delayed
        return message in self.halves

    def list_pending_before(
        self, min_offsets: Iterable[tuple[MessageQueue, int]]
    ) -> Iterator[Sequence[PendingMessage] | Sequence[DelayedMessage]]:
        """Yields the messages that wait now before these offsets, queue by queue in offset order, in small lists."""
        for queue, min_offset in min_offsets:
            if queue.topic in self._pending:
                yield from self._pending[queue.topic].list_before(queue, min_offset)

    # --- groups and offsets --------------------------------------------------------------------------------------

    def find_group(self, name: str) -> GroupConfig | None:
        """Returns the group of that name, or None."""
        return self.groups.get(name)

    def find_reset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns the offset that the group's next pull of this queue is reset to, or None."""
        return self.resets.get((group, queue))

    def find_consumer_offset(
        self,
        group: str,
        queue: MessageQueue,
        *,
        set_zero_if_not_found: bool = True,
        first_in_memory: bool = True,
        unstored: int | None = None,
    ) -> int:
        """Returns a group's offset, or 0 where the group has none and the queue still has its first message.

        A pending reset takes precedence (rules 3.5.2), then an ``unstored`` offset that is newer than the group's.
        ``first_in_memory`` says whether the queue's first message would be in the memory of Apache's broker. Raises
        OffsetNotFound for a queue without messages, for one whose first message is deleted or not in memory, and for
        every queue without an offset unless ``set_zero_if_not_found``.
        """
        key = group, queue
        newest = self.consumer_offsets.get(key, -1) if unstored is None else unstored
        stored = self.resets.get(key, newest)
        if stored >= 0:
            return stored
        if not set_zero_if_not_found:
            raise OffsetNotFound("Not found, do not set to zero, maybe this group boot first")
        bounds = self.bounds(queue)
        if bounds.min_offset == 0 and bounds.max_offset > 0 and first_in_memory:
            return 0
        raise OffsetNotFound("Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first")

    def count_lost_rows(self, query_id: str) -> dict[MessageQueue, int]:
        """Returns the number of rows that a query has reported lost, by queue."""
        lost: dict[MessageQueue, int] = {}
        for reporter, _, (queue, from_offset, until_offset) in self._lost:
            if reporter == query_id:
                lost[queue] = lost.get(queue, 0) + until_offset - from_offset
        return lost

    # --- snapshots -----------------------------------------------------------------------------------------------

    def to_facts(self) -> list[Fact]:
        """Returns facts from which an empty state becomes equal to this one, without the messages in the store."""
        facts: list[Fact] = [TopicPut(topic) for topic in self.topics.values()]
        facts += [GroupPut(group) for group in self.groups.values()]
        facts += [OffsetsCommitted(group, offsets) for group, offsets in _by_group(self.consumer_offsets)]
        facts += [StillReset(group, offsets) for group, offsets in _by_group(self.resets)]
        facts += self.request_modes.values()
        facts += [*self.delayed.to_facts(), *self.halves.to_facts(), *self.popped.to_facts()]
        facts += [RowsLost(query_id, batch_id, (lost,)) for query_id, batch_id, lost in self._lost]
        facts += self.stages.to_facts()
        return facts


def _by_group(
    offsets: Mapping[tuple[str, MessageQueue], int],
) -> Iterable[tuple[str, tuple[tuple[MessageQueue, int], ...]]]:
    by_group: dict[str, list[tuple[MessageQueue, int]]] = {}
    for (group, queue), offset in offsets.items():
        by_group.setdefault(group, []).append((queue, offset))
    return ((group, tuple(of_group)) for group, of_group in by_group.items())
