"""A broker without edges, for tests of what RocketMQ does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings

from rmqpull_broker.core import columns
from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.facts import QueuePart
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.queue_selection import QueueSelector
from rmqpull_broker.core.sending import Sender
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.core.topics import create_topic
from rmqpull_broker.store.queues import ConsumeQueues

# How long an example takes says more about the machine than about the code.
settings.register_profile("broker", deadline=None)
settings.load_profile("broker")

T = TypeVar("T")


class Desk:
    """State and sender of a broker whose log keeps every command at once. The time is ``now_ms``."""

    def __init__(self) -> None:
        self.state = BrokerState(ConsumeQueues(), ["broker-a"])
        self.sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "127.0.0.1:8081")
        self.now_ms = 1_000

    def run(self, command: Callable[[Draft], T]) -> T:
        draft = Draft(self.state)
        answer = command(draft)
        draft.end_command()
        for facts in draft.groups:
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

    def publish(self, published: pa.RecordBatch, topic: str = "orders") -> tuple[QueuePart, ...]:
        return self.run(lambda draft: self.sender.publish(draft, topic, published, self.now_ms, "client"))

    def fill(self, bodies: Sequence[bytes], tags: Sequence[str | None] | None = None) -> None:
        """Publishes messages of these bodies, in turn over the queues of ``orders``."""
        self.publish(self.batch(bodies, tags))

    @staticmethod
    def batch(bodies: Sequence[bytes], tags: Sequence[str | None] | None = None) -> pa.RecordBatch:
        """Messages of these bodies as a batch to publish."""
        texts = [None] * len(bodies) if tags is None else tags
        return pa.record_batch({"body": pa.array(bodies), "tags": pa.array(texts, pa.string())})

    def rows(self, queue: MessageQueue) -> list[StoredMessage]:
        """Everything that a queue holds."""
        bounds = self.state.bounds(queue)
        return columns.to_rows(self.state.store.read(queue, *bounds)) if bounds.max_offset else []


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(scope="session")
def new_desk() -> type[Desk]:
    """For properties, which need a new one for every example."""
    return Desk
