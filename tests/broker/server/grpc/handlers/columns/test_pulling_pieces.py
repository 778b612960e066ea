"""PullColumns of many queues takes a turn for each piece of them, and misses nothing that comes between two pieces."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from rmqpull_broker.core.admin.groups import put_group
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import BadRequest, Forbidden, TooManyRequests
from rmqpull_broker.core.model import PERM_WRITE, GroupConfig, Message, MessageQueue, TopicConfig
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.core.sending.storing import MessageToStore, store_messages
from rmqpull_broker.server.grpc.handlers.columns import pulling
from rmqpull_broker.server.grpc.handlers.columns.pulling import pull_columns
from rmqpull_proto.arrow_streams import read_stream
from rmqpull_proto.columns import PULLABLE_SCHEMA
from rmqpull_proto.columns_response import ColumnsResponse
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
        messages = [
            MessageToStore(MessageQueue("orders", "broker-a", queue_id), Message(b"%d" % queue_id, "id"))
        ] * count
        await self.handlers.group_commit.execute(lambda draft: store_messages(draft, messages, 1_000, "127.0.0.1:8081"))

    async def pull(self, wait_ms: int = 0, **fields: Any) -> list[tuple[str, int]]:
        """Returns the status of each queue and the number of its rows."""
        answer = await self.answer(wait_ms, **fields)
        return [(v1.PullStatus.Name(queue.pull_status), queue.row_count) for queue in answer.response.queues]

    async def answer(self, wait_ms: int = 0, **fields: Any) -> ColumnsResponse:
        queues = [v1.QueuePull(queue=queue) for queue in self.list_queues()]
        request = v1.PullColumnsRequest(group="readers", queues=queues, long_polling_timeout_ms=wait_ms, **fields)
        return await pull_columns(self.handlers.service, request, self.handlers.caller())

    def list_queues(self) -> list[v1.Queue]:
        return [
            v1.Queue(topic="orders", broker_name="broker-a", queue_id=queue_id) for queue_id in range(self.queue_count)
        ]

    async def is_parked_with_all(self) -> None:
        """Returns when a pull waits on all queues."""
        parked = self.handlers.parker._parked
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


def test_a_refused_pull_has_no_effect_on_the_queues_of_any_piece() -> None:
    """A reset stays pending, and no offset is set."""

    async def story(broker: Broker) -> None:
        await reset_last(broker)
        secret = TopicConfig("secret", 1, 1, perm=PERM_WRITE)
        await broker.handlers.group_commit.execute(lambda draft: put_topic(draft, secret))
        queues = [*broker.list_queues(), v1.Queue(topic="secret", broker_name="broker-a")]
        before = dict(broker.handlers.state.consumer_offsets.items())
        pulls = [v1.QueuePull(queue=queue, commit_offset=5) for queue in reversed(queues[1:])]
        pulls.append(pulls.pop(0))
        request = v1.PullColumnsRequest(group="readers", queues=pulls)
        with pytest.raises(Forbidden):
            await pull_columns(broker.handlers.service, request, broker.handlers.caller())
        assert broker.handlers.state.consumer_offsets == before
        assert len(broker.handlers.state.resets) == 1
        assert ("OFFSET_RESET", 0) in await broker.pull()

    run(story)


def test_a_request_that_cannot_be_read_creates_no_group() -> None:
    async def story(broker: Broker) -> None:
        pulls = [v1.QueuePull(queue=queue) for queue in (*broker.list_queues(), v1.Queue())]
        request = v1.PullColumnsRequest(group="new", queues=pulls)
        with pytest.raises(BadRequest):
            await pull_columns(broker.handlers.service, request, broker.handlers.caller())
        assert broker.handlers.state.find_group("new") is None

    run(story)


def test_small_batches_of_a_piece_are_joined() -> None:
    async def story(broker: Broker) -> None:
        for queue_id in range(QUEUES):
            await broker.send(queue_id)
        answer = await broker.answer()
        assert [queue.row_count for queue in answer.response.queues] == [1] * QUEUES
        received = v1.PullColumnsResponse.FromString(answer.SerializeToString())
        batches = read_stream(memoryview(received.arrow_ipc), PULLABLE_SCHEMA)
        assert [batch.num_rows for batch in batches] == [2, 2, 2, 1]
        assert pa.Table.from_batches(batches).column("body").to_pylist() == [b"%d" % number for number in range(QUEUES)]

    run(story)


def test_a_pull_does_not_wait_for_the_end_of_another_long_work() -> None:
    """Only slices take turns."""

    async def story(broker: Broker) -> None:
        async def list_for_ever() -> None:
            await broker.handlers.service.slices.finish(itertools.repeat(None), lambda part: None)

        long = asyncio.ensure_future(list_for_ever())
        await asyncio.sleep(0)
        assert await asyncio.wait_for(broker.pull(), 30) == [NOTHING] * QUEUES
        long.cancel()

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


async def forbid(broker: Broker) -> None:
    topic = TopicConfig("orders", QUEUES, QUEUES, perm=PERM_WRITE)
    await broker.handlers.group_commit.execute(lambda draft: put_topic(draft, topic))


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
        await until(lambda: not len(broker.handlers.parker), "removed")

    run(story)


@pytest.mark.parametrize("turn", range(40))
def test_a_permission_that_goes_between_two_pieces_refuses_the_pull(turn: int) -> None:
    """That of one of two topics: the other one has the last pieces."""

    async def story(broker: Broker) -> None:
        other = TopicConfig("other", QUEUES, QUEUES)
        await broker.handlers.group_commit.execute(lambda draft: put_topic(draft, other))
        others = [v1.Queue(topic="other", broker_name="broker-a", queue_id=number) for number in range(QUEUES)]
        pulls = [v1.QueuePull(queue=queue) for queue in (*broker.list_queues(), *others)]
        request = v1.PullColumnsRequest(group="readers", queues=pulls, long_polling_timeout_ms=LONG_MS)
        pull = asyncio.ensure_future(pull_columns(broker.handlers.service, request, broker.handlers.caller()))
        for _ in range(turn):
            await asyncio.sleep(0)
        await forbid(broker)
        with pytest.raises(Forbidden):
            await asyncio.wait_for(pull, 30)

    run(story)


def test_a_pull_whose_caller_leaves_is_removed_from_all_queues() -> None:
    async def story(broker: Broker) -> None:
        pull = asyncio.ensure_future(broker.pull(LONG_MS))
        await broker.is_parked_with_all()
        pull.cancel()
        await until(lambda: not len(broker.handlers.parker), "removed")
        parked = broker.handlers.parker._parked
        assert not any(parked.has_pulls_of(MessageQueue("orders", "broker-a", n)) for n in range(QUEUES))

    run(story)


def test_a_pull_without_room_for_its_last_queues_is_refused_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.core.pulling.parking.PARKED_PULLS_MAX", 2)

    async def story(broker: Broker) -> None:
        with pytest.raises(TooManyRequests, match="too many pulls are parked"):
            await broker.pull(LONG_MS)
        await until(lambda: not len(broker.handlers.parker), "removed")
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


@pytest.mark.parametrize(
    ("row_counts", "joined"),
    [
        ([3, 3, 3], [6, 3]),
        ([1, 1, 1, 1, 1, 1], [5, 1]),
        ([5, 9, 5], [5, 9, 5]),
        ([2, 9, 2, 2], [2, 9, 4]),
        ([], []),
    ],
)
def test_small_batches_are_joined_with_their_neighbours(
    monkeypatch: pytest.MonkeyPatch, row_counts: list[int], joined: list[int]
) -> None:
    monkeypatch.setattr(pulling, "SMALL_ROWS", 5)
    rows = pa.record_batch({"number": list(range(sum(row_counts)))})
    begins = itertools.accumulate(row_counts, initial=0)
    found = pulling._join([rows.slice(begin, count) for begin, count in zip(begins, row_counts, strict=False)])
    assert [batch.num_rows for batch in found] == joined
    assert [number for batch in found for number in batch.column("number").to_pylist()] == list(range(rows.num_rows))
