"""What the whole broker does with receipts that it renews, by a manual clock (rules 5.12.3)."""

from __future__ import annotations

import asyncio

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.model import GroupConfig, Message
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.server import ServerHarness, run_on_server, running_server

READERS = GroupConfig("readers")
RETRY_TOPIC = "%RETRY%readers_orders"
CONSUMER = ClientProfile(
    ClientChannel("tester", "tester"), "PUSH_CONSUMER", consumer=ConsumerData("readers", (), ConsumeType.PASSIVELY)
)


async def receive(server: ServerHarness) -> str:
    """Sends a message, and receives it as a consumer that lets the broker renew it. Returns its handle."""
    app = server.app
    await app.group_commit.execute(lambda draft: draft.add(GroupPut(READERS)))
    app.clients.introduce(CONSUMER, [READERS])
    message = Message(b"body", "id", born_timestamp_ms=1)
    now_ms = server.clock.wall_ms()
    await app.group_commit.execute(lambda draft: app.sender.send(draft, "orders", [message], now_ms))
    request = rpc.ReceiveMessageRequest(
        group=v2.Resource(name="readers"),
        message_queue=v2.MessageQueue(topic=v2.Resource(name="orders")),
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
        batch_size=1,
        auto_renew=True,
    )
    request.long_polling_timeout.FromSeconds(5)
    answers = await server.call(request)
    (found,) = [answer.message for answer in answers if answer.HasField("message")]
    return str(found.system_properties.receipt_handle)


def test_a_consumer_with_heartbeats_keeps_its_message_for_hours() -> None:
    async def story(server: ServerHarness) -> None:
        handle = await receive(server)
        for _ in range(170):
            await server.app.clock_mover.advance(60_000)
            server.app.clients.refresh(CONSUMER, READERS)
        assert RETRY_TOPIC not in server.app.state.topics
        entries = [rpc.AckMessageEntry(message_id="id", receipt_handle=handle)]
        names = {"group": v2.Resource(name="readers"), "topic": v2.Resource(name="orders")}
        assert await server.code(rpc.AckMessageRequest(entries=entries, **names)) == "OK"
        assert len(server.app.state.popped) == 0

    run_on_server(story)


def test_a_consumer_without_heartbeats_loses_its_message() -> None:
    async def story(server: ServerHarness) -> None:
        await receive(server)
        await server.app.clock_mover.advance(140_000)
        assert server.app.clients.list_clients() == []
        assert RETRY_TOPIC in server.app.state.topics

    run_on_server(story)


def test_a_broker_that_stops_gives_back_what_it_renewed() -> None:
    async def story() -> None:
        async with running_server() as server:
            await receive(server)
        assert server.app.state.popped.next_due_ms() == server.clock.wall_ms() + 1_000

    asyncio.run(story())
