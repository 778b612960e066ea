"""The checks of a pull, on a broker where all of them pass except those that a test makes fail."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import put_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import FilterTable, make_subscription_data
from rmqpull_broker.core.errors import IllegalFilterExpression
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.model import GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.checks import begin_pull
from rmqpull_broker.core.pulling.request import PullContext, PullRequest, PullSysFlag, PullVerdict
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues

# With these settings every check passes. ``heartbeats`` are the subscriptions that the group's member has sent.
PASSING: dict[str, Any] = {
    "broker_permission": 6,
    "is_lite": False,
    "lite_enabled": True,
    "group_exists": True,
    "auto_create": True,
    "consume_enable": True,
    "topic_exists": True,
    "perm": 6,
    "queue_id": 1,
    "brings_subscription": False,
    "subscription": None,
    "has_members": True,
    "message_model": MessageModel.CLUSTERING,
    "broadcast_enable": True,
    "subscribed_topic": "orders",
    "heartbeats": [(7, "SQL92", "colour = 'red'")],
    "sub_version": 7,
    "property_filter": True,
    "reject_pull_consumer": False,
    "consume_type": ConsumeType.PASSIVELY,
    "channel_id": "member",
    "reset_to": None,
}


class PullCheckHarness:
    """A broker for one pull. ``settings`` replace those in PASSING."""

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
        """Checks a pull. Returns the verdict and the new facts."""
        context = PullContext("10.0.0.1")
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
