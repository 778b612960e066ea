"""Subscription groups (rules 3.9.4, 6.1)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.groups import (
    RETRY_QUEUES_MAX,
    delete_group,
    ensure_group,
    find_or_create_group,
    put_group,
)
from rmqpull_broker.core.errors import BadRequest, ConsumerGroupNotFound, IllegalConsumerGroup
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import set_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupPut
from tests.harness.core import CoreHarness


def test_a_group_is_created_with_rocketmqs_defaults_when_it_is_first_used(core: CoreHarness) -> None:
    core.run(lambda draft: ensure_group(draft, "readers"))
    assert core.state.require_group("readers") == GroupConfig("readers")
    group = core.state.require_group("readers")
    assert (group.consume_enable, group.consume_broadcast_enable, group.consume_message_orderly) == (True, True, False)
    assert (group.retry_queue_nums, group.retry_max_times, group.notify_consumer_ids_changed_enable) == (1, 16, True)


@pytest.mark.parametrize(
    ("automatic", "name", "is_created"),
    [
        (True, "readers", True),
        (True, "", False),
        (True, "g" * 120, True),
        (True, "g" * 121, False),
        (True, "a b", False),
        (False, "readers", False),
        (False, "CID_RMQ_SYS_TRANS", True),
    ],
)
def test_a_broker_creates_a_missing_group_when_it_may(
    core: CoreHarness, automatic: bool, name: str, is_created: bool
) -> None:
    core.state.properties = BrokerProperties(auto_create_subscription_group=automatic)
    group = core.run(lambda draft: find_or_create_group(draft, name))
    assert group == (GroupConfig(name) if is_created else None)
    assert (name in core.state.groups) is is_created


def test_an_existing_group_is_found_whatever_may_be_created(core: CoreHarness) -> None:
    core.state.apply([GroupPut(GroupConfig("a b"))])
    core.state.properties = BrokerProperties(auto_create_subscription_group=False)
    assert core.run(lambda draft: find_or_create_group(draft, "a b")) == GroupConfig("a b")


def test_a_client_may_use_fewer_names_than_a_broker(core: CoreHarness) -> None:
    for name in ("", "g" * 121, "CID_RMQ_SYS_TRANS"):
        with pytest.raises(IllegalConsumerGroup):
            ensure_group(Draft(core.state), name)
    core.state.properties = BrokerProperties(auto_create_subscription_group=False)
    with pytest.raises(ConsumerGroupNotFound, match="readers"):
        core.run(lambda draft: ensure_group(draft, "readers"))


def test_a_group_is_changed_as_a_whole_and_an_unchanged_one_is_no_fact(core: CoreHarness) -> None:
    changed = GroupConfig("readers", consume_enable=False, retry_max_times=-1, retry_queue_nums=0)
    draft = Draft(core.state)
    for group in (GroupConfig("readers"), changed, changed):
        put_group(draft, group)
        draft.end_command()
    assert draft.fact_batches == [[GroupPut(GroupConfig("readers"))], [GroupPut(changed)]]


@pytest.mark.parametrize(
    "group",
    [
        GroupConfig("readers", retry_queue_nums=-1),
        GroupConfig("readers", retry_queue_nums=RETRY_QUEUES_MAX + 1),
        GroupConfig("readers", retry_max_times=-2),
    ],
)
def test_a_group_with_senseless_numbers_is_refused(core: CoreHarness, group: GroupConfig) -> None:
    with pytest.raises(BadRequest, match=r"^group readers "):
        core.run(lambda draft: put_group(draft, group))


@pytest.mark.parametrize("name", ["", "a b", "a\nb", "\x1b[31m", "a\x7f", "a\x85", "g" * 121])
def test_an_administrator_may_not_create_a_group_of_an_illegal_name(core: CoreHarness, name: str) -> None:
    with pytest.raises(IllegalConsumerGroup):
        core.run(lambda draft: put_group(draft, GroupConfig(name)))


def test_an_administrator_may_create_a_group_of_the_system(core: CoreHarness) -> None:
    core.run(lambda draft: put_group(draft, GroupConfig("CID_RMQ_SYS_x")))
    assert "CID_RMQ_SYS_x" in core.state.groups


def test_a_deleted_group_loses_its_offsets_also_for_a_new_group_of_that_name(core: CoreHarness) -> None:
    core.topic()
    core.fill([b"a", b"b"])
    core.run(lambda draft: set_offsets(draft, "readers", [(core.queue(), 2)]))
    core.run(lambda draft: set_offsets(draft, "others", [(core.queue(), 1)]))
    core.run(lambda draft: delete_group(draft, "readers"))
    assert list(core.state.groups) == ["others"]
    core.run(lambda draft: ensure_group(draft, "readers"))
    assert core.state.find_consumer_offset("readers", core.queue()) == 0
    assert core.state.find_consumer_offset("others", core.queue()) == 1


def test_a_group_that_is_not_there_cannot_be_deleted(core: CoreHarness) -> None:
    with pytest.raises(ConsumerGroupNotFound, match=r"^Group readers not exist!$"):
        core.run(lambda draft: delete_group(draft, "readers"))
