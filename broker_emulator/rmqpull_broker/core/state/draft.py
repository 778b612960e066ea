"""Commands that are not kept yet: a view of the state in which the facts of earlier drafted commands already hold.

Commands that arrive while the commit log syncs are drafted together and kept with one sync. Nothing of a draft is
visible before that; when the log cannot keep it, the draft is thrown away and no offset was spent. The commands
themselves stand in ``topics``, ``groups``, ``consumer_offsets`` and ``sending``.
"""

from __future__ import annotations

from rmqpull_broker.core.errors import BadRequest, ConsumerGroupNotFound, TopicNotFound
from rmqpull_broker.core.model import Bounds, GroupConfig, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.facts import (
    CallStaged,
    ColumnsStored,
    Fact,
    GroupDeleted,
    GroupPut,
    OffsetsReset,
    ResetsAnswered,
    RowsStored,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    TopicDeleted,
    TopicPut,
    TransactionId,
    WaitingEnded,
)
from rmqpull_broker.core.state.names import HALF_TOPIC, STAGE_PREFIX
from rmqpull_broker.core.state.pending import DelayedMessage, PendingMessage, StoredAt
from rmqpull_broker.core.state.stages import Committed, Stage


class Draft:
    """Collects the facts of commands; ``fact_batches`` holds one entry per command that changes anything."""

    def __init__(self, state: BrokerState) -> None:
        self.state = state
        self._next_offsets: dict[MessageQueue, int] = {}
        # None for what an earlier command deleted.
        self._topics: dict[str, TopicConfig | None] = {}
        self._consumer_groups: dict[str, GroupConfig | None] = {}
        self._resets: dict[tuple[str, MessageQueue], int | None] = {}
        self._emptied: set[str] = set()
        self._settled: set[StoredAt] = set()
        self._halves: dict[str, list[tuple[StoredAt, StoredMessage]]] = {}
        # None for stages that ended.
        self._stages: dict[str, Stage | None] = {}
        self._batches: list[TransactionId] = []
        self._newest: dict[str, Committed | None] = {}
        self._command: list[Fact] = []
        self.fact_batches: list[list[Fact]] = []

    @property
    def properties(self) -> BrokerProperties:
        """The broker's properties."""
        return self.state.properties

    def add(self, fact: Fact) -> None:
        """States a fact of the current command."""
        self._command.append(fact)

    @property
    def stores_messages(self) -> bool:
        """Whether the current command stores messages."""
        return any(isinstance(fact, (RowsStored, ColumnsStored)) for fact in self._command)

    def end_command(self) -> None:
        """Closes the current command: its facts are kept together or not at all, and the next command sees them."""
        for fact in self._command:
            self._take_in(fact)
        if self._command:
            self.fact_batches.append(self._command)
            self._command = []

    def drop_command(self) -> None:
        """Forgets the current command, which was refused."""
        self._command = []

    def _take_in(self, fact: Fact) -> None:
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
                self._empty(name)
            case WaitingEnded(queue, queue_offsets):
                self._settled.update(StoredAt(queue, offset) for offset in queue_offsets)
            case GroupPut(group):
                self._consumer_groups[group.name] = group
            case GroupDeleted(name):
                self._consumer_groups[name] = None
                pending = (*self._resets, *self.state.resets)
                self._resets.update({key: None for key in pending if key[0] == name})
            case OffsetsReset(name, offsets):
                self._resets.update({(name, queue): offset for queue, offset in offsets})
            case ResetsAnswered(name, queues):
                self._resets.update({(name, queue): None for queue in queues})
            case CallStaged() | StagesCommitted() | StagedCallStored() | StagesEnded():
                self._take_in_stages(fact)

    def _take_in_stages(self, fact: CallStaged | StagesCommitted | StagedCallStored | StagesEnded) -> None:
        match fact:
            case CallStaged(batch, stage_id):
                self._stages[stage_id] = (self.find_stage(stage_id) or Stage(batch)).with_fact(fact)
            case StagesCommitted(batch, stage_ids):
                self._batches.append(batch)
                self._newest[batch.writer] = Committed.after(self.newest_committed(batch.writer), fact)
                self._stages.update({stage_id: self.stage(stage_id).with_fact(fact) for stage_id in stage_ids})
            case StagedCallStored(stage_id):
                self._stages[stage_id] = self.stage(stage_id).with_fact(fact)
            case StagesEnded(stage_ids):
                for stage_id in stage_ids:
                    self._stages[stage_id] = None
                    self._empty(STAGE_PREFIX + stage_id)

    def _empty(self, topic: str) -> None:
        self._emptied.add(topic)
        self._next_offsets = {queue: at for queue, at in self._next_offsets.items() if queue.topic != topic}

    # --- the state as it will be ---------------------------------------------------------------------------------

    def find_topic(self, name: str) -> TopicConfig | None:
        """The topic of that name, also a system topic."""
        return self._topics[name] if name in self._topics else self.state.find_topic(name)

    def topic(self, name: str) -> TopicConfig:
        """The topic of that name. Raises TopicNotFound."""
        topic = self.find_topic(name)
        if topic is None:
            raise TopicNotFound(f"topic[{name}] not exist, apply first please!")
        return topic

    def find_group(self, name: str) -> GroupConfig | None:
        """The group of that name."""
        return self._consumer_groups[name] if name in self._consumer_groups else self.state.groups.get(name)

    def group(self, name: str) -> GroupConfig:
        """The group of that name. Raises ConsumerGroupNotFound."""
        group = self.find_group(name)
        if group is None:
            raise ConsumerGroupNotFound(f"Group {name} not exist!")
        return group

    def pending_reset(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that the group's next pull of this queue is to be told."""
        key = group, queue
        return self._resets[key] if key in self._resets else self.state.resets.get(key)

    def is_settled(self, place: StoredAt) -> bool:
        """Whether a message that waits in the state was settled by an earlier command of this draft."""
        return place in self._settled

    def is_waiting(self, waiting: PendingMessage | DelayedMessage) -> bool:
        """Whether a message of a system queue waits in the state, and nothing in this draft has settled it."""
        return waiting.stored_at not in self._settled and self.state.is_waiting(waiting)

    def drafted_halves(self, msg_id: str) -> list[tuple[StoredAt, StoredMessage]]:
        """The half messages with this id that earlier commands of this draft stored, oldest first."""
        return self._halves.get(msg_id, [])

    def find_stage(self, stage_id: str) -> Stage | None:
        """The stage of that id."""
        return self._stages[stage_id] if stage_id in self._stages else self.state.stages.find(stage_id)

    def stage(self, stage_id: str) -> Stage:
        """The stage of that id, which must be there."""
        stage = self.find_stage(stage_id)
        assert stage is not None, f"stage {stage_id}"
        return stage

    def stages(self) -> dict[str, Stage]:
        """All stages by their ids."""
        stages = {**self.state.stages.all(), **self._stages}
        return {stage_id: stage for stage_id, stage in stages.items() if stage is not None}

    def has_committed(self, batch: TransactionId) -> bool:
        """Whether a batch, or a newer one of its query, was committed."""
        return self.state.stages.has_committed(batch) or any(batch.is_covered_by(done) for done in self._batches)

    def newest_committed(self, query: str) -> Committed | None:
        """The newest batch that a query has committed."""
        return self._newest[query] if query in self._newest else self.state.stages.newest(query)

    def next_offset(self, queue: MessageQueue) -> int:
        """The queue offset that the next message of ``queue`` gets."""
        drafted = self._next_offsets.get(queue)
        if drafted is not None:
            return drafted
        return self.kept_bounds(queue).max_offset

    def kept_bounds(self, queue: MessageQueue) -> Bounds:
        """The range of a queue that can be read already: what this draft stores cannot."""
        return Bounds(0, 0) if queue.topic in self._emptied else self.state.bounds(queue)

    def require_queue(self, queue: MessageQueue) -> None:
        """Raises TopicNotFound or BadRequest unless the queue exists and consumers see it."""
        topic = self.topic(queue.topic)
        if not self.state.is_readable(topic, queue):
            raise BadRequest(f"queueId[{queue.queue_id}] is illegal, topic:[{topic.name}] has no queue {queue}")
