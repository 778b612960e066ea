"""Commands of all kinds that pick what they concern by a number.

There are few topics, queues, groups and ids, so that the commands concern each other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeVar

import pyarrow as pa

from rmqpull_broker.core.admin.groups import delete_group, drop_group, put_group
from rmqpull_broker.core.admin.request_modes import put_request_mode
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.clients.heartbeats import draft_groups
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.popping.acks import change_invisible_time
from rmqpull_broker.core.popping.ordered_acks import acknowledge_any
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopRequest
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling import consumer_offsets
from rmqpull_broker.core.pulling.group_offsets import clone_offsets
from rmqpull_broker.core.sending import stage_commands
from rmqpull_broker.core.sending.delays import deliver_due, recall
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, check_transactions, end_transaction
from rmqpull_broker.core.sending.publishing import AutoCreation, Published
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.state import names
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ClockRead, LostRange, RequestModeSet
from rmqpull_broker.core.state.ports import Cut
from rmqpull_broker.core.state.retention import Trimmer
from rmqpull_broker.core.state.stage_facts import CommitRecord, TransactionId
from rmqpull_proto.names import CHECK_MAX_TIME_TOPIC, DLQ_PREFIX, RETRY_PREFIX, TBW102
from tests.harness.core import check_batch

T = TypeVar("T")

BROKER, HERE = "broker-a", "here:1"
TOPICS, GROUPS, HALVES, STAGES = ("orders", "bills"), ("readers", "audit"), ("half 0", "half 1"), ("a", "b")
TRANSACTIONS = (
    *(TransactionId("query", at) for at in range(3)),
    TransactionId("one", None),
    TransactionId("two", None),
)
TOPICS_IN_PLAY = (
    *(*TOPICS, "born", *sorted(names.WAITING_TOPICS), CHECK_MAX_TIME_TOPIC),
    *(names.name_pop_retry_topic(group, topic) for group, topic in product(GROUPS, TOPICS)),
    *(prefix + group for prefix, group in product((RETRY_PREFIX, DLQ_PREFIX), GROUPS)),
    *(names.STAGE_PREFIX + stage_id for stage_id in STAGES),
)
QUEUES_IN_PLAY = [MessageQueue(topic, BROKER, queue_id) for topic, queue_id in product(TOPICS_IN_PLAY, range(2))]
PROPERTIES = BrokerProperties(enable_mixed_message_type=True, transaction_check_max=1)


@dataclass
class Known:
    """What clients know: what was delivered to them, and the topics and handles of messages that can be recalled."""

    delivered: list[DeliveredMessage] = field(default_factory=list)
    handles: list[tuple[str, str]] = field(default_factory=list)


class Turn:
    """One run of a command: what its client knows, its draft, the time, and what it picks by a number."""

    def __init__(self, known: Known, draft: Draft, sender: Sender, now_ms: int, number: int) -> None:
        self.known = known
        self.draft = draft
        self.sender = sender
        self.now_ms = now_ms
        self._left = number

    def pick(self, options: Sequence[T]) -> T:
        self._left, index = divmod(self._left, len(options))
        return options[index]

    def queue(self) -> MessageQueue:
        """A queue, which may not exist."""
        return MessageQueue(self.pick(TOPICS), BROKER, self.pick((0, 0, 1, 2)))

    def place(self) -> tuple[str, MessageQueue]:
        return self.pick(GROUPS), self.queue()

    def send(self, msg_id: str = "id", **more: Any) -> object:
        topic, count, group = self.pick(TOPICS), self.pick((1, 2)), self.pick((None, "group"))
        message = Message(b"x", msg_id, born_timestamp_ms=self.now_ms, **{"message_group": group, **more})
        return self.sender.send(self.draft, topic, [message] * count, self.now_ms)

    def pop(self, **more: Any) -> object:
        group, topic, attempt = self.pick(GROUPS), self.pick(TOPICS), self.pick(("", "attempt"))
        count, invisible_ms = self.pick((32, 1)), self.pick((3_000, 60_000))
        request = PopRequest(
            group, topic, BROKER, max_msg_nums=count, invisible_ms=invisible_ms, attempt_id=attempt, **more
        )
        return pop_messages(self.draft, request, self.now_ms, lambda count: self.pick((21, 0)) % count), group

    def delivered(self) -> DeliveredMessage:
        return self.pick(self.known.delivered)

    def change_invisible_time(self) -> DeliveredMessage:
        message = self.delivered()
        receipt = change_invisible_time(self.draft, message, self.pick((3_000, 60_000)), self.now_ms)
        return message._replace(receipt=receipt)

    def publish(self) -> object:
        rows = pa.record_batch({"body": pa.array([b"x"] * self.pick((1, 3)))})
        published = Published(self.pick((*TOPICS, "born")), rows, "client", AutoCreation(TBW102, 1))
        return self.sender.publish(self.draft, check_batch(self.sender, published, self.now_ms), self.now_ms)

    def stage(self) -> bool:
        transaction, stage_id, sequence = self.pick(TRANSACTIONS), self.pick(STAGES), self.pick((0, 1))
        count, delay_ms = self.pick((1, 3)), self.pick((None, 5_000))
        due_us = None if delay_ms is None else (self.now_ms + delay_ms) * 1_000
        dues = pa.array([*[None] * (count - 1), due_us], pa.timestamp("us", "UTC"))
        rows = pa.record_batch({"body": pa.array([b"x"] * count), "deliveryTimestamp": dues})
        checked = check_batch(self.sender, Published(self.pick(TOPICS), rows, "client"), self.now_ms)
        return stage_commands.stage(
            self.draft, self.sender, transaction, stage_id, sequence, checked, self.now_ms, timeout_ms=1
        )

    def commit(self) -> object:
        transaction, record = self.pick(TRANSACTIONS), self.pick((None, CommitRecord(b"plan", "orders", 1, b"digest")))
        found = {at: each for at, each in self.draft.list_stages().items() if each.transaction == transaction}
        named = [stage_commands.CommittedStage(at, each.call_count) for at, each in found.items()]
        return stage_commands.commit(self.draft, HERE, transaction, named[: self.pick((2, 1))], self.now_ms, record)

    def store_next(self) -> object:
        """Stores rows of a commit that is stored, as the keeper of the stages does."""
        for stage_id in self.draft.state.stages.list_committing():
            kept, now = self.draft.state.stages.all()[stage_id], self.draft.find_stage(stage_id)
            if now is not None and now.transaction == kept.transaction:
                return stage_commands.store_next(self.draft, self.sender, stage_id, self.now_ms)
        return None

    def end_half(self) -> object:
        end = TransactionEnd(self.pick(HALVES), "payments", self.pick((Resolution.COMMIT, Resolution.ROLLBACK)))
        return end_transaction(self.draft, end, self.now_ms, HERE)

    def keep_offset(self) -> object:
        group, queue = self.place()
        now = self.draft.find_consumer_offset(group, queue)
        replaced = self.pick((consumer_offsets.NO_OFFSET if now is None else now, 7))
        offset = consumer_offsets.UnstoredOffset(self.pick(range(4)), replaced)
        return consumer_offsets.keep_offsets(self.draft, {(group, queue): offset})

    def send_back(self) -> object:
        group, queue, level = self.pick(GROUPS), self.queue(), self.pick((0, -1))
        return self.sender.send_back(self.draft, SendBack(group, queue, self.pick(range(3)), level), self.now_ms)

    def trim(self) -> None:
        """Deletes the oldest messages of some queues, and stores again what waits among them.

        A queue keeps its newest message: without it, its store times may begin anew, but not before that is stored.
        """
        state = self.draft.state
        bounds = {queue: state.bounds(queue) for queue in state.store.list_queues()}
        cut = [(queue, self.pick(range(first, last))) for queue, (first, last) in bounds.items() if first < last]
        Trimmer(state, Cut(0, cut)).step(self.draft, self.now_ms)

    def put_topic(self) -> object:
        count, perm = self.pick((2, 1)), self.pick((6, 4))
        return put_topic(self.draft, TopicConfig(self.pick(TOPICS), count, count, TopicType.MIXED, "new", perm))

    def put_group(self) -> None:
        put_group(self.draft, GroupConfig(self.pick(GROUPS), retry_max_times=self.pick((16, 0))))

    def reset(self) -> None:
        group, queue = self.place()
        consumer_offsets.reset_offsets(self.draft, group, [(queue, self.pick(range(4)))])


ALIKE: Mapping[str, Callable[[Turn], object]] = {
    "send": Turn.send,
    "send with a level": lambda turn: turn.send(system_properties={"DELAY": "1"}),
    "send at a time": lambda turn: turn.send(message_group=None, delivery_timestamp_ms=turn.now_ms + 5_000),
    "send a half message": lambda turn: turn.send(
        turn.pick(HALVES), message_group=None, transactional=True, system_properties={"PGROUP": "payments"}
    ),
    "end a half message": Turn.end_half,
    "publish": Turn.publish,
    "stage": Turn.stage,
    "commit stages": Turn.commit,
    "drop stages": lambda turn: stage_commands.drop(turn.draft, turn.pick(TRANSACTIONS)),
    "acknowledge": lambda turn: acknowledge_any(turn.draft, turn.delivered(), "client"),
    "change the invisible time": Turn.change_invisible_time,
    "set an offset": lambda turn: consumer_offsets.set_offsets(
        turn.draft, turn.pick(GROUPS), [(turn.queue(), turn.pick(range(4)))]
    ),
    "update an offset": lambda turn: consumer_offsets.update_offset(turn.draft, *turn.place(), turn.pick(range(-1, 3))),
    "keep an offset": Turn.keep_offset,
    "clone offsets": lambda turn: clone_offsets(
        turn.draft, turn.pick(GROUPS), turn.pick(GROUPS), turn.pick(TOPICS), BROKER
    ),
    "answer a reset": lambda turn: consumer_offsets.answer_reset(turn.draft, *turn.place()),
    "report lost rows": lambda turn: consumer_offsets.report_lost(
        turn.draft, "query", turn.pick((0, 1)), [LostRange(turn.queue(), 0, 1)]
    ),
    "put a topic": Turn.put_topic,
    "delete a topic": lambda turn: delete_topic(turn.draft, turn.pick(TOPICS)),
    "put a group": Turn.put_group,
    "delete a group": lambda turn: delete_group(turn.draft, turn.pick(GROUPS)),
    "drop a group": lambda turn: drop_group(turn.draft, turn.pick(GROUPS), keeps_offsets=turn.pick((True, False))),
    "beat": lambda turn: draft_groups(turn.draft, [turn.pick(GROUPS)], lambda: "new"),
    "set a request mode": lambda turn: put_request_mode(
        turn.draft, RequestModeSet(turn.pick(TOPICS), turn.pick(GROUPS), "POP")
    ),
    "read the clock": lambda turn: turn.draft.add(ClockRead(turn.now_ms)),
}
"""Commands that depend on the draft alone, so that both brokers must draft the same."""
READING: Mapping[str, Callable[[Turn], object]] = {
    "pop": Turn.pop,
    "pop in order": lambda turn: turn.pop(in_order=True),
    "revive": lambda turn: revive_due(turn.draft, turn.now_ms, HERE, lambda: "new"),
    "deliver": lambda turn: deliver_due(turn.draft, turn.now_ms, HERE),
    "check half messages": lambda turn: check_transactions(turn.draft, turn.now_ms, HERE),
    "recall": lambda turn: recall(turn.draft, *turn.pick(turn.known.handles), turn.now_ms),
    "send back": Turn.send_back,
    "store rows of a stage": Turn.store_next,
    "reset": Turn.reset,
    "trim": Turn.trim,
}
"""Commands that depend on what can be read now.

By design, nothing of a draft can be read, and it has deleted nothing yet.
"""
