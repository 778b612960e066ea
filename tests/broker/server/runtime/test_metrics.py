"""The broker's counters, of facts and of calls."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Bounds, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.pulling.answers import PullStatus
from rmqpull_broker.core.pulling.message_pull import Pulled
from rmqpull_broker.core.state.facts import ColumnsStored, GroupDeleted, QueuePart, RowsStored, TopicDeleted
from rmqpull_broker.core.state.stage_facts import Splice, StagesCommitted, TransactionId
from rmqpull_broker.server.runtime.metrics import Histogram, Metrics
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.popping import GROUP, RETRY_TOPIC, TOPIC, PopHarness, run_pops
from tests.harness.server import ServerHarness, run_on_server

QUEUE = MessageQueue("orders", "broker-a", 0)


def rows(*bodies: bytes) -> tuple[StoredMessage, ...]:
    return tuple(StoredMessage(Message(body, "m"), offset, 0, "here") for offset, body in enumerate(bodies))


def batch(*bodies: bytes) -> pa.RecordBatch:
    return columns.from_rows(rows(*bodies))


@pytest.mark.parametrize(
    ("value", "counts"),
    [(0, [1, 0, 0]), (1, [1, 0, 0]), (1.5, [0, 1, 0]), (2, [0, 1, 0]), (3, [0, 0, 1])],
)
def test_a_bound_counts_for_the_bucket_below_it(value: float, counts: list[int]) -> None:
    histogram = Histogram((1, 2))
    histogram.observe(value)
    assert (histogram.counts.tolist(), histogram.sum) == (counts, value)


def test_stored_messages_are_counted_by_topic_in_either_form() -> None:
    metrics = Metrics()
    metrics.count_stored([RowsStored(QUEUE, rows(b"a", b"bcd")), GroupDeleted("g")])
    metrics.count_stored([ColumnsStored((QueuePart(QUEUE, 2, 2),), batch(b"", b"ef"))])
    bills = QUEUE._replace(topic="bills")
    metrics.count_stored([RowsStored(bills, rows(b"x"))])
    metrics.count_stored([ColumnsStored((QueuePart(QUEUE, 4, 2), QueuePart(bills, 1, 1)), batch(b"g", b"h", b"ijk"))])
    assert (metrics.messages_in, metrics.bytes_in) == ({"orders": 6, "bills": 2}, {"orders": 8, "bills": 4})


def test_staged_messages_count_when_they_are_stored_and_not_by_their_stage() -> None:
    metrics = Metrics()
    metrics.count_stored([ColumnsStored((QueuePart(QUEUE._replace(topic="%STAGE%a"), 0, 2),), batch(b"", b"ef"))])
    assert (metrics.messages_in, metrics.bytes_in) == ({}, {})


def test_a_commit_counts_its_messages_by_the_topics_in_which_they_are_readable() -> None:
    metrics, bills = Metrics(), QUEUE._replace(topic="bills")
    splices = (Splice(QUEUE, QUEUE, 0, 3, 30, 1, "host"), Splice(bills, bills._replace(queue_id=1), 4, 2, 7, 1, "host"))
    metrics.count_stored([StagesCommitted(TransactionId("query", 1), ("a",), None, splices)])
    assert (metrics.messages_in, metrics.bytes_in) == ({"orders": 3, "bills": 2}, {"orders": 30, "bills": 7})


def test_pulled_messages_are_counted_by_topic_and_pulls_by_status() -> None:
    metrics = Metrics()
    whole = batch(b"a", b"bcd", b"ef")
    metrics.count_pull("orders", Pulled(PullStatus.FOUND, 0, 3, Bounds(0, 3), [whole.slice(0, 1), whole.slice(2)]))
    metrics.count_pull("orders", Pulled(PullStatus.OFFSET_OVERFLOW_ONE, 3, 3, Bounds(0, 3)))
    assert metrics.pulls == {"FOUND": 1, "OFFSET_OVERFLOW_ONE": 1}
    assert (metrics.messages_out, metrics.bytes_out) == ({"orders": 2}, {"orders": 3})


def test_the_counters_of_a_deleted_topic_are_removed() -> None:
    metrics = Metrics()
    metrics.count_stored([RowsStored(QUEUE, rows(b"a")), TopicDeleted("orders"), TopicDeleted("unknown")])
    assert (metrics.messages_in, metrics.bytes_in) == ({}, {})


def test_writes_are_counted_with_their_size_and_time() -> None:
    metrics = Metrics()
    metrics.count_write(3, 0.002, None)
    metrics.count_write(100, 0.004, OSError("no space left"))
    assert (metrics.sync_seconds.sum, metrics.group_sizes.sum, metrics.sync_failures) == (0.006, 103, 1)


def test_every_call_is_counted_with_its_code() -> None:
    orders = v2.Resource(name="orders")
    pull = service.PullMessageRequest(
        group=v2.Resource(name="g"), message_queue=v2.MessageQueue(topic=orders), batch_size=32
    )
    body = v2.Message(topic=orders, body=b"12345", system_properties=v2.SystemProperties(message_id="m"))

    async def story(server: ServerHarness) -> None:
        await server.code(service.SendMessageRequest(messages=[body, body]))
        await server.code(service.QueryRouteRequest(topic=v2.Resource(name="unknown")))
        for queue_id in (0, 1):
            pull.message_queue.id = queue_id
            await server.code(pull)
        metrics = server.metrics
        assert metrics.calls == {
            ("SendMessage", v2.Code.OK): 1,
            ("QueryRoute", v2.Code.TOPIC_NOT_FOUND): 1,
            ("PullMessage", v2.Code.OK): 1,
            ("PullMessage", v2.Code.MESSAGE_NOT_FOUND): 1,
        }
        assert [sum(metrics.call_seconds[name].counts) for name in ("SendMessage", "PullMessage")] == [1, 2]
        assert (metrics.bytes_in, metrics.bytes_out) == ({"orders": 10}, {"orders": 10})
        assert metrics.pulls == {"FOUND": 1, "NO_MESSAGE_IN_QUEUE": 1}
        assert metrics.sync_failures == 0

    run_on_server(story)


def test_deliveries_and_what_follows_are_counted_by_group_and_topic() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        first = await broker.receive()
        await broker.ack(first.handles[0], first.handles[0])
        await broker.advance(10_000)
        second = await broker.receive()
        await broker.give_up(second.handles[0])
        metrics, orders, retries = broker.metrics, (GROUP, TOPIC), (GROUP, RETRY_TOPIC)
        assert metrics.delivered == {orders: 2, retries: 1}
        assert metrics.redelivered == {orders: 0, retries: 1}
        assert metrics.acknowledged == {orders: 1}
        assert metrics.dead_lettered == {(GROUP, f"%DLQ%{GROUP}"): 1}
        assert (metrics.messages_out, metrics.bytes_out) == ({TOPIC: 2, RETRY_TOPIC: 1}, {TOPIC: 2, RETRY_TOPIC: 1})
        metrics.count_stored([TopicDeleted(RETRY_TOPIC)])
        assert metrics.delivered == {orders: 2}
        metrics.count_stored([GroupDeleted(GROUP)])
        assert metrics.delivered == metrics.acknowledged == metrics.dead_lettered == {}

    run_pops(story)


def test_another_delivery_in_order_is_counted_as_one() -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b", message_group="g")
        await broker.receive()
        await broker.advance(10_000)
        await broker.receive()
        assert (broker.metrics.delivered, broker.metrics.redelivered) == ({(GROUP, TOPIC): 4}, {(GROUP, TOPIC): 2})

    run_pops(story, consume_message_orderly=True)
