"""PullColumns of many queues takes a turn for each piece of them, and misses nothing that comes between two pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.core.sending.storing import MessageToStore, store_messages
from rmqpull_broker.server.handlers.columns import pulling
from rmqpull_broker.server.handlers.columns.pulling import pull_columns
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.handlers import HandlerHarness
from tests.harness.waiting import until

QUEUES = 7
LONG_MS = 250_000
NOTHING = ("NO_MESSAGE_IN_QUEUE", 0)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces of two queues: QUEUES have four."""
    monkeypatch.setattr(pulling, "QUEUES_AT_ONCE", 2)


class Broker:
    """A broker with a topic of QUEUES queues."""

    def __init__(self, queue_count: int = QUEUES) -> None:
        self.handlers = HandlerHarness()
        self.queue_count = queue_count

    async def set_up(self) -> None:
        topic = TopicConfig("orders", self.queue_count, self.queue_count)
        await self.handlers.group_commit.execute(lambda draft: put_topic(draft, topic))
        await self.handlers.group_commit.execute(lambda draft: put_group(draft, GroupConfig("readers")))

    async def send(self, queue_id: int, count: int = 1) -> None:
        messages = [MessageToStore(MessageQueue("orders", "broker-a", queue_id), Message(b"x", "id"))] * count
        await self.handlers.group_commit.execute(lambda draft: store_messages(draft, messages, 1_000, "127.0.0.1:8081"))

    async def pull(self, wait_ms: int = 0, **fields: Any) -> list[tuple[str, int]]:
        """Returns the status of each queue and the number of its rows."""
        queues = [
            v1.QueuePull(queue=v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue_id))
            for queue_id in range(self.queue_count)
        ]
        request = v1.PullColumnsRequest(group="readers", queues=queues, long_polling_timeout_ms=wait_ms, **fields)
        answer = await pull_columns(self.handlers.service, request, self.handlers.caller())
        return [(v1.PullStatus.Name(queue.pull_status), queue.row_count) for queue in answer.response.queues]

    async def is_parked_with_all(self) -> None:
        """Returns when a pull waits on all queues."""
        parked = self.handlers.parking._parked
        await until(
            lambda: all(parked.has_pulls_of(MessageQueue("orders", "broker-a", n)) for n in range(self.queue_count)),
            "parked",
        )


def run(story: Callable[[Broker], Awaitable[None]], queue_count: int = QUEUES) -> None:
    async def tell() -> None:
        broker = Broker(queue_count)
        await broker.set_up()
        await story(broker)

    asyncio.run(tell())


def test_the_limits_are_those_of_the_whole_response() -> None:
    async def story(broker: Broker) -> None:
        for queue_id in (0, 2, 3, 6):
            await broker.send(queue_id, 2)
        assert await broker.pull(max_rows=5) == [
            ("FOUND", 2),
            NOTHING,
            ("FOUND", 2),
            ("FOUND", 1),
            NOTHING,
            NOTHING,
            ("NOT_REACHED", 0),
        ]

    run(story)


async def count_turns(work: Awaitable[Any]) -> int:
    turns, task = 0, asyncio.ensure_future(work)
    while not task.done():
        await asyncio.sleep(0)
        turns += 1
    return turns


def test_twice_the_queues_take_twice_the_turns() -> None:
    turns: list[int] = []

    async def story(broker: Broker) -> None:
        turns.append(await count_turns(broker.pull()))

    run(story, 40)
    run(story, 80)
    assert turns[0] >= 20
    assert turns[1] == pytest.approx(2 * turns[0], rel=0.2)


async def send_first(broker: Broker) -> None:
    await broker.send(0)


async def send_last(broker: Broker) -> None:
    await broker.send(QUEUES - 1)


async def reset_last(broker: Broker) -> None:
    request = ResetRequest("readers", "orders", MessageQueue("orders", "broker-a", QUEUES - 1), 0)
    await broker.handlers.group_commit.execute(lambda draft: invoke_reset(draft, request))


async def delete(broker: Broker) -> None:
    await broker.handlers.group_commit.execute(lambda draft: delete_topic(draft, "orders"))


@pytest.mark.parametrize(
    ("change", "status"),
    [
        (send_first, ("FOUND", 1)),
        (send_last, ("FOUND", 1)),
        (reset_last, ("OFFSET_RESET", 0)),
        (delete, ("NO_MATCHED_LOGIC_QUEUE", 0)),
    ],
)
@pytest.mark.parametrize("turn", range(30))
def test_what_comes_between_two_pieces_ends_the_wait(
    turn: int, change: Callable[[Broker], Awaitable[None]], status: tuple[str, int]
) -> None:
    """In whichever turn it comes: while the pull runs, while it parks, and afterwards."""

    async def story(broker: Broker) -> None:
        pull = asyncio.ensure_future(broker.pull(LONG_MS))
        for _ in range(turn):
            await asyncio.sleep(0)
        await change(broker)
        assert status in await asyncio.wait_for(pull, 30)
        await until(lambda: not len(broker.handlers.parking), "removed")

    run(story)


def test_a_pull_whose_caller_leaves_is_removed_from_all_queues() -> None:
    async def story(broker: Broker) -> None:
        pull = asyncio.ensure_future(broker.pull(LONG_MS))
        await broker.is_parked_with_all()
        pull.cancel()
        await until(lambda: not len(broker.handlers.parking), "removed")
        parked = broker.handlers.parking._parked
        assert not any(parked.has_pulls_of(MessageQueue("orders", "broker-a", n)) for n in range(QUEUES))

    run(story)


def test_a_pull_without_room_for_its_last_queues_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.pulling.parking.PARKED_PULLS_MAX", 2)

    async def story(broker: Broker) -> None:
        with pytest.raises(TooManyRequests, match="too many pulls are parked"):
            await broker.pull(LONG_MS)
        await until(lambda: not len(broker.handlers.parking), "removed")
        await broker.send(0)
        assert (await broker.pull(LONG_MS))[0] == ("FOUND", 1)

    run(story)


def test_a_pull_waits_until_its_timeout() -> None:
    async def story(broker: Broker) -> None:
        pull = asyncio.ensure_future(broker.pull(5_000))
        await broker.is_parked_with_all()
        broker.handlers.clock.advance(4_999)
        await asyncio.sleep(0)
        assert not pull.done()
        broker.handlers.clock.advance(1)
        assert await asyncio.wait_for(pull, 30) == [NOTHING] * QUEUES

    run(story)
