"""The core alone: commands change a state in memory, without a server or a log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.sending.commits import Outcome
from rmqpull_broker.core.sending.publishing import CheckedBatch, Published
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.stage_commands import CommittedStage, commit
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuePart
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues

T = TypeVar("T")


def check_batch(sender: Sender, published: Published, now_ms: int) -> CheckedBatch:
    """Runs all steps of a check."""
    *between, checked = sender.check(published, now_ms)
    assert between == [None] * len(between)
    assert checked is not None
    return checked


def commit_stages(
    draft: Draft,
    transaction: TransactionId,
    named: Sequence[CommittedStage],
    *more: Any,
    now_ms: int = 1_000,
    **others: Any,
) -> Outcome:
    """Commits stages, now and to the usual store host; ``more`` and ``others`` are further arguments of the command."""
    return commit(draft, "127.0.0.1:8081", transaction, named, now_ms, *more, **others)


class CoreHarness:
    """State and sender of a broker. Each command is applied at once. ``now_ms`` is the time."""

    def __init__(self, broker_names: Sequence[str] = ("broker-a",)) -> None:
        self.state = BrokerState(ConsumeQueues(), broker_names)
        self.sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "127.0.0.1:8081")
        self.now_ms = 1_000

    def run(self, command: Callable[[Draft], T]) -> T:
        draft = Draft(self.state)
        answer = command(draft)
        draft.end_command()
        for facts in draft.fact_batches:
            self.state.apply(facts)
        return answer

    def topic(
        self, queue_count: int = 1, topic_type: TopicType = TopicType.NORMAL, name: str = "orders"
    ) -> TopicConfig:
        topic = TopicConfig(name, queue_count, queue_count, topic_type, f"id of {name}")
        self.run(lambda draft: create_topic(draft, topic))
        return topic

    def queue(self, queue_id: int = 0, topic: str = "orders") -> MessageQueue:
        return MessageQueue(topic, "broker-a", queue_id)

    def send(self, *messages: Message, topic: str = "orders") -> list[StoredMessage]:
        return [row for _, row in self.run(lambda draft: self.sender.send(draft, topic, messages, self.now_ms))]

    def publish(self, rows: pa.RecordBatch, topic: str = "orders", **more: Any) -> tuple[QueuePart, ...]:
        checked = self.check(rows, topic, **more)
        return self.run(lambda draft: self.sender.publish(draft, checked, self.now_ms))

    def check(self, rows: pa.RecordBatch, topic: str = "orders", **more: Any) -> CheckedBatch:
        """Checks a batch of a client; ``more`` are further values of ``Published``."""
        return check_batch(self.sender, Published(topic, rows, "client", **more), self.now_ms)

    def fill(self, bodies: Sequence[bytes], tags: Sequence[str | None] | None = None) -> None:
        """Publishes messages with these bodies to ``orders``, in slices over its queues."""
        self.publish(self.batch(bodies, tags))

    @staticmethod
    def batch(bodies: Sequence[bytes], tags: Sequence[str | None] | None = None) -> pa.RecordBatch:
        """Returns messages with these bodies as a batch to publish."""
        texts = [None] * len(bodies) if tags is None else tags
        return pa.record_batch({"body": pa.array(bodies), "tags": pa.array(texts, pa.string())})

    def rows(self, queue: MessageQueue) -> list[StoredMessage]:
        """Returns all messages of a queue."""
        bounds = self.state.bounds(queue)
        return columns.to_rows(self.state.store.read(queue, *bounds)) if bounds.max_offset else []
