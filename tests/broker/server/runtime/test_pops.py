"""Pops on the event loop: waiting, callers that leave, and timed work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.errors import TopicNotFound
from rmqpull_broker.core.filters.message_filter import TagFilter
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import PopRequest, PopResult
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.sending.publishing import Published
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from rmqpull_broker.core.state.facts import RowsStored
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.server.runtime import pops
from tests.harness.core import check_batch, commit_stages
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops
from tests.harness.waiting import WAIT_S, until

POP = PopRequest(GROUP, TOPIC, "broker-a", invisible_ms=10_000)
QUEUE = MessageQueue(TOPIC, "broker-a", 0)


async def wait(broker: PopHarness, request: PopRequest = POP, poll_ms: int = 20_000) -> asyncio.Task[PopResult]:
    """Starts a pop, and returns when it waits."""
    before = broker.pops.waiting_count
    task = asyncio.ensure_future(broker.pops.pop(request, poll_ms))
    await until(lambda: task.done() or broker.pops.waiting_count > before, "waits")
    assert not task.done(), task
    return task


def test_a_pop_without_a_message_ends_at_its_time() -> None:
    async def story(broker: PopHarness) -> None:
        task = await wait(broker)
        await broker.advance(19_999)
        assert not task.done()
        await broker.advance(1)
        assert ((await task).message_count, broker.pops.waiting_count) == (0, 0)

    run_pops(story)


def test_what_is_left_wakes_the_next_pop() -> None:
    async def story(broker: PopHarness) -> None:
        first, second = [await wait(broker, replace(POP, max_msg_nums=1)) for _ in range(2)]
        await broker.send("a", "b")
        assert [(await first).message_count, (await second).message_count] == [1, 1]

    run_pops(story)


def test_a_commit_of_stages_wakes_a_pop_that_waits() -> None:
    async def story(broker: PopHarness) -> None:
        sender, batch = broker.service.sender, TransactionId("query", 1)
        rows = pa.record_batch({"body": [b"a", b"b"]})
        checked = check_batch(sender, Published(TOPIC, rows, "client"), 1_000)
        task = await wait(broker)
        await broker.group_commit.execute(lambda draft: stage(draft, sender, batch, "s", 0, checked, 1_000))
        assert not task.done()
        await broker.group_commit.execute(lambda draft: commit_stages(draft, batch, [CommittedStage("s", 1)]))
        assert (await task).message_count == 2

    run_pops(story)


@pytest.mark.parametrize(("tag", "is_found"), [("wanted", True), ("other than these", False)])
def test_after_a_large_commit_a_pop_looks_itself(monkeypatch: pytest.MonkeyPatch, tag: str, is_found: bool) -> None:
    monkeypatch.setattr(pops, "ROWS_LOOKED_AT_MAX", 2)
    monkeypatch.setattr(pops, "Arrivals", None)  # nobody may look at the rows before the pop does

    async def story(broker: PopHarness) -> None:
        sender, batch = broker.service.sender, TransactionId("query", 1)
        rows = pa.record_batch({"body": [b"a", b"b", b"c"], "tags": ["some", "some", "wanted"]})
        checked = check_batch(sender, Published(TOPIC, rows, "client"), 1_000)
        task = await wait(broker, replace(POP, message_filter=TagFilter(frozenset([tag]))))
        await broker.group_commit.execute(lambda draft: stage(draft, sender, batch, "s", 0, checked, 1_000))
        await broker.group_commit.execute(lambda draft: commit_stages(draft, batch, [CommittedStage("s", 1)]))
        if is_found:
            assert (await asyncio.wait_for(task, WAIT_S)).message_count == 1
        else:
            await until(lambda: broker.pops.waiting_count == 1, "waits again")
            task.cancel()

    run_pops(story)


def test_a_message_that_is_redelivered_wakes_nobody() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        await broker.pops.pop(POP)
        task = await wait(broker)
        await broker.advance(10_000)
        assert (len(broker.stored(RETRY_TOPIC)), task.done()) == (1, False)
        await broker.advance(10_000)
        assert (await task).message_count == 1  # it looks once more at the end

    run_pops(story)


def test_a_reset_wakes_the_group() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        await broker.pops.pop(POP)
        task = await wait(broker)
        await broker.group_commit.execute(lambda draft: reset_offsets(draft, GROUP, [(QUEUE, 0)]))
        assert (await task).message_count == 1

    run_pops(story)


def test_a_deleted_topic_ends_the_pops_that_wait() -> None:
    async def story(broker: PopHarness) -> None:
        task = await wait(broker)
        await broker.group_commit.execute(lambda draft: delete_topic(draft, TOPIC))
        with pytest.raises(TopicNotFound):
            await task

    run_pops(story)


def test_in_order_a_waiting_pop_goes_on_when_the_last_batch_is_visible_again() -> None:
    async def story(broker: PopHarness) -> None:
        request = replace(POP, in_order=True, max_msg_nums=1)
        await broker.send("a", "b", message_group="g")
        await broker.pops.pop(request)
        task = await wait(broker, request)
        await broker.advance(9_999)
        assert not task.done()
        await broker.advance(1)
        assert [list(part.offsets) for part in (await task).parts] == [[0]]

    run_pops(story, consume_message_orderly=True)


def list_delivered(result: PopResult) -> list[DeliveredMessage]:
    return [
        DeliveredMessage(GROUP, part.queue, result.make_receipt(part, offset, -1))
        for part in result.parts
        for offset in part.offsets
    ]


def test_in_order_a_pop_that_waited_before_the_batch_goes_on_when_it_is_visible_again() -> None:
    async def story(broker: PopHarness) -> None:
        request = replace(POP, in_order=True)
        first, second = [await wait(broker, request) for _ in range(2)]
        await broker.send("a", message_group="g")
        assert (await first).message_count == 1
        await broker.advance(9_999)
        assert not second.done()
        await broker.advance(1)
        assert (await second).message_count == 1

    run_pops(story, consume_message_orderly=True)


def test_in_order_a_shorter_invisible_time_lets_a_waiting_pop_go_on_sooner() -> None:
    async def story(broker: PopHarness) -> None:
        request = replace(POP, in_order=True)
        await broker.send("a", message_group="g")
        delivered = list_delivered(await broker.pops.pop(request))
        task = await wait(broker, request)
        await broker.pops.change_invisible_times(delivered, 1_000)
        await broker.advance(999)
        assert not task.done()
        await broker.advance(1)
        assert (await task).message_count == 1

    run_pops(story, consume_message_orderly=True)


def test_in_order_an_acknowledgement_wakes_a_pop_of_its_queue() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", message_group="g")
        await broker.send("b", message_group="g")
        hot = next(number for number in (0, 1) if broker.state.bounds(MessageQueue(TOPIC, "broker-a", number))[1])
        request = replace(POP, in_order=True, max_msg_nums=1, queue_id=hot)
        delivered = list_delivered(await broker.pops.pop(request))
        other = await wait(broker, replace(request, queue_id=1 - hot))
        task = await wait(broker, request)
        await broker.pops.acknowledge(delivered)
        assert (await task).message_count == 1
        assert not other.done()
        other.cancel()

    run_pops(story, queues=2, consume_message_orderly=True)


@pytest.mark.parametrize("leaves_first", [True, False])
def test_a_message_that_woke_a_caller_who_has_left_is_anothers(leaves_first: bool) -> None:
    async def story(broker: PopHarness) -> None:
        first, second = [await wait(broker) for _ in range(2)]
        stored = RowsStored(QUEUE, (StoredMessage(Message(b"a", "id"), 0, 0, "host"),))
        broker.state.apply([stored])
        if leaves_first:
            first.cancel()  # its task has not run yet when the message comes
        broker.pops.wake_for([stored])
        first.cancel()
        assert (await asyncio.wait_for(second, WAIT_S)).message_count == 1

    run_pops(story)


def test_what_is_stored_for_a_caller_that_has_left_meanwhile_is_redelivered_after_a_second() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        task = asyncio.ensure_future(broker.pops.pop(POP))
        await asyncio.sleep(0)  # its command waits to be stored
        task.cancel()
        await until(lambda: len(broker.state.popped) == 1, "delivered")
        await broker.advance(0)
        await broker.advance(1_000)
        assert len(broker.stored(RETRY_TOPIC)) == 1

    run_pops(story)


def test_with_a_clock_that_stands_still_a_pop_ends_with_the_time_of_its_caller() -> None:
    async def story(broker: PopHarness) -> None:
        assert (await broker.pops.pop(POP, 20_000, left_s=0.01)).message_count == 0
        assert broker.pops.waiting_count == 0

    run_pops(story)


async def leave_with_the_message(broker: PopHarness, task: asyncio.Task[PopResult]) -> None:
    """The pop is stored, and its caller is gone."""
    sending = asyncio.ensure_future(broker.send("a"))
    await until(lambda: broker.pops.waiting_count == 0, "woken")
    task.cancel()
    await sending


async def leave_first(broker: PopHarness, task: asyncio.Task[PopResult]) -> None:
    task.cancel()
    await asyncio.wait([task])
    await broker.send("a")


@pytest.mark.parametrize("leave", [leave_first, leave_with_the_message])
def test_the_message_of_a_caller_that_leaves_is_redelivered(
    leave: Callable[[PopHarness, asyncio.Task[PopResult]], Awaitable[None]],
) -> None:
    async def story(broker: PopHarness) -> None:
        task = await wait(broker)
        await leave(broker, task)
        await broker.advance(1_000)
        await broker.advance(0)
        found = await broker.pops.pop(POP)
        assert found.message_count == 1

    run_pops(story)


def test_what_was_not_written_is_redelivered_after_a_second() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", "c")
        result = await broker.pops.pop(POP)
        (part,) = result.parts
        left = [
            DeliveredMessage(GROUP, part.queue, result.make_receipt(part, offset, -1)) for offset in part.offsets[1:]
        ]
        broker.pops.release(left)
        await broker.advance(0)
        await broker.advance(1_000)
        assert [row.message.body for row in broker.stored(RETRY_TOPIC)] == [b"b", b"c"]

    run_pops(story)


def test_a_broker_that_stops_ends_all_pops() -> None:
    async def story(broker: PopHarness) -> None:
        task = await wait(broker)
        broker.pops.close()
        assert (await task).message_count == 0
        assert (await broker.pops.pop(POP, 20_000)).message_count == 0

    run_pops(story)


def test_a_stopping_broker_ends_some_pops_in_each_turn_of_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pops, "ENDED_IN_A_TURN", 2)

    async def story(broker: PopHarness) -> None:
        tasks = [await wait(broker) for _ in range(5)]
        broker.pops.close()
        ended = []
        while broker.pops.waiting_count:
            await asyncio.sleep(0)
            ended.append(sum(future.done() for _, future in broker.pops._futures.values()))
        assert max(ended) <= 4
        assert [(await task).message_count for task in tasks] == [0] * 5

    run_pops(story)
