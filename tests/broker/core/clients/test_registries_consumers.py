"""Who consumes, as stories (rules 3.6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from rmqpull_broker.core.clients import members, registries
from rmqpull_broker.core.clients.members import (
    ClientChannel,
    ConsumeFromWhere,
    ConsumerData,
    ConsumerIdsChanged,
    ConsumeType,
    MessageModel,
)
from rmqpull_broker.core.clients.registries import ConsumerRegistry
from rmqpull_broker.core.clients.subscriptions import FilterTable, SubscriptionData
from rmqpull_broker.core.errors import InternalError, TooManyRequests
from rmqpull_broker.core.filters.message_filter import NOTHING, SQL92

ANN, BOB, EVE = (ClientChannel(f"connection of {name}", name) for name in ("ann", "bob", "eve"))
BROADCASTING, CLUSTERING = MessageModel.BROADCASTING, MessageModel.CLUSTERING


def consumer(
    *topics: str, version: int = 1, group: str = "readers", message_model: MessageModel = CLUSTERING
) -> ConsumerData:
    subscriptions = tuple(SubscriptionData(topic, "*", version) for topic in topics)
    return ConsumerData(group, subscriptions, message_model=message_model)


def changed(*members: ClientChannel, group: str = "readers") -> ConsumerIdsChanged:
    return ConsumerIdsChanged(group, members)


@pytest.fixture
def registry() -> ConsumerRegistry:
    return ConsumerRegistry()


# --- registration and notifications ---------------------------------------------------------------------------------


def test_every_member_is_notified_of_a_new_one_and_of_nothing_else(registry: ConsumerRegistry) -> None:
    assert registry.register(consumer("orders"), ANN, 0) == changed(ANN)
    assert registry.register(consumer("orders"), BOB, 1) == changed(ANN, BOB)
    assert registry.register(consumer("orders"), ANN, 2) is None
    assert registry.list_client_ids("readers", "broker-a") == ["ann", "bob"]


def test_another_client_on_the_same_connection_is_told_to_nobody(registry: ConsumerRegistry) -> None:
    registry.register(consumer("orders"), ANN, 0)
    assert registry.register(consumer("orders"), ClientChannel(ANN.channel_id, "eve"), 1) is None
    assert registry.list_client_ids("readers", "broker-a") == ["eve"]


@pytest.mark.parametrize(
    ("before", "after", "version", "is_told"),
    [
        (["orders"], ["orders", "clicks"], 1, True),
        (["orders", "clicks"], ["orders"], 1, True),
        (["orders"], ["clicks"], 0, True),
        (["orders"], ["orders"], 2, False),
        (["orders"], ["orders"], 0, False),
        ([], [], 2, False),
    ],
)
def test_added_and_removed_topics_notify_members_and_newer_versions_do_not(
    registry: ConsumerRegistry, before: list[str], after: list[str], version: int, is_told: bool
) -> None:
    registry.register(consumer(*before), ANN, 0)
    change = registry.register(consumer(*after, version=version), ANN, 1)
    assert change == (changed(ANN) if is_told else None)
    info = registry.find_consumer_group("readers")
    assert info is not None
    assert sorted(info.subscriptions) == sorted(after)


@pytest.mark.parametrize(("version", "kept"), [(0, 1), (1, 1), (2, 2)])
def test_only_a_newer_version_replaces_a_subscription(registry: ConsumerRegistry, version: int, kept: int) -> None:
    registry.register(consumer("orders"), ANN, 0)
    registry.register(consumer("orders", version=version), BOB, 1)
    subscription = registry.find_subscription("readers", "orders")
    assert subscription is not None
    assert subscription.sub_version == kept


@pytest.mark.parametrize(
    ("broker_notifies", "group_notifies", "message_model", "is_told"),
    [
        (True, True, CLUSTERING, True),
        (False, True, CLUSTERING, False),
        (True, False, CLUSTERING, False),
        (True, True, BROADCASTING, False),
    ],
)
def test_switches_and_broadcasting_keep_changes_quiet(
    broker_notifies: bool, group_notifies: bool, message_model: MessageModel, is_told: bool
) -> None:
    registry = ConsumerRegistry(notify_consumer_ids_changed=broker_notifies)
    registered = consumer("orders", message_model=message_model)
    told = [registry.register(registered, member, 0, notify=group_notifies) for member in (ANN, BOB)]
    told.append(registry.unregister("readers", ANN.channel_id, 1, notify=group_notifies))
    assert [change is not None for change in told] == [is_told] * 3


def test_the_newest_heartbeat_describes_the_whole_group(registry: ConsumerRegistry) -> None:
    registry.register(consumer("orders"), ANN, 0)
    newest = ConsumerData("readers", (), ConsumeType.ACTIVELY, BROADCASTING, ConsumeFromWhere.TIMESTAMP)
    registry.register(newest, BOB, 1)
    info = registry.find_consumer_group("readers")
    assert info is not None
    described = info.consume_type, info.message_model, info.consume_from_where
    assert described == (ConsumeType.ACTIVELY, BROADCASTING, ConsumeFromWhere.TIMESTAMP)


def test_a_heartbeat_without_subscriptions_leaves_those_of_the_group(registry: ConsumerRegistry) -> None:
    registry.register(consumer("orders"), ANN, 0)
    assert registry.register(consumer(), ANN, 1, without_sub=True) is None
    assert registry.register(consumer(), BOB, 2, without_sub=True) == changed(ANN, BOB)
    assert registry.find_subscription("readers", "orders") is not None


# --- what pulls read ------------------------------------------------------------------------------------------------


def test_a_pull_finds_the_groups_subscription_and_filter() -> None:
    registry = ConsumerRegistry(filters=FilterTable(lambda *_: NOTHING))
    wanted = SubscriptionData("orders", "a = 1", 5, SQL92)
    registry.register(ConsumerData("readers", (wanted,)), ANN, 0)
    info = registry.find_consumer_group("readers")
    assert info is not None
    assert info.subscription("orders") == wanted
    assert info.subscription("clicks") is None
    data = info.find_filter("orders")
    assert data is not None
    assert (data.compiled, data.expression, data.client_version) == (NOTHING, "a = 1", 5)
    assert info.find_filter("clicks") is None


def test_a_group_without_members_is_not_found(registry: ConsumerRegistry) -> None:
    assert registry.find_consumer_group("readers") is None
    assert registry.list_consumer_groups() == []
    with pytest.raises(InternalError, match=r"^no consumer for this group, readers$"):
        registry.list_client_ids("readers", "broker-a")


# --- leaving ----------------------------------------------------------------------------------------------------------


def test_the_remaining_members_are_notified_of_one_that_leaves(registry: ConsumerRegistry) -> None:
    for member in (ANN, BOB, EVE):
        registry.register(consumer("orders"), member, 0)
    assert registry.unregister("readers", BOB.channel_id, 1) == changed(ANN, EVE)
    assert registry.unregister("readers", BOB.channel_id, 2) == changed(ANN, EVE)  # it was not there any more
    assert registry.unregister("readers", ANN.channel_id, 3) == changed(EVE)
    assert registry.unregister("readers", EVE.channel_id, 4) is None  # no member is left to notify
    assert registry.unregister("readers", EVE.channel_id, 5) is None
    assert registry.find_consumer_group("readers") is None


def test_a_closed_connection_leaves_all_of_its_groups(registry: ConsumerRegistry) -> None:
    for group in ("readers", "others", "alone"):
        registry.register(consumer("orders", group=group), ANN, 0)
    for group in ("readers", "others", "foreign"):
        registry.register(consumer("orders", group=group), BOB, 0)
    assert registry.channel_closed(ANN.channel_id, 1) == [changed(BOB), changed(BOB, group="others")]
    assert [info.group for info in registry.list_consumer_groups()] == ["foreign", "others", "readers"]
    assert registry.channel_closed(ANN.channel_id, 2) == []


def test_a_group_without_members_keeps_its_filters_for_a_while() -> None:
    filters = FilterTable(lambda *_: NOTHING)
    registry = ConsumerRegistry(filters=filters)
    registry.register(ConsumerData("readers", (SubscriptionData("orders", "a", 1, SQL92),)), ANN, 0)
    registry.unregister("readers", ANN.channel_id, 700)
    data = filters.get("readers", "orders")
    assert data is not None
    assert data.dead_since_ms == 700


@pytest.mark.parametrize(
    ("now_ms", "expired", "left"),
    [(120_000, [], ["ann", "bob"]), (120_001, ["ann"], ["bob"]), (125_001, ["ann", "bob"], None)],
)
def test_who_is_silent_for_two_minutes_is_removed(
    registry: ConsumerRegistry, now_ms: int, expired: list[str], left: list[str] | None
) -> None:
    for group in ("readers", "others"):
        registry.register(consumer("orders", group=group), ANN, 0)
    registry.register(consumer("orders"), BOB, 5_000)
    assert [channel.client_id for channel in registry.expire(now_ms)] == expired
    info = registry.find_consumer_group("readers")
    assert (None if info is None else [channel.client_id for channel in info.channels]) == left


def test_a_heartbeat_keeps_a_member(registry: ConsumerRegistry) -> None:
    registry.register(consumer("orders"), ANN, 0)
    registry.register(consumer(), ANN, 100_000, without_sub=True)
    assert registry.expire(220_000) == []


# --- limits -----------------------------------------------------------------------------------------------------------


def test_a_registry_has_a_limit_and_leaving_makes_room(
    registry: ConsumerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registries, "REGISTRATIONS_MAX", 2)
    registry.register(consumer("orders"), ANN, 0)
    registry.register(consumer("orders", group="others"), ANN, 0)
    with pytest.raises(TooManyRequests, match="2 consumers"):
        registry.register(consumer("orders", group="third"), BOB, 0)
    assert registry.find_consumer_group("third") is None
    assert registry.register(consumer("orders"), ANN, 1) is None
    registry.expire(members.CHANNEL_EXPIRED_TIMEOUT_MS + 1)
    assert registry.register(consumer("orders", group="third"), BOB, 130_000) == changed(BOB, group="third")


# --- what pulls tell ----------------------------------------------------------------------------------------------


def topics_of(registry: ConsumerRegistry, topics: Iterable[str]) -> list[str]:
    return [topic for topic in topics if registry.find_subscription("readers", topic) is not None]


def test_a_pull_is_no_heartbeat(registry: ConsumerRegistry) -> None:
    registry.compensate("readers")
    registry.compensate_subscription("readers", SubscriptionData("orders", "red", 5))
    assert registry.find_consumer_group("readers") is None
    with pytest.raises(InternalError):
        registry.list_client_ids("readers", "broker-a")
    info = registry.find_compensated_group("readers")
    assert info is not None
    assert (info.consume_type, info.message_model) == (ConsumeType.PASSIVELY, CLUSTERING)


def test_a_heartbeats_word_counts_more_than_a_pulls(registry: ConsumerRegistry) -> None:
    for topic in ("orders", "clicks"):
        registry.compensate_subscription("readers", SubscriptionData(topic, "red", 5))
    registry.register(consumer("orders", version=1), ANN, 0)
    found = [registry.find_subscription("readers", topic) for topic in ("orders", "clicks", "others")]
    assert [subscription and subscription.expression for subscription in found] == ["*", "red", None]


def test_subscriptions_of_pulls_are_kept_for_ten_minutes(registry: ConsumerRegistry) -> None:
    registry.compensate_subscription("readers", SubscriptionData("orders", "*", 1_000))
    registry.compensate_subscription("readers", SubscriptionData("clicks", "*", 2_000))
    registry.expire(601_000)
    assert topics_of(registry, ["orders", "clicks"]) == ["orders", "clicks"]
    registry.expire(601_001)
    assert topics_of(registry, ["orders", "clicks"]) == ["clicks"]
    registry.expire(602_001)
    assert registry.find_compensated_group("readers") is None


def test_a_pull_makes_its_group_forget_what_is_old(registry: ConsumerRegistry) -> None:
    registry.compensate_subscription("readers", SubscriptionData("orders", "*", 1_000))
    registry.compensate_subscription("readers", SubscriptionData("clicks", "*", 601_001))
    assert topics_of(registry, ["orders", "clicks"]) == ["clicks"]


def test_a_registry_is_empty_when_nothing_is_left_to_expire() -> None:
    registry = ConsumerRegistry(filters=FilterTable(lambda *_: NOTHING))
    wanted = SubscriptionData("orders", "a", 1, SQL92)
    steps: list[tuple[Callable[[], object], bool]] = [
        (lambda: registry.compensate("only pulls"), True),
        (lambda: registry.compensate_subscription("readers", SubscriptionData("orders", "*", 0)), False),
        (lambda: registry.expire(600_001), True),
        (lambda: registry.register(ConsumerData("readers", (wanted,)), ANN, 700_000), False),
        (lambda: registry.expire(800_000), False),
        (lambda: registry.unregister("readers", ANN.channel_id, 800_000), False),  # its filter is remembered
        (lambda: registry.expire(800_000 + 86_400_000), True),
    ]
    for step, is_empty in steps:
        step()
        assert registry.is_empty is is_empty


def test_a_newer_pull_changes_how_its_group_consumes(registry: ConsumerRegistry) -> None:
    registry.compensate("readers")
    registry.compensate("readers", ConsumeType.ACTIVELY, BROADCASTING)
    info = registry.find_compensated_group("readers")
    assert info is not None
    assert (info.consume_type, info.message_model) == (ConsumeType.ACTIVELY, BROADCASTING)
    registry.expire(10**9)
    assert registry.find_compensated_group("readers") is info


def test_subscriptions_of_pulls_have_limits(registry: ConsumerRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registries, "COMPENSATED_GROUPS_MAX", 1)
    monkeypatch.setattr(registries, "COMPENSATED_TOPICS_MAX", 2)
    registry.compensate("others")
    for topic in ("a", "b", "c"):
        registry.compensate_subscription("readers", SubscriptionData(topic, "*", 0))
    assert registry.find_compensated_group("others") is None
    assert topics_of(registry, ["a", "b", "c"]) == ["b", "c"]


def test_a_client_is_a_member_on_the_brokers_that_it_is_connected_to(registry: ConsumerRegistry) -> None:
    on_a, on_b = (ClientChannel(f"to {name}", "eve", broker_name=name) for name in ("broker-a", "broker-b"))
    for channel in (on_a, on_b, ANN):
        registry.register(consumer("orders"), channel, 0)
    for name, channel in (("broker-a", on_a), ("broker-b", on_b)):
        assert sorted(registry.list_client_ids("readers", name)) == ["ann", "eve"]
        assert registry.find_member("readers", "eve", name) == channel
        assert registry.find_member("readers", "ann", name) == ANN
        assert registry.find_member("readers", "bob", name) is None
    registry.unregister("readers", ANN.channel_id, 1)
    registry.unregister("readers", on_a.channel_id, 1)
    with pytest.raises(InternalError):
        registry.list_client_ids("readers", "broker-a")
