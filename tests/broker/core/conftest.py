"""A broker without edges, for tests of what RocketMQ does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import settings

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import create_topic, put_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import FilterTable, make_subscription_data
from rmqpull_broker.core.errors import IllegalFilterExpression
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.answers import ReadRole
from rmqpull_broker.core.pulling.checks import begin_pull
from rmqpull_broker.core.pulling.request import PullContext, PullRequest, PullSysFlag, PullVerdict
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Published, Sender
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, QueuePart
from rmqpull_broker.store.queues.queues import ConsumeQueues

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

    def publish(self, published: pa.RecordBatch, topic: str = "orders") -> tuple[QueuePart, ...]:
        return self.run(lambda draft: self.sender.publish(draft, Published(topic, published, "client"), self.now_ms))

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


# Everything that a check asks for, so that all of them pass. The group's heartbeats say what it wants.
PASSING: dict[str, Any] = {
    "role": ReadRole(),
    "broker_permission": 6,
    "is_lite": False,
    "lite_enabled": True,
    "group_exists": True,
    "auto_create": True,
    "consume_enable": True,
    "topic_exists": True,
    "perm": 6,
    "leads_queue": True,
    "queue_id": 1,
    "brings_subscription": False,
    "subscription": None,
    "has_members": True,
    "message_model": MessageModel.CLUSTERING,
    "broadcast_enable": True,
    "is_topic_forbidden": False,
    "subscribed_topic": "orders",
    "heartbeats": [(7, "SQL92", "colour = 'red'")],
    "sub_version": 7,
    "property_filter": True,
    "reject_pull_consumer": False,
    "consume_type": ConsumeType.PASSIVELY,
    "channel_id": "member",
    "reads_cold_data": False,
    "reset_to": None,
    "broadcast_offset": -1,
    "is_store_readable": True,
}


class PullDesk:
    """A broker as ``settings`` describe it, at the moment when the pull comes."""

    now_ms = 1_000

    def __init__(self, **settings: Any) -> None:
        self.set = {**PASSING, **settings}
        properties = BrokerProperties(
            broker_permission=self.set["broker_permission"],
            lite_pull_message_enable=self.set["lite_enabled"],
            auto_create_subscription_group=self.set["auto_create"],
            enable_property_filter=self.set["property_filter"],
            reject_pull_consumer_enable=self.set["reject_pull_consumer"],
            use_server_side_reset_offset=self.set.get("server_side_reset", True),
        )
        self.state = BrokerState(ConsumeQueues(), ["broker-a"], properties)
        self.registry = ConsumerRegistry(filters=FilterTable(_compiled))
        self.queue = MessageQueue("orders", "broker-a", self.set["queue_id"])
        self._run(self._make)
        if self.set["has_members"]:
            self._send_heartbeats()

    def _run(self, command: Any) -> None:
        draft = Draft(self.state)
        command(draft)
        draft.end_command()
        for facts in draft.fact_batches:
            self.state.apply(facts)

    def _make(self, draft: Draft) -> None:
        if self.set["topic_exists"]:
            put_topic(draft, TopicConfig("orders", 4, 8, perm=self.set["perm"]))
        if self.set["group_exists"]:
            group = GroupConfig("readers", self.set["consume_enable"], self.set["broadcast_enable"])
            put_group(draft, group)
        if self.set["reset_to"] is not None:
            self.state.resets["readers", self.queue] = self.set["reset_to"]

    def _send_heartbeats(self) -> None:
        for version, expression_type, expression in self.set["heartbeats"]:
            subscription = make_subscription_data(self.set["subscribed_topic"], expression_type, expression, version)
            data = ConsumerData("readers", (subscription,), self.set["consume_type"], self.set["message_model"])
            self.registry.register(data, ClientChannel("member", "client"), self.now_ms)

    def request(self, **fields: Any) -> PullRequest:
        sys_flag = PullSysFlag.SUSPEND
        for setting, bit in (
            ("is_lite", PullSysFlag.LITE_PULL_MESSAGE),
            ("brings_subscription", PullSysFlag.SUBSCRIPTION),
        ):
            sys_flag |= bit if self.set[setting] else PullSysFlag.NONE
        request = PullRequest(
            "readers",
            self.queue,
            sys_flag=sys_flag,
            subscription=self.set["subscription"],
            sub_version=self.set["sub_version"],
            remote_address="10.0.0.9",
            channel_id=self.set["channel_id"],
        )
        return replace(request, **fields)

    def pull(self, request: PullRequest | None = None, *, is_first_run: bool = True) -> tuple[PullVerdict, list[Fact]]:
        """The verdict, and the facts that hold from now on."""
        names = ("role", "leads_queue", "is_topic_forbidden", "reads_cold_data", "broadcast_offset")
        context = PullContext("10.0.0.1", **{name: self.set[name] for name in (*names, "is_store_readable")})
        draft = Draft(self.state)
        verdict = begin_pull(
            draft, self.registry, request or self.request(), self.now_ms, context, is_first_run=is_first_run
        )
        draft.end_command()
        facts = [fact for group in draft.fact_batches for fact in group]
        self.state.apply(facts)
        return verdict, facts


def _compiled(expression_type: str, expression: str) -> Any:
    if expression == "malformed":
        raise IllegalFilterExpression("it is malformed")
    return parse_tags("red")


@pytest.fixture(scope="session")
def new_pull_desk() -> type[PullDesk]:
    """A broker that is asked for one pull, by the settings that differ from ``PASSING``."""
    return PullDesk
