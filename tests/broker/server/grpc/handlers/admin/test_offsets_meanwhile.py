"""Resets of groups that pull: who gets OFFSET_RESET, once, and which commits are ignored (rules 3.5.3, 6.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.server.grpc.handlers.v2.offsets import update_offset
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.handlers import PullHandlerHarness, run_on_handlers

QUEUE = MessageQueue("orders", "broker-a", 0)
LONG_MS = 60_000


async def refusal(pull: Awaitable[object]) -> tuple[str, str]:
    with pytest.raises(BrokerError) as refused:
        await pull
    return refused.value.code, str(refused.value)


def test_a_reset_is_reported_once_and_updates_are_ignored_until_then() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a", "b", "c")
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        update = rpc.UpdateOffsetRequest(
            group=v2.Resource(name="readers"), message_queue=v2.MessageQueue(topic=v2.Resource(name="orders")), offset=3
        )
        answer = await update_offset(broker.handlers.service, update, broker.handlers.caller())
        assert (answer.status.code, answer.status.message) == (v2.Code.OK, "Offset has been previously reset")
        assert await broker.pull_messages(2) == ("ILLEGAL_OFFSET", "OFFSET_RESET", 1, [])
        assert await broker.pull_messages(2) == ("OK", "FOUND", 3, [2])
        answer = await update_offset(broker.handlers.service, update, broker.handlers.caller())
        assert (answer.status.message, broker.offsets) == ("OK", {("readers", QUEUE): 3})

    run_on_handlers(story)


def test_a_columnar_pull_reports_a_reset_per_queue_and_then_sets_its_offset() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a", "b", "c")
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await broker.pull_columns(2, commit_offset=2) == [("OFFSET_RESET", 0, 1)]
        assert broker.offsets == {("readers", QUEUE): 2}
        assert await broker.pull_columns(2) == [("FOUND", 1, 3)]

    run_on_handlers(story)


def test_a_pull_whose_filter_matches_nothing_uses_a_reset_up_and_a_bad_filter_does_not() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert (await refusal(broker.pull_messages(0, tags="||")))[0] == "ILLEGAL_FILTER_EXPRESSION"
        assert (await broker.pull_messages(0, tags="z"))[1] == "OFFSET_RESET"
        assert (await broker.pull_messages(0, tags="z"))[1] == "NO_MATCHED_MESSAGE"

    run_on_handlers(story)


@pytest.mark.proves("A parked pull whose group is reset")
def test_a_parked_pull_of_the_group_gets_the_reset_at_once() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_messages(0, LONG_MS))
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await parked == ("ILLEGAL_OFFSET", "OFFSET_RESET", 1, [])

    run_on_handlers(story)


def test_a_parked_pull_of_another_group_gets_no_reset() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        parked = await broker.park(broker.pull_messages(0, LONG_MS, group="others"))
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await broker.is_parked(parked)
        await broker.send("a")
        assert await parked == ("OK", "FOUND", 1, [0])

    run_on_handlers(story)


def test_a_reset_stored_together_with_a_pulls_offset_is_reported_by_that_pull() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        pull = asyncio.ensure_future(broker.pull_columns(0, LONG_MS, commit_offset=7))
        await asyncio.sleep(0)
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        assert await pull == [("OFFSET_RESET", 0, 1)]
        assert broker.state.resets == {}

    run_on_handlers(story)
