"""A group that receives and a group that pulls, on one topic: each sees all messages, and neither moves the other."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.grpc.handlers.admin.groups import query_lag
from rmqpull_broker.server.grpc.handlers.admin.offsets import reset_offsets
from rmqpull_broker.server.grpc.handlers.v2.offsets import get_offset, update_offset
from rmqpull_broker.server.grpc.handlers.v2.pulling import pull_message
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import admin_pb2 as admin
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops

PULLERS = "pullers"
QUEUE = v2.MessageQueue(topic=v2.Resource(name=TOPIC), broker=v2.Broker(name="broker-a"))


async def pull(broker: PopHarness, offset: int, group: str = PULLERS) -> list[bytes]:
    request = rpc.PullMessageRequest(
        group=v2.Resource(name=group),
        message_queue=QUEUE,
        offset=offset,
        batch_size=32,
        filter_expression=v2.FilterExpression(type=v2.FilterType.TAG, expression="*"),
    )
    parts = [part async for part in pull_message(broker.service, request, broker.caller())]
    return [part.message.body for part in parts if part.HasField("message")]


async def set_offset(broker: PopHarness, offset: int) -> None:
    request = rpc.UpdateOffsetRequest(group=v2.Resource(name=PULLERS), message_queue=QUEUE, offset=offset)
    await update_offset(broker.service, request, broker.caller())


async def find_offset(broker: PopHarness) -> int:
    request = rpc.GetOffsetRequest(group=v2.Resource(name=PULLERS), message_queue=QUEUE)
    return (await get_offset(broker.service, request, broker.caller())).offset


async def list_progress(broker: PopHarness) -> dict[tuple[str, str], tuple[int, int]]:
    """Lag, and what is in flight, by group and topic."""
    served = await query_lag(broker.service, admin.QueryLagRequest(), broker.caller())
    response = admin.QueryLagResponse.FromString(served.SerializeToString())
    return {(each.group, each.queue.topic): (each.lag, each.in_flight) for each in response.progress}


@pytest.mark.parametrize("in_order", [False, True])
def test_pulls_and_receives_do_not_disturb_each_other(in_order: bool) -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send(*"abcd", message_group="g" if in_order else None)
        await pull(broker, 0)
        await set_offset(broker, 1)
        first = await broker.receive(2)
        assert await pull(broker, 1) == [b"b", b"c", b"d"]
        await set_offset(broker, 4)
        assert (await find_offset(broker), first.bodies, broker.lag()) == (4, ["a", "b"], 4 if in_order else 2)
        assert await broker.ack(*first.handles) == ["OK"] * 3
        await set_offset(broker, 0)
        assert (await broker.receive()).bodies == ["c", "d"]
        assert (await find_offset(broker), len(await pull(broker, 0))) == (0, 4)

    run_pops(story, consume_message_orderly=in_order)


def test_a_pull_of_the_same_group_takes_nothing_out_of_flight() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        first = await broker.receive(1)
        assert await pull(broker, 0, GROUP) == [b"a", b"b"]
        assert await list_progress(broker) == {(GROUP, TOPIC): (1, 1)}
        assert await broker.ack(*first.handles) == ["OK"] * 2

    run_pops(story)


def test_a_reset_of_the_pulling_group_leaves_the_other_one_alone() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        await pull(broker, 0)
        await set_offset(broker, 2)
        await broker.receive(1)
        request = admin.ResetOffsetsRequest(group=PULLERS, topic=TOPIC, place=admin.EARLIEST)
        await reset_offsets(broker.service, request, broker.caller())
        assert await list_progress(broker) == {(GROUP, TOPIC): (1, 1), (PULLERS, TOPIC): (2, 0)}

    run_pops(story)


def test_retries_count_as_lag_of_their_own_topic_before_they_are_received() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        await broker.receive()
        assert await list_progress(broker) == {(GROUP, TOPIC): (0, 2)}
        await broker.advance(10_000)
        assert await list_progress(broker) == {(GROUP, TOPIC): (0, 0), (GROUP, RETRY_TOPIC): (2, 0)}
        await broker.receive(1)
        assert (await list_progress(broker))[GROUP, RETRY_TOPIC] == (1, 1)

    run_pops(story)
