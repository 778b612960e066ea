"""The checks before a pull reads the store: every row of rocketmq-semantics 3.1, their order, what they bring about."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest

from rmqpull_broker.core import errors
from rmqpull_broker.core.channels import ClientChannel
from rmqpull_broker.core.consumer_offsets import reset_offsets
from rmqpull_broker.core.consumer_registry import ConsumerData, ConsumerRegistry, ConsumeType, MessageModel
from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.errors import BrokerError, IllegalFilterExpression
from rmqpull_broker.core.facts import Fact, GroupPut, OffsetsCommitted, ResetsAnswered
from rmqpull_broker.core.filtering import EVERYTHING, parse_tags
from rmqpull_broker.core.groups import put_group
from rmqpull_broker.core.model import GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pull_answers import ReadRole
from rmqpull_broker.core.pull_checks import CHECKS, begin_pull
from rmqpull_broker.core.pull_request import PullRequest, PullSysFlag, PullVerdict, RequestSource, Surroundings
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.core.subscriptions import FilterTable, subscription_data
from rmqpull_broker.core.topics import put_topic
from rmqpull_broker.store.queues import ConsumeQueues

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
RED = parse_tags("red")
NOW_MS = 1_000

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

# What makes one check fail, by its row.
FAILING: dict[str, dict[str, Any]] = {
    "0": {"role": ReadRole(is_slave=True)},
    "1": {"broker_permission": 2},
    "2": {"is_lite": True, "lite_enabled": False},
    "3": {"group_exists": False, "auto_create": False},
    "4": {"consume_enable": False},
    "5": {"topic_exists": False},
    "6": {"perm": 2},
    "7": {"leads_queue": False},
    "8": {"queue_id": 4},
    "9a": {"brings_subscription": True, "subscription": "||"},
    "9b": {"has_members": False},
    "10": {"message_model": MessageModel.BROADCASTING, "broadcast_enable": False},
    "11": {"is_topic_forbidden": True},
    "12": {"subscribed_topic": "other"},
    "13": {"sub_version": 8},
    "14": {"heartbeats": [(7, "SQL92", "malformed")]},
    "15": {"heartbeats": [(7, "SQL92", "colour = 'red'"), (8, "SQL92", "")], "sub_version": 8},
    "16": {"property_filter": False},
    "17": {"reject_pull_consumer": True, "consume_type": ConsumeType.ACTIVELY, "channel_id": "stranger"},
    "18": {"reads_cold_data": True},
    "19": {"reset_to": 3},
    "20": {"broadcast_offset": 5},
    "21": {"is_store_readable": False},
}

# code, remark, forbiddenType; or the offset of an OFFSET_RESET.
ANSWERS: dict[str, Any] = {
    "0": (2, "[REJECTREQUEST]system busy, start flow control for a while", None),
    "1": (16, "the broker[10.0.0.1] pulling message is forbidden", 1),
    "2": (16, "the broker[10.0.0.1] for lite pull consumer is forbidden", 1),
    "3": (26, f"subscription group [readers] does not exist, {FAQ}", None),
    "4": (16, "subscription group no permission, readers", 2),
    "5": (17, f"topic[orders] not exist, apply first please! {FAQ}", None),
    "6": (16, "the topic[orders] pulling message is forbidden", 3),
    "7": (501, "orders-1 cannot find mapping item in request process of current broker broker-a", None),
    "8": (29, "queueId[4] is illegal, topic:[orders] topicConfig.readQueueNums:[4] consumer:[10.0.0.9]", None),
    "9a": (23, "parse the consumer's subscription failed", None),
    "9b": (24, f"the consumer's group info not exist{FAQ}", None),
    "10": (16, "the consumer group[readers] can not consume by broadcast way", 4),
    "11": (16, "the consumer group[readers] is forbidden for topic[orders]", 5),
    "12": (24, f"the consumer's subscription not exist{FAQ}", None),
    "13": (25, "the consumer's subscription not latest", None),
    "14": (27, "The broker's consumer filter data is not exist!Your expression may be wrong!", None),
    "15": (28, "the consumer's consumer filter data not latest", None),
    "16": (1, "The broker does not support consumer to filter message by SQL92", None),
    "17": (24, f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}", None),
    "18": (2, "This consumer group is reading cold data. It has been flow control", None),
    "19": 3,
    "20": 5,
    "21": (1, "store getMessage return null", None),
}


class Broker:
    """A broker as ``settings`` describe it, at the moment when the pull comes."""

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
        for facts in draft.groups:
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
            subscription = subscription_data(self.set["subscribed_topic"], expression_type, expression, version)
            data = ConsumerData("readers", (subscription,), self.set["consume_type"], self.set["message_model"])
            self.registry.register(data, ClientChannel("member", "client"), NOW_MS)

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
        surroundings = Surroundings("10.0.0.1", **{name: self.set[name] for name in (*names, "is_store_readable")})
        draft = Draft(self.state)
        verdict = begin_pull(
            draft, self.registry, request or self.request(), NOW_MS, surroundings, is_first_run=is_first_run
        )
        draft.end_command()
        facts = [fact for group in draft.groups for fact in group]
        self.state.apply(facts)
        return verdict, facts


def _compiled(expression_type: str, expression: str) -> Any:
    if expression == "malformed":
        raise IllegalFilterExpression("it is malformed")
    return RED


def answer(verdict: PullVerdict) -> Any:
    if verdict.refusal is None:
        return verdict.reset_offset
    return verdict.refusal.response_code, str(verdict.refusal), getattr(verdict.refusal, "forbidden_type", None)


def test_every_check_has_its_rows_in_the_tables() -> None:
    assert list(FAILING) == list(ANSWERS) == list(CHECKS)


def test_a_pull_that_passes_all_checks_reads_with_its_groups_filter() -> None:
    verdict, facts = Broker().pull()
    assert (verdict.refusal, verdict.message_filter, verdict.reset_offset, facts) == (None, RED, None, [])


@pytest.mark.parametrize("row", FAILING)
def test_a_failing_check_answers(row: str) -> None:
    verdict, _ = Broker(**FAILING[row]).pull()
    assert answer(verdict) == ANSWERS[row]


@pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in combinations(FAILING, 2) if not FAILING[pair[0]].keys() & FAILING[pair[1]].keys()],
)
def test_of_two_failing_checks_the_first_answers(first: str, second: str) -> None:
    broker = Broker(**FAILING[first], **FAILING[second])
    expected = ANSWERS[first]
    if isinstance(expected, tuple):
        expected = (expected[0], expected[1].replace("orders-1", f"orders-{broker.queue.queue_id}"), expected[2])
    assert answer(broker.pull()[0]) == expected


@pytest.mark.parametrize("row", ["9b", "10", "11", "12", "13", "14", "15", "16"])
def test_a_pull_that_brings_its_subscription_is_not_held_against_heartbeats(row: str) -> None:
    verdict, _ = Broker(**FAILING[row], brings_subscription=True, subscription="red").pull()
    assert (verdict.refusal, verdict.message_filter) == (None, RED)


@pytest.mark.parametrize("queue_id", [-1, 4, 7])
def test_queues_that_are_written_but_not_read_are_illegal(queue_id: int) -> None:
    verdict, _ = Broker(queue_id=queue_id).pull()
    assert isinstance(verdict.refusal, errors.BadRequest)


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression_type", "expression", "message_filter"),
    [
        (None, "red", RED),
        ("TAG", "red", RED),
        ("TAG", "", EVERYTHING),
        (None, None, EVERYTHING),
        ("", "*", EVERYTHING),
        ("", "red", parse_tags(" ")),
        ("tag", "red", EVERYTHING),
    ],
)
def test_a_subscription_that_a_pull_brings_becomes_its_filter(
    expression_type: str | None, expression: str | None, message_filter: Any
) -> None:
    broker = Broker(brings_subscription=True)
    verdict, _ = broker.pull(broker.request(expression_type=expression_type, subscription=expression))
    assert (verdict.refusal, verdict.message_filter) == (None, message_filter)


@pytest.mark.parametrize(("expression_type", "expression"), [("SQL92", ""), ("SQL92", None), ("TAG", "||"), ("", "")])
def test_a_subscription_that_cannot_be_read_is_refused(expression_type: str, expression: str | None) -> None:
    broker = Broker(brings_subscription=True)
    verdict, _ = broker.pull(broker.request(expression_type=expression_type, subscription=expression))
    assert answer(verdict) == ANSWERS["9a"]


def test_sql_that_a_pull_brings_needs_the_brokers_consent() -> None:
    broker = Broker(brings_subscription=True, property_filter=False)
    verdict, _ = broker.pull(broker.request(expression_type="SQL92", subscription="colour = 'red'"))
    assert answer(verdict) == ANSWERS["16"]


def test_an_edge_may_bring_the_filter_ready_made() -> None:
    broker = Broker(brings_subscription=True)
    verdict, _ = broker.pull(broker.request(subscription="red", message_filter=RED))
    assert verdict.message_filter is RED


@pytest.mark.parametrize(
    ("expression", "message_filter"), [("red", RED), ("*", EVERYTHING), ("", EVERYTHING), (" ", parse_tags(" "))]
)
def test_tags_of_a_heartbeat_need_no_filter_data(expression: str, message_filter: Any) -> None:
    verdict, _ = Broker(heartbeats=[(7, "TAG", expression)]).pull()
    assert (verdict.refusal, verdict.message_filter) == (None, message_filter)


# --- who may pull -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "is_refused"),
    [
        ({"consume_type": ConsumeType.ACTIVELY, "channel_id": "stranger"}, True),
        ({"consume_type": ConsumeType.ACTIVELY}, False),
        ({"channel_id": "stranger"}, False),
        ({"has_members": False, "brings_subscription": True}, True),
    ],
)
def test_unregistered_pull_consumers_are_refused_where_that_is_wanted(
    settings: dict[str, Any], is_refused: bool
) -> None:
    verdict, _ = Broker(reject_pull_consumer=True, **settings).pull()
    assert (answer(verdict) == ANSWERS["17"]) == is_refused
    assert Broker(**settings).pull()[0].refusal is None


def test_a_group_of_the_system_is_never_rejected() -> None:
    broker = Broker(reject_pull_consumer=True, brings_subscription=True, has_members=False)
    verdict, _ = broker.pull(broker.request(group="CID_RMQ_SYS_TRANS"))
    assert verdict.refusal is None


def test_a_slave_that_may_be_read_is_read() -> None:
    assert Broker(role=ReadRole(is_slave=True, slave_read_enable=True)).pull()[0].refusal is None


# --- what a pull brings about -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"topic_exists": False}, {"queue_id": 9}, {"perm": 2}])
def test_an_unknown_group_is_created_also_when_a_later_check_fails(settings: dict[str, Any]) -> None:
    _, facts = Broker(group_exists=False, **settings).pull()
    assert facts == [GroupPut(GroupConfig("readers"))]


@pytest.mark.parametrize(("name", "is_created"), [("", True), ("x" * 255, True), ("x" * 256, False), ("a b", False)])
def test_names_of_groups_that_a_pull_creates(name: str, is_created: bool) -> None:
    broker = Broker(brings_subscription=True)
    verdict, facts = broker.pull(broker.request(group=name))
    assert facts == ([GroupPut(GroupConfig(name))] if is_created else [])
    assert (None if is_created else 26) == getattr(verdict.refusal, "response_code", None)


@pytest.mark.parametrize(
    ("source", "consume_type", "message_model"),
    [
        (RequestSource.SDK, ConsumeType.PASSIVELY, MessageModel.CLUSTERING),
        (RequestSource.PROXY_FOR_ORDER, ConsumeType.PASSIVELY, MessageModel.CLUSTERING),
        (RequestSource.PROXY_FOR_BROADCAST, ConsumeType.PASSIVELY, MessageModel.BROADCASTING),
        (RequestSource.PROXY_FOR_STREAM, ConsumeType.ACTIVELY, MessageModel.CLUSTERING),
    ],
)
def test_how_the_group_consumes_is_remembered_by_who_pulls(
    source: RequestSource, consume_type: ConsumeType, message_model: MessageModel
) -> None:
    broker = Broker(brings_subscription=True, subscription="red", has_members=False)
    verdict, _ = broker.pull(broker.request(request_source=source))
    assert verdict.compensation is not None
    verdict.compensation.remember(broker.registry)
    info = broker.registry.compensated_group("readers")
    assert info is not None
    assert (info.consume_type, info.message_model) == (consume_type, message_model)
    subscription = broker.registry.find_subscription("readers", "orders")
    assert subscription is not None
    assert (subscription.tags, subscription.sub_version) == (frozenset({"red"}), NOW_MS)


def test_a_pull_that_fails_before_it_is_known_to_be_for_a_queue_is_not_remembered() -> None:
    for row, settings in FAILING.items():
        compensation = Broker(**settings).pull()[0].compensation
        assert (compensation is None) == (row in ("0", "1", "2", "3", "4", "5", "6", "7", "8")), row


# --- resets and commits -----------------------------------------------------------------------------------------------


def test_a_reset_is_answered_once() -> None:
    broker = Broker(reset_to=3)
    verdict, facts = broker.pull()
    assert (verdict.reset_offset, facts) == (3, [ResetsAnswered("readers", (broker.queue,))])
    assert broker.pull()[0] == replace(verdict, reset_offset=None)


@pytest.mark.parametrize("row", [row for row in FAILING if row not in ("8", "19", "20", "21")])
def test_a_refused_pull_uses_up_no_reset_and_commits_nothing(row: str) -> None:
    broker = Broker(reset_to=3, **FAILING[row])
    sys_flag = broker.request().sys_flag | PullSysFlag.COMMIT_OFFSET
    _, facts = broker.pull(broker.request(sys_flag=sys_flag, commit_offset=9))
    assert [fact for fact in facts if not isinstance(fact, GroupPut)] == []
    assert list(broker.state.resets.values()) == [3]


def test_with_client_side_resets_none_is_told() -> None:
    verdict, facts = Broker(reset_to=3, server_side_reset=False).pull()
    assert (verdict.reset_offset, facts) == (None, [])


def test_a_reset_comes_before_progress_that_the_broker_keeps_for_broadcasting() -> None:
    assert Broker(reset_to=3, broadcast_offset=5).pull()[0].reset_offset == 3


@pytest.mark.parametrize("is_first_run", [True, False])
@pytest.mark.parametrize("bit", [PullSysFlag.COMMIT_OFFSET, PullSysFlag.NONE])
def test_a_pull_commits_in_its_first_run_when_it_says_so(bit: PullSysFlag, is_first_run: bool) -> None:
    broker = Broker()
    request = broker.request(sys_flag=bit, commit_offset=9)
    _, facts = broker.pull(request, is_first_run=is_first_run)
    commits = bit is PullSysFlag.COMMIT_OFFSET and is_first_run
    assert facts == ([OffsetsCommitted("readers", ((broker.queue, 9),))] if commits else [])


def test_a_pull_that_is_told_of_a_reset_commits_its_own_offset_after_that() -> None:
    broker = Broker()
    draft = Draft(broker.state)
    reset_offsets(draft, "readers", [(broker.queue, 1)])
    draft.end_command()
    broker.state.apply(draft.groups[0])
    verdict, _ = broker.pull(broker.request(sys_flag=PullSysFlag.COMMIT_OFFSET, commit_offset=9))
    assert verdict.reset_offset == 1
    assert broker.state.consumer_offset("readers", broker.queue) == 9


def test_refusals_carry_the_codes_of_the_remoting_protocol() -> None:
    refusals = [Broker(**settings).pull()[0].refusal for settings in FAILING.values()]
    assert all(isinstance(refusal, BrokerError) for refusal in refusals if refusal is not None)
