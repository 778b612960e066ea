"""What happens while receives wait and messages are in flight: callers leave, topics and groups are deleted."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import grpc
import pytest

from rmqpull_broker.core.admin.groups import delete_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import until

ORDERS, GROUP = v2.Resource(name="orders"), v2.Resource(name="readers")


def make_receive(count: int = 32) -> Any:
    request = service.ReceiveMessageRequest(
        group=GROUP,
        message_queue=v2.MessageQueue(topic=ORDERS),
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
        batch_size=count,
    )
    request.invisible_duration.FromSeconds(30)
    request.long_polling_timeout.FromSeconds(20)
    return request


def make_ack(*messages: v2.Message) -> Any:
    entries = [
        service.AckMessageEntry(message_id="m", receipt_handle=message.system_properties.receipt_handle)
        for message in messages
    ]
    return service.AckMessageRequest(group=GROUP, topic=ORDERS, entries=entries)


def register(server: ServerHarness) -> None:
    channel = ClientChannel("tester", "tester", "PYTHON", "5.1.2")
    profile = ClientProfile(channel, "SIMPLE_CONSUMER", consumer=ConsumerData("readers", (), ConsumeType.ACTIVELY))
    server.app.clients.introduce(profile, [GroupConfig("readers")])


async def send(server: ServerHarness, *bodies: bytes) -> None:
    for body in bodies:
        message = v2.Message(topic=ORDERS, body=body, system_properties=v2.SystemProperties(message_id="m"))
        assert await server.code(service.SendMessageRequest(messages=[message])) == "OK"


async def await_waiting(server: ServerHarness, receives: int) -> None:
    await until(lambda: server.app._popping.waiting_count == receives, f"{receives} receives wait")


def list_messages(parts: list[Any]) -> list[v2.Message]:
    return [part.message for part in parts if part.HasField("message")]


@pytest.mark.parametrize("seed", range(8))
def test_no_message_is_lost_when_callers_leave_at_any_moment(seed: int) -> None:
    async def story(server: ServerHarness) -> None:
        register(server)
        dice = random.Random(seed)
        sent = [b"%d" % number for number in range(60)]
        got: list[bytes] = []

        async def consume() -> None:
            call = server.call(make_receive(dice.randint(1, 4)))
            for _ in range(dice.randrange(12)):
                await asyncio.sleep(0)
            if dice.random() < 0.5:
                call.cancel()
            try:
                messages = list_messages(await call)
            except (asyncio.CancelledError, grpc.aio.AioRpcError):
                return
            got.extend(message.body for message in messages)
            if messages:
                assert await server.code(make_ack(*messages)) == "OK"

        async def produce() -> None:
            for body in sent:
                await send(server, body)

        consumers = [asyncio.ensure_future(consume()) for _ in range(40)]
        await produce()
        await server.app.clock_mover.advance(20_000)
        await asyncio.gather(*consumers)
        await until(lambda: not server.app._popping.waiting_count, "no receive waits")
        for _ in range(40):  # what was on its way to callers that left comes again
            await server.app.clock_mover.advance(30_000)
            if len(set(got)) == len(sent):
                break
            messages = list_messages(await server.call(make_receive()))
            got.extend(message.body for message in messages)
            await server.code(make_ack(*messages))
        assert sorted(got) == sorted(sent)
        assert len(server.app.state.popped) == 0

    run_on_server(story)


def test_a_topic_that_is_deleted_ends_what_is_in_flight_and_the_receives_that_wait() -> None:
    async def story(server: ServerHarness) -> None:
        register(server)
        await send(server, b"a", b"b")
        messages = list_messages(await server.call(make_receive()))
        waiting = server.call(make_receive())
        await await_waiting(server, 1)
        await server.app.group_commit.execute(lambda draft: delete_topic(draft, "orders"))
        assert v2.Code.Name((await waiting)[0].status.code) == "TOPIC_NOT_FOUND"
        assert len(server.app.state.popped) == 0
        assert await server.code(make_ack(*messages)) == "OK"
        topic = TopicConfig("orders", 1, 1, creation_id="second")
        await server.app.group_commit.execute(lambda draft: create_topic(draft, topic))
        await send(server, b"new")
        await server.app.clock_mover.advance(30_000)
        assert [message.body for message in list_messages(await server.call(make_receive()))] == [b"new"]
        assert await server.code(make_ack(*messages)) == "INVALID_RECEIPT_HANDLE"  # its time is over
        assert len(server.app.state.popped) == 1

    run_on_server(story)


def test_a_group_that_is_deleted_forgets_what_is_in_flight() -> None:
    async def story(server: ServerHarness) -> None:
        register(server)
        await send(server, b"a", b"b")
        messages = list_messages(await server.call(make_receive()))
        await server.app.group_commit.execute(lambda draft: delete_group(draft, "readers"))
        assert len(server.app.state.popped) == 0
        assert await server.code(make_ack(*messages)) == "OK"
        await server.app.clock_mover.advance(30_000)
        again = list_messages(await server.call(make_receive()))
        assert sorted(message.body for message in again) == [b"a", b"b"]  # a new group with this name
        assert {message.system_properties.delivery_attempt for message in again} == {1}

    run_on_server(story)
