"""Refusals of requests about lite topics, in the words of Apache's broker 5.5.0 (rules 6.4)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqpull_broker.core.errors import FAQ
from rmqpull_broker.core.popping.lite_topics import refuse_group, refuse_parent, refuse_pop
from rmqpull_broker.core.properties import BrokerProperties
from tests.harness.core import CoreHarness


@pytest.mark.parametrize(
    ("topic", "code", "remark"),
    [("none", 17, "Topic [none] not exist."), ("orders", 29, "Topic [orders] type not match.")],
)
def test_no_topic_is_a_parent(core: CoreHarness, topic: str, code: int, remark: str) -> None:
    core.topic()
    refusal = refuse_parent(core.state, topic)
    assert (refusal.response_code, str(refusal)) == (code, remark)


@pytest.mark.parametrize(
    ("is_automatic", "code", "remark"),
    [(True, 29, "Group [g] is not a LITE group."), (False, 26, "Group [g] not exist.")],
)
def test_no_group_is_bound_to_a_parent_but_a_missing_one_is_created(
    core: CoreHarness, is_automatic: bool, code: int, remark: str
) -> None:
    core.state.properties = BrokerProperties(auto_create_subscription_group=is_automatic)
    refusal = core.run(lambda draft: refuse_group(draft, "g"))
    assert (refusal.response_code, str(refusal)) == (code, remark)
    assert ("g" in core.state.groups) is is_automatic


@pytest.mark.parametrize(
    ("topic", "late_ms", "count", "broker_permission", "code", "remark"),
    [
        ("none", 501, 33, 0, 210, "the broker[10.0.0.1] pop message is timeout too much"),
        ("none", 500, 33, 2, 16, "the broker[10.0.0.1] pop message is forbidden"),
        ("none", 0, 33, 6, 29, "the broker[10.0.0.1] pop message's num is greater than 32"),
        ("none", 0, 32, 6, 17, f"topic [none] not exist, apply first please! {FAQ}"),
        ("closed", 0, 1, 6, 16, "the topic [closed] peeking message is forbidden"),
        ("orders", 0, 1, 6, 29, "the topic [orders] message type not match"),
    ],
)
def test_a_pop_is_refused_by_the_first_row_that_fails(
    core: CoreHarness, topic: str, late_ms: int, count: int, broker_permission: int, code: int, remark: str
) -> None:
    core.topic()
    core.state.topics["closed"] = replace(core.topic(name="closed"), perm=2)
    core.state.properties = BrokerProperties(broker_permission=broker_permission)
    refusal = refuse_pop(core.state, topic, "10.0.0.1", late_ms, count)
    assert (refusal.response_code, str(refusal)) == (code, remark)
