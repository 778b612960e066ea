"""What happens while receives wait and messages are in flight: callers leave, topics and groups are deleted."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Any

import grpc
import pytest

from rmqpull_broker.core.admin.topics import create_topic, delete_topic
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.model import GroupConfig, MessageQueue, TopicConfig
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopRequest
from rmqpull_broker.core.state.retention import trim
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import until

ORDERS, READERS = v2.Resource(name="orders"), v2.Resource(name="readers")


def make_receive(count: int = 32) -> Any:
    request = service.ReceiveMessageRequest(
        group=READERS,
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
    return service.AckMessageRequest(group=READERS, topic=ORDERS, entries=entries)


def register(server: ServerHarness) -> None:
    channel = ClientChannel("tester", "tester", "PYTHON", "5.1.2")
    profile = ClientProfile(channel, "SIMPLE_CONSUMER", consumer=ConsumerData("readers", (), ConsumeType.ACTIVELY))
    server.app.clients.introduce(profile, [GroupConfig("readers")])


async def send(server: ServerHarness, *bodies: bytes) -> None:
    for body in bodies:
        message = v2.Message(topic=ORDERS, body=body, system_properties=v2.SystemProperties(message_id="m"))
        assert await server.code(service.SendMessageRequest(messages=[message])) == "OK"


async def await_waiting(server: ServerHarness, receives: int) -> None:
    await until(lambda: server.app._pops.waiting_count == receives, f"{receives} receives wait")


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
        await until(lambda: not server.app._pops.waiting_count, "no receive waits")
        for _ in range(40):  # what was on its way to callers that left is redelivered
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
        assert await server.code(make_ack(*messages)) == "INTERNAL_SERVER_ERROR"  # there is no such topic
        topic = TopicConfig("orders", 1, 1, creation_id="second")
        await server.app.group_commit.execute(lambda draft: create_topic(draft, topic))
        await send(server, b"new")
        await server.app.clock_mover.advance(30_000)
        assert [message.body for message in list_messages(await server.call(make_receive()))] == [b"new"]
        assert await server.code(make_ack(*messages)) == "INVALID_RECEIPT_HANDLE"  # its time is over
        assert len(server.app.state.popped) == 1

    run_on_server(story)


def test_what_retention_deletes_in_the_same_write_is_not_in_flight() -> None:
    """A pop and a change that are written together with the deletion see what is about to go."""

    async def story(broker: PopHarness) -> None:
        queue = MessageQueue(TOPIC, "broker-a", 0)
        for body in "abc":
            await broker.send(body)
        assert len(broker.stored(TOPIC)) == 3  # a read ends the chunk, which retention can delete
        await broker.send("d")
        changed = await broker.pops.pop(PopRequest(GROUP, TOPIC, "broker-a", max_msg_nums=2, invisible_ms=10_000))
        (part,) = changed.parts
        delivered = [DeliveredMessage(GROUP, queue, changed.make_receipt(part, offset, -1)) for offset in part.offsets]
        others = PopRequest("others", TOPIC, "broker-a", max_msg_nums=2, invisible_ms=20_000)
        await asyncio.gather(
            broker.group_commit.execute(lambda draft: trim(draft, [(queue, 3)]), makes_room=True),
            broker.pops.change_invisible_times(delivered, 20_000),
            broker.group_commit.execute(partial(pop_messages, request=others, now_ms=1, draw=lambda count: count - 1)),
        )
        assert len(broker.state.popped) == 0
        await broker.pops.pop(PopRequest(GROUP, TOPIC, "broker-a", invisible_ms=10_000))
        await broker.advance(30_000)
        assert [row.message.body for row in broker.stored(RETRY_TOPIC)] == [b"d"]

    run_pops(story)


def test_a_pop_in_the_same_write_as_a_new_topic_sees_none_of_the_old_messages() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("old")
        topic = TopicConfig(TOPIC, 1, 1, creation_id="second")
        request = PopRequest(GROUP, TOPIC, "broker-a", invisible_ms=10_000)
        _, _, result = await asyncio.gather(
            broker.group_commit.execute(lambda draft: delete_topic(draft, TOPIC)),
            broker.group_commit.execute(lambda draft: create_topic(draft, topic)),
            broker.pops.pop(request),
        )
        assert result.message_count == 0
        await broker.send("new")
        (part,) = (await broker.pops.pop(request)).parts
        assert list(part.offsets) == [0]

    run_pops(story)


def test_the_retries_of_a_deleted_topic_do_not_come_with_a_new_one() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("old")
        await broker.receive()
        await broker.advance(10_000)
        assert len(broker.stored(RETRY_TOPIC)) == 1
        await broker.group_commit.execute(lambda draft: delete_topic(draft, TOPIC))
        topic = TopicConfig(TOPIC, 1, 1, creation_id="second")
        await broker.group_commit.execute(lambda draft: create_topic(draft, topic))
        await broker.send("new")
        assert (await broker.receive()).bodies == ["new"]

    run_pops(story)
