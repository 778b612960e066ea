"""Drafts: commands that are checked but not kept yet.

Commands that arrive while the commit log syncs are drafted together and kept with one sync. A drafted command sees the
facts of the commands before it. Nothing of a draft is readable until the log keeps it. When the log cannot keep it, the
draft is discarded and no offset is used up. The commands themselves are functions in ``admin``, ``sending`` and
``pulling``.
"""

from __future__ import annotations

from functools import cached_property

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.model import Bounds, GroupConfig, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.drafted_pops import DraftedPops
from rmqpull_broker.core.state.facts import (
    ClockRead,
    ColumnsStored,
    Fact,
    GroupDeleted,
    GroupPut,
    OffsetsCommitted,
    OffsetsReset,
    PopEnded,
    Popped,
    PoppedInOrder,
    QueuesTrimmed,
    ResetsAnswered,
    RowsStored,
    TopicDeleted,
    TopicPut,
    WaitingEnded,
)
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.queue_table import QueueTable
from rmqpull_broker.core.state.room import Room
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    ColumnsStaged,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    TransactionId,
)
from rmqpull_broker.core.state.stages import CommittedTransaction, Stage, StageFact
from rmqpull_broker.core.state.topics_and_groups import TopicsAndGroups
from rmqpull_broker.core.state.waiting_messages import DelayedMessage, PendingMessage, StoredAt
from rmqpull_proto.names import HALF_TOPIC


class Draft(TopicsAndGroups):
    """Collects the facts of commands: ``fact_batches`` has one batch for each command that changes anything."""

    def __init__(self, state: BrokerState) -> None:
        self.state = state
        self._next_offsets: dict[MessageQueue, int] = {}
        self._store_times: dict[MessageQueue, int] = {}
        # None: deleted by an earlier command of this draft.
        self._topics: dict[str, TopicConfig | None] = {}
        self._groups: dict[str, GroupConfig | None] = {}
        self._resets = QueueTable[int | None]()
        self._consumer_offsets = QueueTable[int]()
        self._reads_clock = False
        self._emptied_topics: set[str] = set()
        self._no_longer_pending: set[StoredAt] = set()
        self._halves: dict[str, list[tuple[StoredAt, StoredMessage]]] = {}
        # None: ended by an earlier command of this draft.
        self._stages: dict[str, Stage | None] = {}
        self._dropped_stages: dict[str, str] = {}
        self._newest_commits: dict[str, CommittedTransaction | None] = {}
        self._committed_writes: set[str] = set()
        self._command: list[Fact] = []
        self.room = Room(state)
        self.fact_batches: list[list[Fact]] = []

    @cached_property
    def _pops(self) -> DraftedPops:
        # Made when it is needed, because each pull makes a draft, and few commands are about pops.
        return DraftedPops(self.state.popped)

    @property
    def properties(self) -> BrokerProperties:
        """The broker's properties."""
        return self.state.properties

    def add(self, fact: Fact, *, within_limits: bool = True) -> None:
        """Adds a fact to the current command. Raises TooManyRequests if there is no room for what it creates.

        ``within_limits=False`` skips that check, for what must be stored and is limited elsewhere.
        """
        if within_limits:
            self.room.take(fact)
        self._command.append(fact)

    @property
    def stores_messages(self) -> bool:
        """Whether the current command stores messages."""
        return any(isinstance(fact, (RowsStored, ColumnsStored, ColumnsStaged)) for fact in self._command)

    def end_command(self) -> None:
        """Ends the current command. Its facts become one batch, and the next command sees them."""
        for fact in self._command:
            self._apply(fact)
        if self._command:
            self.fact_batches.append(self._command)
            self._command = []
        self.room.end_command()

    def drop_command(self) -> None:
        """Discards the facts of the current command, which was refused."""
        self._command = []
        self.room.drop_command()

    def _apply(self, fact: Fact) -> None:
        match fact:
            case RowsStored(queue, rows):
                self._next_offsets[queue] = rows[-1].queue_offset + 1
                if queue.topic == HALF_TOPIC:
                    for row in rows:
                        self._halves.setdefault(row.message.msg_id, []).append((StoredAt(queue, row.queue_offset), row))
            case ColumnsStored(parts):
                self._next_offsets.update({part.queue: part.first_offset + part.row_count for part in parts})
            case TopicPut(topic):
                self._topics[topic.name] = topic
            case TopicDeleted(name):
                self._topics[name] = None
                self._empty_topic(name)
            case WaitingEnded(queue, queue_offsets):
                self._no_longer_pending.update(StoredAt(queue, offset) for offset in queue_offsets)
            case GroupPut(group):
                self._groups[group.name] = group
            case GroupDeleted(name):
                self._groups[name] = None
                for kept in (self._consumer_offsets, self.state.consumer_offsets):
                    self._consumer_offsets.update(dict.fromkeys(kept.list_keys_of_group(name), -1))
                for pending in (self._resets, self.state.resets):
                    self._resets.update(dict.fromkeys(pending.list_keys_of_group(name)))
                self._pops.drop_group(name)
            case OffsetsCommitted(name, offsets):
                self._consumer_offsets.update({(name, queue): offset for queue, offset in offsets})
            case OffsetsReset(name, offsets):
                self._resets.update({(name, queue): offset for queue, offset in offsets})
                self._consumer_offsets.update({(name, queue): offset for queue, offset in offsets})
            case Popped() | PopEnded() | PoppedInOrder():
                self._pops.apply(fact)
            case QueuesTrimmed(min_offsets):
                self._pops.trim(min_offsets)
            case ClockRead(time_ms):
                self._pops.read_clock(time_ms)
                self._reads_clock = True
            case ResetsAnswered(name, queues):
                self._resets.update({(name, queue): None for queue in queues})
            case ColumnsStaged() | CallStaged() | StagesCommitted() | StagedCallStored() | StagesEnded():
                self._apply_to_stages(fact)

    def _apply_to_stages(self, fact: StageFact) -> None:
        match fact:
            case ColumnsStaged(transaction, stage_id) | CallStaged(transaction, stage_id):
                self._stages[stage_id] = (self.find_stage(stage_id) or Stage(transaction)).with_fact(fact)
            case StagesCommitted(transaction, stage_ids):
                newest = CommittedTransaction.after(self.find_newest_commit(transaction.writer), fact)
                self._newest_commits[transaction.writer] = newest
                if transaction.number is None:
                    self._committed_writes.add(transaction.writer)
                for stage_id in stage_ids:
                    left = self.require_stage(stage_id).with_fact(fact)
                    self._stages[stage_id] = left if left.call_count else None
                for splice in fact.splices:
                    self._next_offsets[splice.queue] = splice.first_offset + splice.row_count
            case StagedCallStored(stage_id):
                self._stages[stage_id] = self.require_stage(stage_id).with_fact(fact)
            case StagesEnded(stage_ids, limit):
                for stage_id in stage_ids:
                    self._stages[stage_id] = None
                    if limit:
                        self._dropped_stages[stage_id] = limit
                    self._empty_topic(STAGE_PREFIX + stage_id)

    def _empty_topic(self, topic: str) -> None:
        self._emptied_topics.add(topic)
        self._next_offsets = {queue: at for queue, at in self._next_offsets.items() if queue.topic != topic}
        self._store_times = {queue: at for queue, at in self._store_times.items() if queue.topic != topic}
        for kept in (self._consumer_offsets, self.state.consumer_offsets):
            self._consumer_offsets.update(dict.fromkeys(kept.list_keys_of_topic(topic), -1))
        self._pops.drop_topic(topic)

    # --- the state after the commands of this draft --------------------------------------------------------------

    def find_topic(self, name: str) -> TopicConfig | None:
        """Returns the topic of that name, system topics included, or None."""
        return self._topics[name] if name in self._topics else self.state.find_topic(name)

    def find_group(self, name: str) -> GroupConfig | None:
        """Returns the group of that name, or None."""
        return self._groups[name] if name in self._groups else self.state.find_group(name)

    def list_groups(self) -> set[str]:
        """Returns the names of all groups."""
        return {name for name in {*self.state.groups, *self._groups} if self.find_group(name) is not None}

    def find_reset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns the offset that the group's next pull of this queue is reset to, or None."""
        key = group, queue
        return self._resets[key] if key in self._resets else self.state.resets.get(key)

    def find_consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Returns the group's consumer offset on a queue; None if it has none."""
        key = group, queue
        offset = self._consumer_offsets.get(key, self.state.consumer_offsets.get(key, -1))
        return None if offset < 0 else offset

    def list_consumer_offsets(self, group: str) -> list[tuple[MessageQueue, int]]:
        """Returns the consumer offsets that a group has, sorted by queue."""
        keys = {
            key
            for table in (self._consumer_offsets, self.state.consumer_offsets)
            for key in table.list_keys_of_group(group)
        }
        found = ((queue, self.find_consumer_offset(group, queue)) for _, queue in sorted(keys))
        return [(queue, offset) for queue, offset in found if offset is not None]

    def is_in_flight(self, group: str, queue: MessageQueue, offset: int, pop_time_ms: int) -> bool:
        """Whether a message that a group got at this time is neither acknowledged nor stored again."""
        return self._pops.is_in_flight(group, queue, offset, pop_time_ms)

    def find_in_order(self, group: str, queue: MessageQueue) -> PoppedInOrder | None:
        """Returns the newest batch that a group got from a queue in order, or None."""
        return self._pops.find_in_order(group, queue)

    @property
    def reads_clock(self) -> bool:
        """Whether an earlier command of this draft has found that the clock was set back."""
        return self._reads_clock

    def has_ended(self, stored_at: StoredAt) -> bool:
        """Whether an earlier command of this draft has ended the waiting of a message."""
        return stored_at in self._no_longer_pending

    def is_pending(self, message: PendingMessage | DelayedMessage) -> bool:
        """Whether a message of a system queue waits, and no command of this draft has ended that."""
        return not self.has_ended(message.stored_at) and self.state.is_pending(message)

    def list_drafted_halves(self, msg_id: str) -> list[tuple[StoredAt, StoredMessage]]:
        """Returns the half messages with this id that earlier commands of this draft stored, oldest first."""
        return self._halves.get(msg_id, [])

    def find_stage(self, stage_id: str) -> Stage | None:
        """Returns the stage of that id, or None."""
        return self._stages[stage_id] if stage_id in self._stages else self.state.stages.find(stage_id)

    def find_dropping_limit(self, stage_id: str) -> str | None:
        """Returns the limit for which retention dropped a stage, or None."""
        return self._dropped_stages.get(stage_id) or self.state.stages.find_dropping_limit(stage_id)

    def require_stage(self, stage_id: str) -> Stage:
        """Returns the stage of that id, which must exist."""
        stage = self.find_stage(stage_id)
        assert stage is not None, f"stage {stage_id}"
        return stage

    def count_stages(self) -> int:
        """Returns the number of all stages."""
        kept = self.state.stages.all()
        return len(kept) + sum((stage is not None) - (stage_id in kept) for stage_id, stage in self._stages.items())

    def list_stages(self) -> dict[str, Stage]:
        """Returns all stages by their ids, in the order of these."""
        stages = {**self.state.stages.all(), **self._stages}
        return {stage_id: stage for stage_id in sorted(stages) if (stage := stages[stage_id]) is not None}

    def has_committed(self, transaction: TransactionId) -> bool:
        """Whether a transaction, or a newer one of its query, was committed."""
        if transaction.number is None:
            return transaction.writer in self._committed_writes or self.state.stages.has_committed(transaction)
        newest = self.find_newest_commit(transaction.writer)
        return newest is not None and newest.number >= transaction.number

    def find_newest_commit(self, query: str) -> CommittedTransaction | None:
        """Returns the newest transaction that a query has committed, or None."""
        return self._newest_commits[query] if query in self._newest_commits else self.state.stages.find_newest(query)

    def find_next_offset(self, queue: MessageQueue) -> int:
        """Returns the queue offset of the next message in ``queue``."""
        drafted = self._next_offsets.get(queue)
        if drafted is not None:
            return drafted
        return self.find_kept_bounds(queue).max_offset

    def find_store_ms(self, queue: MessageQueue, now_ms: int) -> int:
        """Returns the store time of messages that are stored in ``queue`` now.

        It is not before that of the queue's last message, even if the clock was set back: the binary search by store
        time needs store times that never decrease within a queue (rules 3.11).
        """
        last_ms = self._store_times.get(queue, 0)
        if queue.topic not in self._emptied_topics:
            last_ms = max(last_ms, self.state.store.find_last_store_ms(queue))
        self._store_times[queue] = max(now_ms, last_ms)
        return self._store_times[queue]

    def find_store_host(self, queue: MessageQueue, usual: str) -> str:
        """Returns the address of a queue's broker, which is ``usual`` for brokers that share one address."""
        return self.state.store_hosts.get(queue.broker_name, usual)

    def find_kept_bounds(self, queue: MessageQueue) -> Bounds:
        """Returns the range of a queue that is readable now. Messages of this draft are not in it."""
        return Bounds(0, 0) if queue.topic in self._emptied_topics else self.state.bounds(queue)

    def require_queue(self, queue: MessageQueue) -> None:
        """Raises TopicNotFound or BadRequest unless consumers see the queue."""
        topic = self.require_topic(queue.topic)
        if not self.state.is_readable(topic, queue):
            raise BadRequest(f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] has no queue {queue}")
