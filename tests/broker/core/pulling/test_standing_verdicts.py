"""A verdict stands until something changes that the checks would see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, MessageModel
from rmqpull_broker.core.clients.subscriptions import make_subscription_data
from rmqpull_broker.core.filters.message_filter import parse_tags
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_broker.core.pulling import standing_verdicts
from rmqpull_broker.core.pulling.request import RequestSource
from rmqpull_broker.core.pulling.standing_verdicts import KEY_CHARS_MAX, STANDING_MS_MAX, StandingVerdicts
from tests.harness.pull_checks import PullCheckHarness

Change = Callable[[PullCheckHarness], object]


def keep(broker: PullCheckHarness) -> StandingVerdicts:
    """Pulls once, as the broker does, and keeps the verdict under the key ``pull``."""
    verdicts = StandingVerdicts(broker.state, broker.registry)
    request = broker.request()
    verdict, _ = broker.pull(request)
    if verdict.compensation is not None:
        verdict.compensation.apply(broker.registry)
    verdicts.keep(("pull",), request, verdict, broker.now_ms)
    return verdicts


def send_heartbeat(version: int, expression: str, model: MessageModel = MessageModel.CLUSTERING) -> Change:
    def send(broker: PullCheckHarness) -> object:
        subscription = make_subscription_data("orders", "SQL92", expression, version)
        data = ConsumerData("readers", (subscription,), message_model=model)
        return broker.registry.register(data, ClientChannel("member", "client"), broker.now_ms)

    return send


def pull_otherwise(**fields: Any) -> Change:
    def pull(broker: PullCheckHarness) -> object:
        verdict, _ = broker.pull(broker.request(**fields))
        assert verdict.compensation is not None
        return verdict.compensation.apply(broker.registry)

    return pull


def set_reset(broker: PullCheckHarness) -> None:
    broker.state.resets["readers", broker.queue] = 3


def set_properties(broker: PullCheckHarness) -> None:
    broker.state.properties = replace(broker.state.properties, broker_permission=2)


def forget_group(broker: PullCheckHarness) -> None:
    broker.registry.expire(broker.now_ms + 3_600_000)


FROM_HEARTBEATS: dict[str, Any] = {"brings_subscription": False}
BROUGHT: dict[str, Any] = {"brings_subscription": True, "subscription": "red"}


@pytest.mark.parametrize("settings", [FROM_HEARTBEATS, BROUGHT])
def test_a_verdict_stands_while_nothing_changes(settings: dict[str, Any]) -> None:
    broker = PullCheckHarness(**settings)
    verdicts = keep(broker)
    send_heartbeat(7, "colour = 'red'")(broker)
    found = verdicts.find(("pull",), broker.now_ms + STANDING_MS_MAX - 1)
    assert found is not None
    assert (found.request, found.message_filter) == (broker.request(), parse_tags("red"))


@pytest.mark.parametrize(
    ("settings", "change"),
    [
        (BROUGHT, lambda broker: broker._run(lambda draft: put_topic(draft, TopicConfig("orders", 4, 8, perm=2)))),
        (BROUGHT, lambda broker: broker._run(lambda draft: delete_topic(draft, "orders"))),
        (BROUGHT, lambda broker: broker._run(lambda draft: put_group(draft, GroupConfig("readers", False)))),
        (BROUGHT, set_reset),
        (BROUGHT, set_properties),
        (BROUGHT, forget_group),
        (BROUGHT, pull_otherwise(subscription="blue")),
        (BROUGHT, pull_otherwise(request_source=RequestSource.PROXY_FOR_BROADCAST)),
        (FROM_HEARTBEATS, send_heartbeat(8, "colour = 'blue'")),
        (FROM_HEARTBEATS, send_heartbeat(8, "malformed")),
        (FROM_HEARTBEATS, send_heartbeat(7, "colour = 'red'", MessageModel.BROADCASTING)),
        (FROM_HEARTBEATS, lambda broker: broker.registry.channel_closed("member", broker.now_ms)),
    ],
)
def test_a_verdict_falls_with_a_change(settings: dict[str, Any], change: Change) -> None:
    broker = PullCheckHarness(**settings)
    verdicts = keep(broker)
    change(broker)
    assert verdicts.find(("pull",), broker.now_ms) is None
    assert len(verdicts) == 0


def test_a_verdict_falls_after_a_minute_so_that_the_registry_remembers_the_group() -> None:
    broker = PullCheckHarness()
    assert keep(broker).find(("pull",), broker.now_ms + STANDING_MS_MAX) is None


def test_verdicts_that_were_forgotten_are_made_again() -> None:
    broker = PullCheckHarness()
    verdicts = keep(broker)
    verdicts.forget()
    assert len(verdicts) == 0
    assert verdicts.find(("pull",), broker.now_ms) is None


@pytest.mark.parametrize("settings", [{"topic_exists": False}, {"reset_to": 3}, {"reject_pull_consumer": True}])
def test_a_verdict_on_one_pull_only_is_not_kept(settings: dict[str, Any]) -> None:
    broker = PullCheckHarness(**settings)
    assert keep(broker).find(("pull",), broker.now_ms) is None


def test_a_verdict_on_a_long_subscription_is_not_kept() -> None:
    broker = PullCheckHarness(**BROUGHT)
    verdicts = keep(broker)
    verdict, _ = broker.pull()
    verdicts.keep(("t" * KEY_CHARS_MAX, "x"), broker.request(), verdict, broker.now_ms)
    assert len(verdicts) == 1


def test_the_verdict_unused_for_longest_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(standing_verdicts, "VERDICTS_MAX", 2)
    broker = PullCheckHarness(**BROUGHT)
    verdicts = keep(broker)
    verdict, _ = broker.pull()
    verdicts.keep(("second",), broker.request(), verdict, broker.now_ms)
    verdicts.find(("pull",), broker.now_ms)
    verdicts.keep(("third",), broker.request(), verdict, broker.now_ms)
    assert [verdicts.find((key,), broker.now_ms) is not None for key in ("pull", "second", "third")] == [
        True,
        False,
        True,
    ]
