"""HEART_BEAT (rules 3.7)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.clients import heartbeats
from rmqpull_broker.core.clients.heartbeats import Heartbeat, HeartbeatAnswer, Heartbeats, draft_groups
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumerIdsChanged
from rmqpull_broker.core.clients.registries import ConsumerRegistry, ProducerRegistry
from rmqpull_broker.core.clients.subscriptions import SubscriptionData
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from tests.harness.core import CoreHarness

ANN, BOB = (ClientChannel(f"connection of {name}", name) for name in ("ann", "bob"))
ORDERS = SubscriptionData("orders", "*", 1)


def names(groups: list[GroupConfig]) -> list[str]:
    return [group.name for group in groups]


def test_a_heartbeat_creates_its_group_and_retry_topic_once(core: CoreHarness) -> None:
    ids = iter(["first id", "second id"])
    for _ in range(2):
        assert names(core.run(lambda draft: draft_groups(draft, ["readers"], lambda: next(ids)))) == ["readers"]
    assert core.state.groups == {"readers": GroupConfig("readers")}
    assert core.state.topics["%RETRY%readers"] == TopicConfig("%RETRY%readers", 1, 1, creation_id="first id", perm=6)
    assert next(ids) == "second id"


def test_a_retry_topic_has_as_many_queues_as_its_group_wants(core: CoreHarness) -> None:
    core.run(lambda draft: put_group(draft, GroupConfig("readers", retry_queue_nums=3)))
    core.run(lambda draft: draft_groups(draft, ["readers"], lambda: "id"))
    topic = core.state.topics["%RETRY%readers"]
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (3, 3, 6)


def test_a_group_that_cannot_be_is_skipped_and_the_others_go_on(core: CoreHarness) -> None:
    found = core.run(lambda draft: draft_groups(draft, ["a.b", "readers", "x" * 121, "", "others"], lambda: "id"))
    assert names(found) == ["readers", "others"]


def test_without_automatic_creation_only_known_groups_are_registered(core: CoreHarness) -> None:
    core.run(lambda draft: put_group(draft, GroupConfig("known")))
    core.state.properties = BrokerProperties(auto_create_subscription_group=False)
    assert names(core.run(lambda draft: draft_groups(draft, ["known", "unknown"], lambda: "id"))) == ["known"]
    assert list(core.state.groups) == ["known"]
    assert list(core.state.topics) == ["%RETRY%known"]


class Office:
    """Takes heartbeats in, with groups as they are configured."""

    def __init__(self) -> None:
        self.consumers, self.producers = ConsumerRegistry(), ProducerRegistry()
        self._heartbeats = Heartbeats(self.consumers, self.producers)

    def take(self, heartbeat: Heartbeat, *groups: GroupConfig) -> HeartbeatAnswer:
        return self._heartbeats.take(heartbeat, groups or [GroupConfig("readers")], 0)

    def beat(self, fingerprint: int, *, without_sub: bool = False, channel: ClientChannel = ANN) -> HeartbeatAnswer:
        readers = ConsumerData("readers", () if without_sub else (ORDERS,))
        return self.take(Heartbeat(channel, (readers,), fingerprint=fingerprint, without_sub=without_sub))

    def topics(self) -> list[str]:
        info = self.consumers.find_consumer_group("readers")
        return [] if info is None else list(info.subscriptions)


@pytest.fixture
def office() -> Office:
    return Office()


def test_a_client_is_registered_as_all_that_it_says(office: Office) -> None:
    readers, others = ConsumerData("readers", (ORDERS,)), ConsumerData("others", (ORDERS,))
    heartbeat = Heartbeat(ANN, (readers, others), producer_groups=("orders", "clicks"))
    answer = office.take(heartbeat, GroupConfig("readers"), GroupConfig("others"))
    changes = ConsumerIdsChanged("readers", (ANN,)), ConsumerIdsChanged("others", (ANN,))
    assert answer == HeartbeatAnswer(is_sub_change=True, changes=changes)
    assert office.producers.groups() == ["clicks", "orders"]


def test_a_group_that_was_not_found_is_not_registered(office: Office) -> None:
    heartbeat = Heartbeat(ANN, (ConsumerData("unknown"), ConsumerData("readers")))
    assert [change.group for change in office.take(heartbeat).changes] == ["readers"]
    assert [info.group for info in office.consumers.list_consumer_groups()] == ["readers"]


def test_a_group_may_turn_notifications_off(office: Office) -> None:
    quiet = GroupConfig("readers", notify_consumer_ids_changed_enable=False)
    assert office.take(Heartbeat(ANN, (ConsumerData("readers"),)), quiet).changes == ()


@pytest.mark.parametrize(
    ("fingerprints", "is_sub_change"),
    [
        ([0], [True]),
        ([0, 0], [True, True]),
        ([5], [False]),
        ([5, 5], [False, False]),
        ([5, 6, 6], [False, True, False]),
        ([0, 5, 5], [True, True, False]),
        ([5, 0, 5], [False, True, True]),
    ],
)
def test_a_changed_fingerprint_asks_for_the_full_data(
    office: Office, fingerprints: list[int], is_sub_change: list[bool]
) -> None:
    assert [office.beat(fingerprint).is_sub_change for fingerprint in fingerprints] == is_sub_change


def test_the_groups_last_fingerprint_may_be_anothers(office: Office) -> None:
    office.beat(5, channel=ANN)
    assert office.beat(6, channel=BOB).is_sub_change
    assert office.beat(5, channel=ANN, without_sub=True).is_sub_change


def test_version_2_may_leave_subscriptions_out(office: Office) -> None:
    office.beat(5)
    office.beat(5, without_sub=True)
    assert office.topics() == ["orders"]


def test_version_1_may_not(office: Office) -> None:
    office.beat(0)
    office.beat(0, without_sub=True)
    assert office.topics() == []


def test_fingerprints_have_a_limit(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "FINGERPRINTS_MAX", 1)
    office.beat(5)
    office.take(Heartbeat(ANN, (ConsumerData("others"),), fingerprint=5))
    assert not office.beat(6).is_sub_change  # the group's first fingerprint, as far as anybody remembers
