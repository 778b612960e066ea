"""QueryBounds and CutRanges over gRPC."""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pyarrow as pa
import pytest

from rmqpull_broker.core.model import TopicConfig
from rmqpull_broker.core.sending.publishing import Published, TopicPart
from rmqpull_broker.core.sending.stage_commands import CommittedStage, stage
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import TopicPut
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.server.grpc.handlers.columns import bounds
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.core import check_batch, commit_stages
from tests.harness.handlers import HandlerHarness, PullHandlerHarness, run_on_handlers
from tests.harness.rpc_client import Connect, RpcClient

# --- QueryBounds ------------------------------------------------------------------------------------------------------


def asking(*topics: str) -> v1.QueryBoundsRequest:
    return v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics])


def test_every_queue_is_listed_with_its_bounds(client: RpcClient) -> None:
    client.send_bodies("orders", b"a", b"b", b"c")
    bounds = client.bounds("orders")
    assert bounds.status.code == v2.Code.OK
    assert [(q.broker_name, q.queue_id, q.min_offset, q.max_offset, q.rows_lost) for q in bounds.queues] == [
        ("broker-a", 0, 0, 3, 0),
        ("broker-a", 1, 0, 0, 0),
    ]


def test_topics_are_answered_in_order_and_an_unknown_one_affects_no_other(client: RpcClient) -> None:
    answer = client.call("QueryBounds", asking("single", "unknown", "orders"))
    assert answer.status.code == v2.Code.OK
    assert [(topic.topic, v2.Code.Name(topic.status.code), len(topic.queues)) for topic in answer.topics] == [
        ("single", "OK", 1),
        ("unknown", "TOPIC_NOT_FOUND", 0),
        ("orders", "OK", 2),
    ]
    assert not answer.topics[1].creation_id


def test_no_topic_gives_no_bounds(client: RpcClient) -> None:
    assert client.call("QueryBounds", asking()).status.code == v2.Code.OK


def test_the_creation_id_is_the_topics_own_and_new_with_every_creation(client: RpcClient, connect: Connect) -> None:
    ids = [client.bounds(topic).creation_id for topic in ("orders", "orders", "single")]
    assert ids[0] == ids[1] != ids[2]
    with running_broker(topics={"orders": 2}) as another:
        assert connect(another.endpoints).bounds("orders").creation_id not in ("", *ids)


# --- CutRanges --------------------------------------------------------------------------------------------------------


Cut = tuple[list[tuple[int, int]], bool]


def asked(
    from_offset: int, until_offset: int, byte_max: int, parts_max: int = 0, topic: str = "orders", queue_id: int = 0
) -> v1.RangeToCut:
    queue = v1.Queue(topic=topic, broker_name="broker-a", queue_id=queue_id)
    return v1.RangeToCut(
        queue=queue, from_offset=from_offset, until_offset=until_offset, byte_max=byte_max, parts_max=parts_max
    )


def cut(client: RpcClient, *ranges: v1.RangeToCut) -> list[Cut]:
    """The parts of each range, and whether there are more."""
    answer = client.call("CutRanges", v1.CutRangesRequest(ranges=ranges))
    return [([(part.until_offset, part.byte_count) for part in one.parts], one.has_more) for one in answer.ranges]


@pytest.fixture
def filled(client: RpcClient) -> RpcClient:
    """A queue with ten messages of ten bytes each."""
    client.send_bodies("orders", *[b"0123456789"] * 10)
    return client


@pytest.mark.parametrize(
    ("range_", "parts"),
    [
        (asked(0, 10, 100), [(10, 100)]),
        (asked(0, 10, 40), [(4, 40), (8, 40), (10, 20)]),
        (asked(0, 3, 9), [(1, 10), (2, 10), (3, 10)]),  # each is above the limit, so each is one part
        (asked(0, 10, 0, parts_max=1), [(1, 10)]),
        (asked(3, 10, 40, parts_max=1), [(7, 40)]),
        (asked(-5, 99, 1 << 62), [(10, 100)]),
        (asked(0, 3, -1, parts_max=-1), [(1, 10), (2, 10), (3, 10)]),
        (asked(5, 5, 10), []),
        (asked(10, 20, 10), []),
        (asked(30, 20, 10), []),
        (asked(0, 5, 10, queue_id=1), []),
        (asked(0, 5, 10, queue_id=7), []),
        (asked(0, 5, 10, topic="unknown"), []),
    ],
)
def test_a_range_is_cut_where_the_bytes_are_reached(
    filled: RpcClient, range_: v1.RangeToCut, parts: list[tuple[int, int]]
) -> None:
    assert cut(filled, range_) == [(parts, False)]


def test_ranges_are_answered_in_their_order_also_of_the_same_queue(filled: RpcClient) -> None:
    assert cut(filled, asked(0, 10, 0, 1), asked(0, 5, 10, topic="unknown"), asked(0, 10, 1000)) == [
        ([(1, 10)], False),
        ([], False),
        ([(10, 100)], False),
    ]


def test_no_range_gives_no_parts(client: RpcClient) -> None:
    assert cut(client) == []


@pytest.mark.parametrize("most", [1, 2, 3, 10, 11])
def test_a_full_response_reports_the_ranges_with_more_parts(
    filled: RpcClient, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(bounds, "PARTS_MAX", most)
    monkeypatch.setattr(bounds, "_PARTS_AT_ONCE", 2)
    ten = [(offset, 10) for offset in range(1, 11)]
    first, second = cut(filled, asked(0, 10, 10), asked(0, 10, 10))
    assert first == (ten[:most], most < 10)
    assert second == (ten[: max(most - 10, 0)], True)
    wanted, other = cut(filled, asked(0, 10, 10, parts_max=1), asked(0, 2, 10))
    assert wanted == ([(1, 10)], False)
    assert other == (ten[: min(most - 1, 2)], most < 3)


def test_a_queue_without_a_name_is_refused(client: RpcClient) -> None:
    assert client.code("CutRanges", v1.CutRangesRequest(ranges=[asked(0, 1, 1, topic="")])) == "BAD_REQUEST"


@pytest.mark.parametrize("ranges", [[asked(0, 64, 1)], [asked(0, 2, 100)] * 4])
def test_other_calls_are_served_between_parts_and_ranges(ranges: list[v1.RangeToCut]) -> None:
    async def story(broker: PullHandlerHarness) -> None:
        for _ in range(64):
            await broker.send("a")
        answer = bounds.cut_ranges(
            broker.handlers.service, v1.CutRangesRequest(ranges=ranges), broker.handlers.caller()
        )
        cutting, turns = asyncio.ensure_future(answer), 0
        while not cutting.done() and turns < 100_000:
            await asyncio.sleep(0)
            turns += 1
        await cutting
        assert turns > 4

    run_on_handlers(story)


@pytest.mark.parametrize("commit_count", [1, 5])
def test_bounds_of_many_topics_have_all_rows_of_a_commit_or_none(commit_count: int) -> None:
    """Commits come between the steps in which they are read: some, or so many that one step has to read them."""
    names = [f"topic-{number}" for number in range(4)]

    async def story() -> list[int]:
        broker = HandlerHarness()
        seconds = itertools.count()
        service = replace(broker.service, slices=Slices(lambda: next(seconds)))  # each step is a slice
        broker.state.apply(TopicPut(TopicConfig(name, 1, 1)) for name in names)
        reading = asyncio.ensure_future(bounds.query_bounds(service, asking(*names), broker.caller()))
        for number in range(commit_count):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            commit_a_row_to_each(broker, names, number)
        answer = v1.QueryBoundsResponse.FromString((await reading).SerializeToString())
        return [topic.queues[0].max_offset for topic in answer.topics]

    found = asyncio.run(story())
    assert len(set(found)) == 1
    assert found[0] in range(1, commit_count + 1)


def commit_a_row_to_each(broker: HandlerHarness, topics: list[str], number: int) -> None:
    transaction, rows = TransactionId("query", number), pa.record_batch({"body": [b"x"] * len(topics)})
    published = Published("", rows, "client", parts=[TopicPart(topic, 1) for topic in topics])
    sender, draft = broker.service.sender, Draft(broker.state)
    stage(draft, sender, transaction, "a", 0, check_batch(sender, published, 1_000), 1_000)
    draft.end_command()
    commit_stages(draft, transaction, [CommittedStage("a", 1)])
    draft.end_command()
    for facts in draft.fact_batches:
        broker.state.apply(facts)
