"""The offsets of a whole group on a topic."""

from __future__ import annotations

from functools import partial

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import InternalError, TopicNotFound
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.consumer_offsets import (
    NO_OFFSET,
    UnstoredOffset,
    keep_offsets,
    reset_offsets,
    set_offsets,
)
from rmqpull_broker.core.pulling.group_offsets import clone_offsets, find_corrections, plan_reset_of_members
from rmqpull_broker.core.state.draft import Draft
from tests.harness.core import CoreHarness
from tests.harness.steps import run_steps

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1))
ELSEWHERE = MessageQueue("orders", "broker-b", 0)


@pytest.fixture
def orders(core: CoreHarness) -> CoreHarness:
    """A topic with two messages in each of two queues, stored at 1,000 and 2,000 ms."""
    core.run(lambda draft: create_topic(draft, TopicConfig("orders", 2, 2, creation_id="id")))
    core.run(lambda draft: put_group(draft, GroupConfig("readers")))
    for now_ms in (1_000, 2_000):
        for _ in range(2):
            core.run(partial(core.sender.send, topic_name="orders", messages=[Message(b"x", "id")], now_ms=now_ms))
    return core


def commit(core: CoreHarness, group: str, **offsets: int) -> None:
    queues = {"first": FIRST, "second": SECOND, "elsewhere": ELSEWHERE}
    if group not in core.state.groups:
        core.run(lambda draft: put_group(draft, GroupConfig(group)))
    stored = core.state.consumer_offsets
    keys = {(group, queues[name]): offset for name, offset in offsets.items()}
    table = {key: UnstoredOffset(offset, stored.get(key, NO_OFFSET)) for key, offset in keys.items()}
    core.run(lambda draft: keep_offsets(draft, table))


def offsets_of(core: CoreHarness, group: str) -> dict[MessageQueue, int]:
    return {queue: offset for (name, queue), offset in core.state.consumer_offsets.items() if name == group}


@pytest.mark.parametrize(
    ("time_ms", "is_forced", "targets"),
    [(-1, True, [2, 2]), (-1, False, [1, 2]), (1_500, True, [1, 1]), (0, False, [0, 0]), (9_000, False, [1, 2])],
)
def test_members_are_told_a_time_as_offsets(
    orders: CoreHarness, time_ms: int, is_forced: bool, targets: list[int]
) -> None:
    commit(orders, "readers", first=1, second=2)
    planned = orders.run(
        lambda draft: plan_reset_of_members(draft, "readers", "orders", "broker-a", time_ms, is_forced=is_forced)
    )
    assert planned == dict(zip((FIRST, SECOND), targets, strict=True))


def test_a_group_without_an_offset_cannot_be_told(orders: CoreHarness) -> None:
    commit(orders, "readers", first=1)
    for topic, error in (("unknown", TopicNotFound), ("orders", InternalError)):
        with pytest.raises(error):
            orders.run(
                partial(
                    plan_reset_of_members,
                    group="readers",
                    topic_name=topic,
                    broker_name="broker-a",
                    timestamp_ms=0,
                    is_forced=True,
                )
            )


def test_a_clone_replaces_all_offsets_of_the_broker(orders: CoreHarness) -> None:
    commit(orders, "readers", first=1, elsewhere=7)
    commit(orders, "others", second=2, elsewhere=9)
    orders.run(lambda draft: clone_offsets(draft, "readers", "others", "orders", "broker-a"))
    assert offsets_of(orders, "others") == {FIRST: 1, ELSEWHERE: 9}
    assert offsets_of(orders, "readers") == {FIRST: 1, ELSEWHERE: 7}


@pytest.mark.parametrize(
    ("source", "target", "topic"),
    [("nobody", "readers", "orders"), ("readers", "readers", "orders"), ("readers", "others", "unknown")],
)
def test_a_clone_of_nothing_changes_nothing(orders: CoreHarness, source: str, target: str, topic: str) -> None:
    commit(orders, "readers", first=1)
    orders.run(lambda draft: clone_offsets(draft, source, target, topic, "broker-a"))
    assert list(orders.state.consumer_offsets) == [("readers", FIRST)]


def test_corrections_are_the_smallest_offsets_of_all_groups(orders: CoreHarness) -> None:
    commit(orders, "readers", first=1, second=1, elsewhere=5)
    commit(orders, "others", first=2, second=0)
    state = orders.state
    assert run_steps(find_corrections(state, "orders", "broker-a", "others", ())) == {0: 1, 1: 0}
    assert run_steps(find_corrections(state, "orders", "broker-a", "nobody", ("others",))) == {0: 1, 1: 1}
    commit(orders, "behind", first=-1)
    assert run_steps(find_corrections(state, "orders", "broker-b", "readers", ())) == {0: 5}
    assert run_steps(find_corrections(state, "unknown", "broker-a", "readers", ())) == {}


def test_offsets_that_may_not_be_set_any_more_are_left_out(orders: CoreHarness) -> None:
    orders.run(lambda draft: reset_offsets(draft, "readers", [(FIRST, 1)]))
    commit(orders, "readers", first=2, second=2)
    one = UnstoredOffset(1, NO_OFFSET)
    table = {("nobody", FIRST): one, ("readers", FIRST._replace(topic="unknown")): one}
    orders.run(lambda draft: keep_offsets(draft, table))
    assert orders.state.consumer_offsets == {("readers", FIRST): 1, ("readers", SECOND): 2}


def test_an_offset_that_was_set_meanwhile_stays(orders: CoreHarness) -> None:
    commit(orders, "readers", first=1)
    before = {("readers", FIRST): UnstoredOffset(2, NO_OFFSET)}
    orders.run(lambda draft: keep_offsets(draft, before))
    assert offsets_of(orders, "readers") == {FIRST: 1}

    def both(draft: Draft) -> None:
        set_offsets(draft, "readers", [(FIRST, 2)])
        draft.end_command()
        keep_offsets(draft, {("readers", FIRST): UnstoredOffset(0, 1)})

    orders.run(both)
    assert offsets_of(orders, "readers") == {FIRST: 2}
