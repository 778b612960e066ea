"""Faults of receives and of what follows them: no message is lost, and none is delivered twice at a time."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from rmqpull_broker.core.admin.fault_rules import FaultAction
from rmqpull_broker.core.clients.members import ClientChannel, ConsumerData, ConsumeType
from rmqpull_broker.core.clients.settings import ClientProfile
from rmqpull_broker.core.model import GroupConfig, MessageQueue
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import until

ORDERS, GROUP = v2.Resource(name="orders"), v2.Resource(name="readers")
RECEIVE = service.ReceiveMessageRequest(
    group=GROUP,
    message_queue=v2.MessageQueue(topic=ORDERS),
    filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
    batch_size=32,
)
RECEIVE.invisible_duration.FromSeconds(30)
RECEIVE.long_polling_timeout.FromSeconds(5)


async def prepare(server: ServerHarness) -> None:
    """A member of the group, and a message."""
    channel = ClientChannel("tester", "tester", "PYTHON", "5.1.2")
    profile = ClientProfile(channel, "SIMPLE_CONSUMER", consumer=ConsumerData("readers", (), ConsumeType.ACTIVELY))
    server.app.clients.introduce(profile, [GroupConfig("readers")])
    message = v2.Message(topic=ORDERS, body=b"x", system_properties=v2.SystemProperties(message_id="m"))
    assert await server.code(service.SendMessageRequest(messages=[message])) == "OK"


async def receive(server: ServerHarness) -> v2.Message:
    _, found, *_ = await server.call(RECEIVE)
    message: v2.Message = found.message
    return message


def make_request(name: str, message: v2.Message) -> Any:
    """A request about a message that was received."""
    handle = message.system_properties.receipt_handle
    if name == "AckMessage":
        entry = service.AckMessageEntry(message_id="m", receipt_handle=handle)
        return service.AckMessageRequest(group=GROUP, topic=ORDERS, entries=[entry])
    if name == "ChangeInvisibleDuration":
        request = service.ChangeInvisibleDurationRequest(group=GROUP, topic=ORDERS, receipt_handle=handle)
        request.invisible_duration.FromSeconds(5)
        return request
    return service.ForwardMessageToDeadLetterQueueRequest(
        group=GROUP, topic=ORDERS, receipt_handle=handle, message_id="m"
    )


def count(server: ServerHarness) -> dict[str, int]:
    """Where the message is: in flight, to be received (again), or among the dead letters."""
    state = server.app.state
    queues = [queue for topic in state.topics.values() for queue in state.list_readable_queues(topic)]
    waiting = {
        queue: state.bounds(queue).max_offset - state.consumer_offsets.get(("readers", queue), 0) for queue in queues
    }
    dead = MessageQueue("%DLQ%readers", "broker-a", 0)
    return {
        "in flight": len(state.popped),
        "waits": sum(left for queue, left in waiting.items() if queue.topic != dead.topic),
        "dead": state.bounds(dead).max_offset,
    }


CALLS = ("AckMessage", "ChangeInvisibleDuration", "ForwardMessageToDeadLetterQueue")
DONE = {
    "AckMessage": {"in flight": 0, "waits": 0, "dead": 0},
    "ChangeInvisibleDuration": {"in flight": 1, "waits": 0, "dead": 0},
    "ForwardMessageToDeadLetterQueue": {"in flight": 0, "waits": 0, "dead": 1},
}


@pytest.mark.parametrize("action", [FaultAction.FAIL, FaultAction.DISCONNECT, FaultAction.DROP])
@pytest.mark.parametrize("after", [False, True])
def test_a_message_whose_receive_fails_is_received_later(action: FaultAction, after: bool) -> None:
    async def story(server: ServerHarness) -> None:
        await prepare(server)
        rule_id = server.add_fault(
            "ReceiveMessage", action, after=after, topic="orders", group="readers", code="TOO_MANY_REQUESTS"
        )
        call = server.call(RECEIVE)
        if action is FaultAction.FAIL:
            assert v2.Code.Name((await call)[0].status.code) == "TOO_MANY_REQUESTS"
        elif action is FaultAction.DISCONNECT:
            with pytest.raises(grpc.aio.AioRpcError):
                await call
        else:
            await server.await_held(rule_id)
            call.cancel()
            await server.await_held(rule_id, 0)
        assert count(server) == {"in flight": int(after), "waits": int(not after), "dead": 0}
        await server.app.clock_mover.advance(30_000)
        assert (await receive(server)).system_properties.delivery_attempt == (2 if after else 1)
        assert count(server) == {"in flight": 1, "waits": 0, "dead": 0}

    run_on_server(story)


@pytest.mark.parametrize("name", CALLS)
def test_a_refused_call_leaves_the_message_in_flight(name: str) -> None:
    async def story(server: ServerHarness) -> None:
        await prepare(server)
        request = make_request(name, await receive(server))
        server.add_fault(name, FaultAction.FAIL, topic="orders", group="readers", code="INTERNAL_SERVER_ERROR")
        assert await server.code(request) == "INTERNAL_SERVER_ERROR"
        assert count(server) == {"in flight": 1, "waits": 0, "dead": 0}
        assert await server.code(request) == "OK"
        assert count(server) == DONE[name]

    run_on_server(story)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("action", [FaultAction.FAIL, FaultAction.DISCONNECT])
def test_a_lost_answer_does_not_undo_the_call_and_it_can_be_repeated(name: str, action: FaultAction) -> None:
    async def story(server: ServerHarness) -> None:
        await prepare(server)
        request = make_request(name, await receive(server))
        server.add_fault(name, action, after=True)
        if action is FaultAction.FAIL:
            assert await server.code(request) == "INTERNAL_SERVER_ERROR"
        else:
            with pytest.raises(grpc.aio.AioRpcError):
                await server.call(request)
        assert count(server) == DONE[name]
        assert await server.code(request) == "OK"
        assert count(server) == DONE[name]

    run_on_server(story)


def test_a_receive_that_is_delayed_waits_for_messages_afterwards() -> None:
    async def story(server: ServerHarness) -> None:
        await prepare(server)
        await receive(server)
        rule_id = server.add_fault("ReceiveMessage", FaultAction.DELAY, delay_ms=1_000)
        call = server.call(RECEIVE)
        await server.await_held(rule_id)
        await server.app.clock_mover.advance(1_000)
        await until(lambda: server.app._pops.waiting_count == 1, "a receive waits")
        await server.app.clock_mover.advance(5_000)
        assert (await call)[0].status.message == "no new message"

    run_on_server(story)
