"""Pulls in both protocols while topics, groups and offsets change: what is checked, reported and committed, and
what a parked pull finds when it runs again (rules 3.1 to 3.5, 6.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import delete_group, put_group
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuesTrimmed
from tests.harness.handlers import HandlerHarness, PullHandlerHarness, run_on_handlers

QUEUE = MessageQueue("orders", "broker-a", 0)
LONG_MS = 60_000
ORDERS = TopicConfig("orders", 2, 2, creation_id="first")


async def refusal(pull: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(BrokerError) as refused:
        await pull
    return refused.value.code, str(refused.value)


# --- permissions ------------------------------------------------------------------------------------------------------


def test_pulls_of_a_topic_without_read_permission_are_forbidden() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.run(lambda draft: put_topic(draft, replace(ORDERS, perm=2)))
        expected = ("FORBIDDEN", "the topic[orders] pulling message is forbidden")
        assert await refusal(broker.pull_messages(0)) == await refusal(broker.pull_columns(0)) == expected

    run_on_handlers(story)


def test_pulls_of_a_group_without_consume_permission_are_forbidden() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.run(lambda draft: put_group(draft, GroupConfig("readers", consume_enable=False)))
        expected = ("FORBIDDEN", "subscription group no permission, readers")
        assert await refusal(broker.pull_messages(0)) == await refusal(broker.pull_columns(0)) == expected

    run_on_handlers(story)


def test_a_broker_without_read_permission_is_named() -> None:
    async def story() -> None:
        broker = PullHandlerHarness(HandlerHarness(properties=BrokerProperties(broker_permission=2)))
        expected = ("FORBIDDEN", "the broker[127.0.0.1] pulling message is forbidden")
        await broker.run(lambda draft: put_topic(draft, ORDERS))
        assert await refusal(broker.pull_messages(0)) == await refusal(broker.pull_columns(0)) == expected

    asyncio.run(story())


def test_a_group_that_must_not_be_created_is_not_found() -> None:
    async def story() -> None:
        broker = PullHandlerHarness(HandlerHarness(properties=BrokerProperties(auto_create_subscription_group=False)))
        code, message = await refusal(broker.pull_messages(0))
        assert (code, message.split(",")[0]) == (
            "CONSUMER_GROUP_NOT_FOUND",
            "subscription group [readers] does not exist",
        )

    asyncio.run(story())


def test_a_queue_can_be_read_up_to_its_last_message_and_not_beyond() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        assert (await broker.pull_messages(0, queue=QUEUE._replace(queue_id=1)))[1] == "NO_MESSAGE_IN_QUEUE"
        await broker.run(lambda draft: put_topic(draft, replace(ORDERS, read_queue_nums=1)))
        code, message = await refusal(broker.pull_messages(0, queue=QUEUE._replace(queue_id=1)))
        assert code == "BAD_REQUEST"
        assert message.startswith("queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[")

    run_on_handlers(story)


# --- commits with pulls -----------------------------------------------------------------------------------------------


def test_a_parked_pull_sets_its_offset_before_it_parks_and_only_once() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_columns(0, LONG_MS, commit_offset=7))
        assert broker.offsets == {("readers", QUEUE): 7}
        broker.state.consumer_offsets.clear()
        await broker.send("a")
        assert await parked == [("FOUND", 1, 1)]
        assert broker.offsets == {}

    run_on_handlers(story)


@pytest.mark.parametrize(
    ("offset", "status"),
    [(0, "FOUND"), (9, "OFFSET_OVERFLOW_BADLY"), (-1, "OFFSET_TOO_SMALL"), (1, "OFFSET_OVERFLOW_ONE")],
)
def test_a_pull_sets_its_offset_with_any_result(offset: int, status: str) -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        assert (await broker.pull_columns(offset, commit_offset=7))[0][0] == status
        assert broker.offsets == {("readers", QUEUE): 7}

    run_on_handlers(story)


# --- parking ----------------------------------------------------------------------------------------------------------


def test_a_columnar_pull_that_must_not_park_is_answered_at_once() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        assert await broker.pull_columns(0, LONG_MS, suspend=False) == [("NO_MESSAGE_IN_QUEUE", 0, 0)]

    run_on_handlers(story)


def test_a_columnar_pull_with_the_suspend_bit_and_no_timeout_parks_until_the_next_check() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_columns(0, 0, suspend=True))
        broker.handlers.clock.advance(4_999)
        assert await broker.is_parked(parked)
        broker.handlers.clock.advance(1)
        assert await parked == [("NO_MESSAGE_IN_QUEUE", 0, 0)]

    run_on_handlers(story)


def test_another_tag_is_skipped_at_the_next_check() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_messages(0, LONG_MS, tags="wanted"))
        await broker.send("foreign")
        assert await broker.is_parked(parked)
        broker.handlers.clock.advance(5_000)
        assert await parked == ("MESSAGE_NOT_FOUND", "NO_MATCHED_MESSAGE", 1, [])

    run_on_handlers(story)


CHANGES: list[tuple[Callable[[Draft], object], Any]] = [
    (lambda draft: delete_topic(draft, "orders"), ("TOPIC_NOT_FOUND", "topic[orders] not exist, apply first please!")),
    (
        lambda draft: put_topic(draft, replace(ORDERS, perm=2)),
        ("FORBIDDEN", "the topic[orders] pulling message is forbidden"),
    ),
    (
        lambda draft: put_topic(draft, replace(ORDERS, read_queue_nums=1)),
        (
            "BAD_REQUEST",
            "queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[127.0.0.1:5555]",
        ),
    ),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_parked_pull_is_checked_again(change: Callable[[Draft], object], expected: Any) -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_messages(0, LONG_MS, queue=QUEUE._replace(queue_id=1)))
        await broker.run(change)
        code, message = await refusal(parked)
        assert (code, message.split(" \n")[0]) == expected

    run_on_handlers(story)


def test_a_parked_columnar_pull_reports_that_its_queue_was_deleted() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_columns(0, LONG_MS))
        await broker.run(lambda draft: delete_topic(draft, "orders"))
        assert await parked == [("NO_MATCHED_LOGIC_QUEUE", 0, 0)]

    run_on_handlers(story)


def test_a_group_that_was_deleted_meanwhile_is_created_again() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_messages(0, LONG_MS))
        await broker.run(lambda draft: delete_group(draft, "readers"))
        await broker.send("a")
        assert (await parked)[1] == "FOUND"
        assert "readers" in broker.state.groups

    run_on_handlers(story)


def test_a_pull_before_the_min_offset_gets_the_min_offset() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a", "b", "c")
        broker.state.apply([QueuesTrimmed(((QUEUE, 2),))])
        assert await broker.pull_messages(1) == ("ILLEGAL_OFFSET", "OFFSET_TOO_SMALL", 2, [])
        assert await broker.pull_columns(1) == [("OFFSET_TOO_SMALL", 0, 2)]

    run_on_handlers(story)


# --- creation ids and brokers -----------------------------------------------------------------------------------------


def test_a_topic_that_was_created_again_is_not_read_as_the_old_one() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        assert await broker.pull_columns(0, creation_id="first") == [("FOUND", 1, 1)]
        await broker.run(lambda draft: delete_topic(draft, "orders"))
        await broker.run(lambda draft: put_topic(draft, replace(ORDERS, write_queue_nums=1, creation_id="second")))
        await broker.send("b")
        assert await broker.pull_columns(0, creation_id="first") == [("NO_MATCHED_LOGIC_QUEUE", 0, 0)]
        assert await broker.pull_columns(0) == [("FOUND", 1, 1)]

    run_on_handlers(story)


def test_a_pull_without_a_broker_goes_to_the_first_and_each_has_its_own_queues() -> None:
    async def story() -> None:
        broker = PullHandlerHarness(HandlerHarness(broker_names=("broker-b", "broker-a")))
        await broker.run(lambda draft: put_topic(draft, TopicConfig("orders", 1, 1)))
        await broker.send("a")
        await broker.send("b")
        found = [
            await broker.pull_messages(0, queue=MessageQueue("orders", name, 0))
            for name in ("", "broker-a", "broker-b")
        ]
        assert found == [("OK", "FOUND", 1, [0])] * 3
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(MessageQueue("orders", "broker-b", 0), 0)]))
        statuses = [
            (await broker.pull_messages(0, queue=QUEUE._replace(broker_name=name)))[1] for name in ("", "broker-b")
        ]
        assert statuses == ["FOUND", "OFFSET_RESET"]
        assert (await refusal(broker.pull_messages(0, queue=QUEUE._replace(broker_name="broker-c"))))[
            0
        ] == "BAD_REQUEST"

    asyncio.run(story())


def test_the_subscription_of_a_pull_is_registered() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.pull_messages(0, tags="a || b")
        subscription = broker.handlers.clients.consumers.find_subscription("readers", "orders")
        assert subscription is not None
        assert (subscription.tags, subscription.sub_version) == (frozenset({"a", "b"}), 1_000_000)
        await broker.pull_columns(0, sql="a > 1")
        subscription = broker.handlers.clients.consumers.find_subscription("readers", "orders")
        assert subscription is not None
        assert (subscription.expression_type, subscription.expression) == ("SQL92", "a > 1")

    run_on_handlers(story)


# --- filters ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("MSG_REGION = 'DefaultRegion' AND TRACE_ON = TRUE AND CLUSTER IS NOT NULL", "FOUND"),
        ("MSG_REGION = 'DefaultRegion' AND TAGS = 'a'", "FOUND"),
        ("CLUSTER = 'another'", "NO_MATCHED_MESSAGE"),
    ],
)
def test_sql_filters_see_the_fields_of_every_message(sql: str, status: str) -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        [(found, _, _)] = await broker.pull_columns(0, sql=sql)
        assert found == status

    run_on_handlers(story)
