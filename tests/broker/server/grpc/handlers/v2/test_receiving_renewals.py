"""Messages that the broker renews for their consumer, as stories of a group (rules 5.12.3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.errors import InvalidReceiptHandle
from rmqpull_broker.core.model import GroupConfig
from rmqpull_broker.core.popping.receipts import parse_handle
from rmqpull_broker.server.grpc.handlers.v2.clients import heartbeat, notify_client_termination
from rmqpull_broker.server.grpc.handlers.v2.receiving import receive_message
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops

HOUR_S = 3_600


async def receive_renewed(broker: PopHarness, *bodies: str, message_group: str | None = None) -> list[str]:
    """Sends and receives messages whose receipts are renewed. Returns their handles."""
    await broker.send(*bodies, message_group=message_group)
    received = await broker.receive(auto_renew=True)
    assert received.bodies == list(bodies)
    return received.handles


async def stay(broker: PopHarness, seconds: int) -> None:
    """Lets time pass while the client sends its heartbeats."""
    for _ in range(0, seconds, 60):
        await broker.pass_time(min(60, seconds))
        await heartbeat(broker.service, rpc.HeartbeatRequest(group=v2.Resource(name=GROUP)), broker.caller())


@pytest.mark.parametrize("invisible_ms", [0, 1, 10_000, 24 * HOUR_S * 1_000])
def test_a_renewed_message_has_a_minute_whatever_the_consumer_asks_for(invisible_ms: int) -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        received = await broker.receive(auto_renew=True, invisible_ms=invisible_ms)
        assert parse_handle(received.handles[0]).invisible_ms == 60_000

    run_pops(story)


@pytest.mark.parametrize("in_order", [False, True])
def test_a_message_belongs_to_its_consumer_as_long_as_it_works(in_order: bool) -> None:
    async def story(broker: PopHarness) -> None:
        [handle] = await receive_renewed(broker, "a", message_group="customer" if in_order else None)
        await stay(broker, 2 * HOUR_S)
        assert broker.stored(RETRY_TOPIC) == []
        assert (await broker.receive_nothing()).text == "no new message"
        assert await broker.ack(handle, message_id="id-a") == ["OK", "OK"]
        assert (broker.renewer.kept_count, broker.lag()) == (0, 0)
        await broker.pass_time(2 * HOUR_S, 60)
        assert broker.stored(RETRY_TOPIC) == []

    run_pops(story, consume_message_orderly=in_order)


def test_a_changed_message_is_redelivered_when_its_consumer_said_and_is_renewed_no_more() -> None:
    async def story(broker: PopHarness) -> None:
        [handle] = await receive_renewed(broker, "a")
        await stay(broker, 300)
        changed = await broker.change(handle, 30_000, message_id="id-a")
        assert broker.renewer.kept_count == 0
        await broker.pass_time(25)
        assert broker.stored(RETRY_TOPIC) == []
        await broker.pass_time(5)
        assert len(broker.stored(RETRY_TOPIC)) == 1
        with pytest.raises(InvalidReceiptHandle, match="receipt handle is expired"):
            await broker.change(changed, 30_000, message_id="id-a")

    run_pops(story)


def test_a_renewed_message_becomes_a_dead_letter_by_its_first_handle() -> None:
    async def story(broker: PopHarness) -> None:
        [handle] = await receive_renewed(broker, "a")
        await stay(broker, 300)
        assert await broker.give_up(handle, message_id="id-a") == "OK"
        assert len(broker.stored(f"%DLQ%{GROUP}")) == 1
        assert (len(broker.state.popped), broker.renewer.kept_count) == (0, 0)

    run_pops(story)


@pytest.mark.parametrize("in_order", [False, True])
def test_what_was_acknowledged_without_its_message_id_is_renewed_no_more(in_order: bool) -> None:
    async def story(broker: PopHarness) -> None:
        [handle] = await receive_renewed(broker, "a", message_group="customer" if in_order else None)
        assert await broker.ack(handle, message_id="") == ["OK", "OK"]
        assert broker.renewer.kept_count == 1
        await broker.pass_time(50)
        assert broker.renewer.kept_count == 0

    run_pops(story, consume_message_orderly=in_order)


def test_after_three_hours_a_message_is_delivered_again() -> None:
    async def story(broker: PopHarness) -> None:
        await receive_renewed(broker, "a")
        await stay(broker, 13_680)
        assert broker.renewer.kept_count == 1
        await broker.pass_time(30)  # now the last check gives it ten seconds
        assert (broker.renewer.kept_count, broker.stored(RETRY_TOPIC)) == (0, [])
        await broker.pass_time(10)
        again = await broker.receive()
        assert (again.bodies, again.attempts) == (["a"], [2])

    run_pops(story)


def test_what_a_consumer_holds_is_redelivered_a_second_after_it_has_left() -> None:
    async def story(broker: PopHarness) -> None:
        handles = await receive_renewed(broker, "a", "b")
        await broker.ack(handles[0], message_id="id-a")
        request = rpc.NotifyClientTerminationRequest(group=v2.Resource(name=GROUP))
        await notify_client_termination(broker.service, request, broker.caller())
        await broker.advance(0)
        await broker.advance(999)
        assert broker.stored(RETRY_TOPIC) == []
        await broker.advance(1)
        assert [stored.message.body for stored in broker.stored(RETRY_TOPIC)] == [b"b"]
        assert broker.renewer.kept_count == 0

    run_pops(story)


def test_messages_that_no_consumer_has_read_are_not_renewed() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        request = rpc.ReceiveMessageRequest(
            group=v2.Resource(name=GROUP),
            message_queue=v2.MessageQueue(topic=v2.Resource(name=TOPIC)),
            batch_size=32,
            auto_renew=True,
        )
        answer = receive_message(broker.service, request, broker.caller())
        assert isinstance(answer, AsyncGenerator)
        read = [await anext(answer) for _ in range(3)]  # the status, and two messages; the second is on its way
        assert broker.renewer.kept_count == 3
        await answer.aclose()
        assert (len(read), broker.renewer.kept_count) == (3, 1)
        await broker.advance(0)
        await broker.advance(1_000)
        assert [stored.message.body for stored in broker.stored(RETRY_TOPIC)] == [b"b", b"c"]

    run_pops(story)


def test_a_consumer_that_receives_for_another_group_is_not_renewed_there() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        others = GroupConfig("others")
        profile = ClientProfile(ClientChannel("bob", "bob"), "SIMPLE_CONSUMER", consumer=ConsumerData("others"))
        broker.clients.introduce(profile, [others])
        await broker.receive(auto_renew=True)
        await broker.receive(auto_renew=True, group="others")
        assert broker.renewer.kept_count == 2
        await broker.pass_time(5)
        assert broker.renewer.kept_count == 1

    run_pops(story)
