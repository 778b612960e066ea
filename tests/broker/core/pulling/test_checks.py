"""The checks before a pull reads the store: the rows of rules 3.1, and their order."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from rmqpull_broker.core.clients.members import ConsumeType, MessageModel
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.pulling.checks import CHECKS
from rmqpull_broker.core.pulling.request import PullSysFlag, PullVerdict
from rmqpull_broker.core.state.facts import GroupPut
from tests.harness.pull_checks import PullCheckHarness

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
RED = parse_tags("red")

# What makes one check fail, by its row.
FAILING: dict[str, dict[str, Any]] = {
    "1": {"broker_permission": 2},
    "2": {"is_lite": True, "lite_enabled": False},
    "3": {"group_exists": False, "auto_create": False},
    "4": {"consume_enable": False},
    "5": {"topic_exists": False},
    "6": {"perm": 2},
    "8": {"queue_id": 4},
    "9a": {"brings_subscription": True, "subscription": "||"},
    "9b": {"has_members": False},
    "10": {"message_model": MessageModel.BROADCASTING, "broadcast_enable": False},
    "12": {"subscribed_topic": "other"},
    "13": {"sub_version": 8},
    "14": {"heartbeats": [(7, "SQL92", "malformed")]},
    "15": {"heartbeats": [(7, "SQL92", "colour = 'red'"), (8, "SQL92", "")], "sub_version": 8},
    "16": {"property_filter": False},
    "17": {"reject_pull_consumer": True, "consume_type": ConsumeType.ACTIVELY, "channel_id": "stranger"},
    "19": {"reset_to": 3},
}

# code, remark, forbiddenType; or the offset of an OFFSET_RESET.
ANSWERS: dict[str, Any] = {
    "1": (16, "the broker[10.0.0.1] pulling message is forbidden", 1),
    "2": (16, "the broker[10.0.0.1] for lite pull consumer is forbidden", 1),
    "3": (26, f"subscription group [readers] does not exist, {FAQ}", None),
    "4": (16, "subscription group no permission, readers", 2),
    "5": (17, f"topic[orders] not exist, apply first please! {FAQ}", None),
    "6": (16, "the topic[orders] pulling message is forbidden", 3),
    "8": (29, "queueId[4] is illegal, topic:[orders] topicConfig.readQueueNums:[4] consumer:[10.0.0.9]", None),
    "9a": (23, "parse the consumer's subscription failed", None),
    "9b": (24, f"the consumer's group info not exist{FAQ}", None),
    "10": (16, "the consumer group[readers] can not consume by broadcast way", 4),
    "12": (24, f"the consumer's subscription not exist{FAQ}", None),
    "13": (25, "the consumer's subscription not latest", None),
    "14": (27, "The broker's consumer filter data is not exist!Your expression may be wrong!", None),
    "15": (28, "the consumer's consumer filter data not latest", None),
    "16": (1, "The broker does not support consumer to filter message by SQL92", None),
    "17": (24, f"the consumer's group info not exist, or the pull consumer is rejected by server.{FAQ}", None),
    "19": 3,
}


def answer(verdict: PullVerdict) -> Any:
    if verdict.refusal is None:
        return verdict.reset_offset
    return verdict.refusal.response_code, str(verdict.refusal), getattr(verdict.refusal, "forbidden_type", None)


def test_every_check_has_its_rows_in_the_tables() -> None:
    assert list(FAILING) == list(ANSWERS) == list(CHECKS)


def test_a_pull_that_passes_all_checks_reads_with_its_groups_filter() -> None:
    verdict, facts = PullCheckHarness().pull()
    assert (verdict.refusal, verdict.message_filter, verdict.reset_offset, facts) == (None, RED, None, [])


@pytest.mark.parametrize("row", FAILING)
def test_a_failing_check_answers(row: str) -> None:
    verdict, _ = PullCheckHarness(**FAILING[row]).pull()
    assert answer(verdict) == ANSWERS[row]


@pytest.mark.parametrize(
    ("first", "second"),
    [pair for pair in combinations(FAILING, 2) if not FAILING[pair[0]].keys() & FAILING[pair[1]].keys()],
)
def test_of_two_failing_checks_the_first_answers(first: str, second: str) -> None:
    broker = PullCheckHarness(**FAILING[first], **FAILING[second])
    assert answer(broker.pull()[0]) == ANSWERS[first]


@pytest.mark.parametrize("row", ["9b", "10", "12", "13", "14", "15", "16"])
def test_a_pull_that_brings_its_subscription_is_not_held_against_heartbeats(row: str) -> None:
    verdict, _ = PullCheckHarness(**FAILING[row], brings_subscription=True, subscription="red").pull()
    assert (verdict.refusal, verdict.message_filter) == (None, RED)


@pytest.mark.parametrize("queue_id", [-1, 4, 7])
def test_queues_that_are_written_but_not_read_are_illegal(queue_id: int) -> None:
    verdict, _ = PullCheckHarness(queue_id=queue_id).pull()
    assert isinstance(verdict.refusal, BadRequest)


def test_a_pull_that_fails_before_it_is_known_to_be_for_a_queue_is_not_remembered() -> None:
    for row, settings in FAILING.items():
        compensation = PullCheckHarness(**settings).pull()[0].compensation
        assert (compensation is None) == (row in ("1", "2", "3", "4", "5", "6", "8")), row


@pytest.mark.parametrize("row", [row for row in FAILING if row not in ("8", "19")])
def test_a_refused_pull_uses_up_no_reset_and_commits_nothing(row: str) -> None:
    broker = PullCheckHarness(reset_to=3, **FAILING[row])
    sys_flag = broker.request().sys_flag | PullSysFlag.COMMIT_OFFSET
    _, facts = broker.pull(broker.request(sys_flag=sys_flag, commit_offset=9))
    assert [fact for fact in facts if not isinstance(fact, GroupPut)] == []
    assert list(broker.state.resets.values()) == [3]
