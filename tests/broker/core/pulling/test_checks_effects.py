"""What a pull reads with, who may pull, and its effects besides the answer (rules 3.1, 6.1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rmqpull_broker.core.clients.members import ConsumeType, MessageModel
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.filters.message_filter import EVERYTHING, parse_tags
from rmqpull_broker.core.messages.columns import from_rows
from rmqpull_broker.core.model import GroupConfig, Message, StoredMessage
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.pulling.request import PullSysFlag, PullVerdict, RequestSource
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupPut, OffsetsCommitted, ResetsAnswered
from tests.harness.pull_checks import PullCheckHarness

RED = parse_tags("red")


def code_of(verdict: PullVerdict) -> int | None:
    return None if verdict.refusal is None else verdict.refusal.response_code


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
    broker = PullCheckHarness(brings_subscription=True)
    verdict, _ = broker.pull(broker.request(expression_type=expression_type, subscription=expression))
    assert (verdict.refusal, verdict.message_filter) == (None, message_filter)


@pytest.mark.parametrize(("expression_type", "expression"), [("SQL92", ""), ("SQL92", None), ("TAG", "||"), ("", "")])
def test_a_subscription_that_cannot_be_read_is_refused(expression_type: str, expression: str | None) -> None:
    broker = PullCheckHarness(brings_subscription=True)
    verdict, _ = broker.pull(broker.request(expression_type=expression_type, subscription=expression))
    assert code_of(verdict) == 23


def test_sql_that_a_pull_brings_needs_the_brokers_consent() -> None:
    broker = PullCheckHarness(brings_subscription=True, property_filter=False)
    verdict, _ = broker.pull(broker.request(expression_type="SQL92", subscription="colour = 'red'"))
    assert code_of(verdict) == 1


@pytest.mark.parametrize(
    ("expression_type", "expression"), [("SQL92", "a >"), ("SQL92", ""), ("tag", "red"), ("TAG", "||")]
)
def test_a_strict_pull_is_refused_for_a_filter_that_cannot_be_read(expression_type: str, expression: str) -> None:
    broker = PullCheckHarness(brings_subscription=True)
    request = broker.request(expression_type=expression_type, subscription=expression, is_strict=True)
    assert code_of(broker.pull(request)[0]) == 23


@pytest.mark.parametrize(
    ("expression", "message_filter"), [("red", RED), ("*", EVERYTHING), ("", EVERYTHING), (" ", parse_tags(" "))]
)
def test_tags_of_a_heartbeat_need_no_filter_data(expression: str, message_filter: Any) -> None:
    verdict, _ = PullCheckHarness(heartbeats=[(7, "TAG", expression)]).pull()
    assert (verdict.refusal, verdict.message_filter) == (None, message_filter)


@pytest.mark.parametrize("brings_subscription", [True, False])
def test_sql_sees_what_every_message_of_the_broker_has(brings_subscription: bool) -> None:
    sql = "CLUSTER = 'DefaultCluster'"
    broker = PullCheckHarness(
        brings_subscription=brings_subscription, has_members=False, heartbeats=[(7, "SQL92", sql)]
    )
    broker.registry = ConsumerRegistry()
    broker._send_heartbeats()
    verdict, _ = broker.pull(broker.request(expression_type="SQL92", subscription=sql))
    batch = from_rows([StoredMessage(Message(b"x", "ID"), 0, 0, "")])
    assert verdict.message_filter.matches_any(batch)


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
    verdict, _ = PullCheckHarness(reject_pull_consumer=True, **settings).pull()
    assert (code_of(verdict) == 24) == is_refused
    assert PullCheckHarness(**settings).pull()[0].refusal is None


def test_a_group_of_the_system_is_never_rejected() -> None:
    broker = PullCheckHarness(reject_pull_consumer=True, brings_subscription=True, has_members=False)
    verdict, _ = broker.pull(broker.request(group="CID_RMQ_SYS_TRANS"))
    assert verdict.refusal is None


# --- what a pull brings about -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"topic_exists": False}, {"queue_id": 9}, {"perm": 2}])
def test_an_unknown_group_is_created_also_when_a_later_check_fails(settings: dict[str, Any]) -> None:
    _, facts = PullCheckHarness(group_exists=False, **settings).pull()
    assert facts == [GroupPut(GroupConfig("readers"))]


@pytest.mark.parametrize(("name", "is_created"), [("", False), ("x" * 120, True), ("x" * 121, False), ("a b", False)])
def test_names_of_groups_that_a_pull_creates(name: str, is_created: bool) -> None:
    broker = PullCheckHarness(brings_subscription=True)
    verdict, facts = broker.pull(broker.request(group=name))
    assert facts == ([GroupPut(GroupConfig(name))] if is_created else [])
    assert code_of(verdict) == (None if is_created else 26)


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
    broker = PullCheckHarness(brings_subscription=True, subscription="red", has_members=False)
    verdict, _ = broker.pull(broker.request(request_source=source))
    assert verdict.compensation is not None
    verdict.compensation.apply(broker.registry)
    info = broker.registry.find_compensated_group("readers")
    assert info is not None
    assert (info.consume_type, info.message_model) == (consume_type, message_model)
    subscription = broker.registry.find_subscription("readers", "orders")
    assert subscription is not None
    assert (subscription.tags, subscription.sub_version) == (frozenset({"red"}), broker.now_ms)


# --- resets and commits -----------------------------------------------------------------------------------------------


def test_a_reset_is_answered_once() -> None:
    broker = PullCheckHarness(reset_to=3)
    verdict, facts = broker.pull()
    assert (verdict.reset_offset, facts) == (3, [ResetsAnswered("readers", (broker.queue,))])
    assert broker.pull()[0] == replace(verdict, reset_offset=None)


def test_with_client_side_resets_no_pull_gets_one() -> None:
    verdict, facts = PullCheckHarness(reset_to=3, server_side_reset=False).pull()
    assert (verdict.reset_offset, facts) == (None, [])


@pytest.mark.parametrize("is_first_run", [True, False])
@pytest.mark.parametrize("bit", [PullSysFlag.COMMIT_OFFSET, PullSysFlag.NONE])
def test_a_pull_commits_in_its_first_run_when_it_says_so(bit: PullSysFlag, is_first_run: bool) -> None:
    broker = PullCheckHarness()
    request = broker.request(sys_flag=bit, commit_offset=9)
    _, facts = broker.pull(request, is_first_run=is_first_run)
    commits = bit is PullSysFlag.COMMIT_OFFSET and is_first_run
    assert facts == ([OffsetsCommitted("readers", ((broker.queue, 9),))] if commits else [])


def test_a_pull_that_gets_a_reset_sets_its_own_offset_after_it() -> None:
    broker = PullCheckHarness()
    draft = Draft(broker.state)
    reset_offsets(draft, "readers", [(broker.queue, 1)])
    draft.end_command()
    broker.state.apply(draft.fact_batches[0])
    verdict, _ = broker.pull(broker.request(sys_flag=PullSysFlag.COMMIT_OFFSET, commit_offset=9))
    assert verdict.reset_offset == 1
    assert broker.state.find_consumer_offset("readers", broker.queue) == 9
