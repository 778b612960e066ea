"""Pulls at both edges while topics, groups and offsets change: what is checked, told, committed and held, and what the
run after a hold finds (rocketmq-semantics 3.1 to 3.5 and, over them, 6.1).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rmqpull_broker.core.consumer_offsets import reset_offsets
from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.facts import QueuesTrimmed
from rmqpull_broker.core.groups import delete_group, put_group
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.topics import delete_topic, put_topic
from rmqpull_broker.server.handlers import pull_columns, pull_message, update_offset
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

if TYPE_CHECKING:
    from tests.broker.server.conftest import Edge

Pulled = tuple[str, str, int, list[int]]
QUEUE = MessageQueue("orders", "broker-a", 0)
LONG_MS = 60_000
ORDERS = TopicConfig("orders", 2, 2, creation_id="first")


class Scene:
    """A broker with the topic ``orders`` and the group ``readers``, and pulls of both protocols."""

    def __init__(self, edge: Edge) -> None:
        self.edge = edge
        self.state = edge.state

    async def run(self, command: Callable[[Draft], object]) -> None:
        await self.edge.group_commit.execute(command)

    async def send(self, *tags: str) -> None:
        """To queue 0 of broker-a, since the topic has but one writable queue."""
        messages = [Message(b"x", "id", tags=tag) for tag in tags]
        await self.run(lambda draft: self.edge.service.sender.send(draft, "orders", messages, 1_000))

    async def standard(self, offset: int, wait_ms: int = 0, group: str = "readers", **options: Any) -> Pulled:
        """Code, status message and next offset of a PullMessage, with the offsets of its messages."""
        queue = options.get("queue", QUEUE)
        request = rpc.PullMessageRequest(
            group=v2.Resource(name=group),
            message_queue=v2.MessageQueue(
                topic=v2.Resource(name=queue.topic), id=queue.queue_id, broker=v2.Broker(name=queue.broker_name)
            ),
            offset=offset,
            batch_size=32,
            filter_expression=v2.FilterExpression(expression=options.get("tags", "*")),
        )
        request.long_polling_timeout.FromMilliseconds(wait_ms)
        parts = [part async for part in pull_message.answer(self.edge.service, request, self.edge.caller())]
        status, found = parts[0].status, [part.message.system_properties.queue_offset for part in parts[1:-1]]
        return v2.Code.Name(status.code), status.message, parts[-1].next_offset, found

    async def columns(self, offset: int, wait_ms: int = 0, **fields: Any) -> list[tuple[Any, ...]]:
        """Status, rows and next offset of each queue of a PullColumns of ``orders``' queue 0."""
        request_fields: dict[str, Any] = {name: fields.pop(name) for name in ("suspend",) if name in fields}
        if "sql" in fields:
            expression = v2.FilterExpression(type=v2.FilterType.SQL, expression=fields.pop("sql"))
            request_fields["filter_expression"] = expression
        queue = v1.Queue(topic="orders", broker_name="broker-a", queue_id=0)
        request = v1.PullColumnsRequest(
            group="readers",
            queues=[v1.QueuePull(queue=queue, offset=offset, **fields)],
            long_polling_timeout_ms=wait_ms,
            **request_fields,
        )
        answer = await pull_columns.answer(self.edge.service, request, self.edge.caller())
        return [(v1.PullStatus.Name(q.pull_status), q.row_count, q.next_offset) for q in answer.response.queues]

    async def held(self, pull: Awaitable[Any]) -> asyncio.Task[Any]:
        """Starts a pull and returns when it is held."""
        task = asyncio.ensure_future(pull)
        before = len(self.edge.service.parking)
        while len(self.edge.service.parking) == before:
            assert not task.done(), task
            await asyncio.sleep(0)
        return task

    async def is_still_held(self, task: asyncio.Task[Any]) -> bool:
        for _ in range(10):
            await asyncio.sleep(0)
            await self.edge.group_commit.settled()
        return not task.done()

    @property
    def offsets(self) -> dict[Any, int]:
        return self.state.consumer_offsets


Story = Callable[[Scene], Awaitable[None]]
Perform = Callable[[Story], None]


@pytest.fixture
def perform(new_edge: type[Edge]) -> Perform:
    def on_scene(story: Story) -> None:
        async def plot() -> None:
            scene = Scene(new_edge())
            await scene.run(lambda draft: put_topic(draft, replace(ORDERS, write_queue_nums=1)))
            await scene.run(lambda draft: put_group(draft, GroupConfig("readers")))
            await story(scene)

        asyncio.run(plot())

    return on_scene


async def refusal(pull: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(BrokerError) as refused:
        await pull
    return refused.value.code, str(refused.value)


# --- permissions ------------------------------------------------------------------------------------------------------


def test_a_topic_that_may_not_be_read_is_forbidden_at_both_edges(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.run(lambda draft: put_topic(draft, replace(ORDERS, perm=2)))
        expected = ("FORBIDDEN", "the topic[orders] pulling message is forbidden")
        assert await refusal(scene.standard(0)) == await refusal(scene.columns(0)) == expected

    perform(story)


def test_a_group_that_may_not_consume_is_forbidden_at_both_edges(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.run(lambda draft: put_group(draft, GroupConfig("readers", consume_enable=False)))
        expected = ("FORBIDDEN", "subscription group no permission, readers")
        assert await refusal(scene.standard(0)) == await refusal(scene.columns(0)) == expected

    perform(story)


def test_a_broker_that_may_not_be_read_names_itself(new_edge: type[Edge]) -> None:
    async def story() -> None:
        scene = Scene(new_edge(properties=BrokerProperties(broker_permission=2)))
        expected = ("FORBIDDEN", "the broker[127.0.0.1] pulling message is forbidden")
        await scene.run(lambda draft: put_topic(draft, ORDERS))
        assert await refusal(scene.standard(0)) == await refusal(scene.columns(0)) == expected

    asyncio.run(story())


def test_a_group_that_may_not_be_created_is_missed(new_edge: type[Edge]) -> None:
    async def story() -> None:
        scene = Scene(new_edge(properties=BrokerProperties(auto_create_subscription_group=False)))
        code, message = await refusal(scene.standard(0))
        assert (code, message.split(",")[0]) == (
            "CONSUMER_GROUP_NOT_FOUND",
            "subscription group [readers] does not exist",
        )

    asyncio.run(story())


def test_a_queue_that_is_drained_is_read_and_one_beyond_is_not(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        assert (await scene.standard(0, queue=QUEUE._replace(queue_id=1)))[1] == "NO_MESSAGE_IN_QUEUE"
        await scene.run(lambda draft: put_topic(draft, replace(ORDERS, read_queue_nums=1)))
        code, message = await refusal(scene.standard(0, queue=QUEUE._replace(queue_id=1)))
        assert code == "BAD_REQUEST"
        assert message.startswith("queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[")

    perform(story)


# --- resets -----------------------------------------------------------------------------------------------------------


def test_a_reset_is_told_once_and_updates_are_ignored_until_then(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a", "b", "c")
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        update = rpc.UpdateOffsetRequest(
            group=v2.Resource(name="readers"), message_queue=v2.MessageQueue(topic=v2.Resource(name="orders")), offset=3
        )
        answer = await update_offset.answer(scene.edge.service, update, scene.edge.caller())
        assert (answer.status.code, answer.status.message) == (v2.Code.OK, "Offset has been previously reset")
        assert await scene.standard(2) == ("ILLEGAL_OFFSET", "OFFSET_RESET", 1, [])
        assert await scene.standard(2) == ("OK", "FOUND", 3, [2])
        answer = await update_offset.answer(scene.edge.service, update, scene.edge.caller())
        assert (answer.status.message, scene.offsets) == ("OK", {("readers", QUEUE): 3})

    perform(story)


def test_a_columnar_pull_is_told_by_queue_and_then_commits_its_own_offset(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a", "b", "c")
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await scene.columns(2, commit_offset=2) == [("OFFSET_RESET", 0, 1)]
        assert scene.offsets == {("readers", QUEUE): 2}
        assert await scene.columns(2) == [("FOUND", 1, 3)]

    perform(story)


def test_a_pull_whose_filter_matches_nothing_uses_a_reset_up_and_a_bad_filter_does_not(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a")
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert (await refusal(scene.standard(0, tags="||")))[0] == "ILLEGAL_FILTER_EXPRESSION"
        assert (await scene.standard(0, tags="z"))[1] == "OFFSET_RESET"
        assert (await scene.standard(0, tags="z"))[1] == "NO_MATCHED_MESSAGE"

    perform(story)


def test_a_held_pull_of_the_group_is_told_at_once(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.standard(0, LONG_MS))
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await held == ("ILLEGAL_OFFSET", "OFFSET_RESET", 1, [])

    perform(story)


def test_a_held_pull_of_another_group_is_not_told(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.standard(0, LONG_MS, group="others"))
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await scene.is_still_held(held)
        await scene.send("a")
        assert await held == ("OK", "FOUND", 1, [0])

    perform(story)


def test_a_reset_that_is_kept_together_with_a_pulls_commit_is_told_by_that_pull(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        pull = asyncio.ensure_future(scene.columns(0, LONG_MS, commit_offset=7))
        await asyncio.sleep(0)
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await pull == [("OFFSET_RESET", 0, 1)]
        assert scene.state.resets == {}

    perform(story)


@pytest.mark.parametrize(
    ("sql", "status"),
    [
        ("MSG_REGION = 'DefaultRegion' AND TRACE_ON = TRUE AND CLUSTER IS NOT NULL", "FOUND"),
        ("MSG_REGION = 'DefaultRegion' AND TAGS = 'a'", "FOUND"),
        ("CLUSTER = 'another'", "NO_MATCHED_MESSAGE"),
    ],
)
def test_what_every_message_has_is_seen_by_sql(perform: Perform, sql: str, status: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a")
        [(found, _, _)] = await scene.columns(0, sql=sql)
        assert found == status

    perform(story)


# --- commits with pulls -----------------------------------------------------------------------------------------------


def test_a_pull_that_is_held_has_committed_before_and_does_not_again(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.columns(0, LONG_MS, commit_offset=7))
        assert scene.offsets == {("readers", QUEUE): 7}
        scene.state.consumer_offsets.clear()
        await scene.send("a")
        assert await held == [("FOUND", 1, 1)]
        assert scene.offsets == {}

    perform(story)


@pytest.mark.parametrize(
    ("offset", "status"),
    [(0, "FOUND"), (9, "OFFSET_OVERFLOW_BADLY"), (-1, "OFFSET_TOO_SMALL"), (1, "OFFSET_OVERFLOW_ONE")],
)
def test_a_pull_commits_whatever_it_finds(perform: Perform, offset: int, status: str) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a")
        assert (await scene.columns(offset, commit_offset=7))[0][0] == status
        assert scene.offsets == {("readers", QUEUE): 7}

    perform(story)


# --- holding ----------------------------------------------------------------------------------------------------------


def test_a_columnar_pull_that_may_not_be_suspended_is_answered_at_once(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        assert await scene.columns(0, LONG_MS, suspend=False) == [("NO_MESSAGE_IN_QUEUE", 0, 0)]

    perform(story)


def test_a_columnar_pull_with_the_suspend_bit_and_no_time_is_held_until_the_next_check(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.columns(0, 0, suspend=True))
        scene.edge.clock.advance(4_999)
        assert await scene.is_still_held(held)
        scene.edge.clock.advance(1)
        assert await held == [("NO_MESSAGE_IN_QUEUE", 0, 0)]

    perform(story)


def test_a_foreign_tag_is_passed_over_at_the_next_check(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.standard(0, LONG_MS, tags="wanted"))
        await scene.send("foreign")
        assert await scene.is_still_held(held)
        scene.edge.clock.advance(5_000)
        assert await held == ("MESSAGE_NOT_FOUND", "NO_MATCHED_MESSAGE", 1, [])

    perform(story)


CHANGES: list[tuple[Callable[[Draft], object], Any]] = [
    (lambda draft: delete_topic(draft, "orders"), ("TOPIC_NOT_FOUND", "topic[orders] not exist, apply first please!")),
    (
        lambda draft: put_topic(draft, replace(ORDERS, perm=2)),
        ("FORBIDDEN", "the topic[orders] pulling message is forbidden"),
    ),
    (
        lambda draft: put_topic(draft, replace(ORDERS, read_queue_nums=1)),
        ("BAD_REQUEST", "queueId[1] is illegal, topic:[orders] topicConfig.readQueueNums:[1] consumer:[127.0.0.1]"),
    ),
]


@pytest.mark.parametrize(("change", "expected"), CHANGES)
def test_a_pull_that_was_held_is_checked_again(
    perform: Perform, change: Callable[[Draft], object], expected: Any
) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.standard(0, LONG_MS, queue=QUEUE._replace(queue_id=1)))
        await scene.run(change)
        code, message = await refusal(held)
        assert (code, message.split(" \n")[0]) == expected

    perform(story)


def test_a_columnar_pull_that_was_held_says_that_its_queue_is_gone(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.columns(0, LONG_MS))
        await scene.run(lambda draft: delete_topic(draft, "orders"))
        assert await held == [("NO_MATCHED_LOGIC_QUEUE", 0, 0)]

    perform(story)


def test_a_group_that_was_deleted_meanwhile_is_created_again(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        held = await scene.held(scene.standard(0, LONG_MS))
        await scene.run(lambda draft: delete_group(draft, "readers"))
        await scene.send("a")
        assert (await held)[1] == "FOUND"
        assert "readers" in scene.state.groups

    perform(story)


def test_a_pull_behind_the_min_offset_is_told_where_messages_begin(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a", "b", "c")
        scene.state.apply([QueuesTrimmed(((QUEUE, 2),))])
        assert await scene.standard(1) == ("ILLEGAL_OFFSET", "OFFSET_TOO_SMALL", 2, [])
        assert await scene.columns(1) == [("OFFSET_TOO_SMALL", 0, 2)]

    perform(story)


# --- the topic that is meant, and brokers -----------------------------------------------------------------------------


def test_a_topic_that_was_created_again_is_not_read_for_its_predecessor(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.send("a")
        assert await scene.columns(0, creation_id="first") == [("FOUND", 1, 1)]
        await scene.run(lambda draft: delete_topic(draft, "orders"))
        await scene.run(lambda draft: put_topic(draft, replace(ORDERS, write_queue_nums=1, creation_id="second")))
        await scene.send("b")
        assert await scene.columns(0, creation_id="first") == [("NO_MATCHED_LOGIC_QUEUE", 0, 0)]
        assert await scene.columns(0) == [("FOUND", 1, 1)]

    perform(story)


def test_a_pull_without_a_broker_goes_to_the_first_and_each_has_its_own_queues(new_edge: type[Edge]) -> None:
    async def story() -> None:
        scene = Scene(new_edge(broker_names=("broker-b", "broker-a")))
        await scene.run(lambda draft: put_topic(draft, TopicConfig("orders", 1, 1)))
        await scene.send("a")
        await scene.send("b")
        found = [
            await scene.standard(0, queue=MessageQueue("orders", name, 0)) for name in ("", "broker-a", "broker-b")
        ]
        assert found == [("OK", "FOUND", 1, [0])] * 3
        await scene.run(lambda draft: reset_offsets(draft, "readers", [(MessageQueue("orders", "broker-b", 0), 0)]))
        statuses = [(await scene.standard(0, queue=QUEUE._replace(broker_name=name)))[1] for name in ("", "broker-b")]
        assert statuses == ["FOUND", "OFFSET_RESET"]
        assert (await refusal(scene.standard(0, queue=QUEUE._replace(broker_name="broker-c"))))[0] == "BAD_REQUEST"

    asyncio.run(story())


def test_how_a_group_pulls_is_remembered(perform: Perform) -> None:
    async def story(scene: Scene) -> None:
        await scene.standard(0, tags="a || b")
        subscription = scene.edge.clients.consumers.find_subscription("readers", "orders")
        assert subscription is not None
        assert (subscription.tags, subscription.sub_version) == (frozenset({"a", "b"}), 1_000_000)
        await scene.columns(0, sql="a > 1")
        subscription = scene.edge.clients.consumers.find_subscription("readers", "orders")
        assert subscription is not None
        assert (subscription.expression_type, subscription.expression) == ("SQL92", "a > 1")

    perform(story)
