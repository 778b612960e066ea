"""Producers of Apache's gRPC clients: round trips, filters, delays, recalls, transactions."""

from __future__ import annotations

import time

import pytest

from tests.harness.grpc_servers import GrpcPlace, bodies_of, receive_all, receive_until, send


def test_a_message_is_received_as_it_was_sent(place: GrpcPlace) -> None:
    """Round trip: id, body, tag, keys and properties."""
    topic = place.create_topic()
    producer = place.start_producer(topic)
    fields = {"tag": "red", "keys": ["k1", "k2"], "properties": {"weight": "3"}}
    (message_id,) = send(producer, topic, "first", **fields)
    (received,) = receive_all(place.start_simple(topic), 1)
    shown = received.shown
    assert (received.message_id, shown["topic"], received.body) == (message_id, topic, "first")
    assert (shown["tag"], sorted(shown["keys"]), received.properties) == ("red", ["k1", "k2"], {"weight": "3"})
    assert (received.attempt, shown["messageGroup"]) == (1, None)


def test_a_large_body_arrives_whole(place: GrpcPlace) -> None:
    """Round trip: a body of a megabyte, which no client corrupts."""
    topic = place.create_topic()
    body = "0123456789abcdef" * (1 << 16)
    send(place.start_producer(topic), topic, body)
    (received,) = receive_all(place.start_simple(topic), 1)
    assert received.body == body


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("*", ["1", "2", "3", "4"]), ("blue", ["3"]), ("red || blue", ["1", "3"]), ("white", [])],
)
def test_a_filter_of_tags_lets_through(place: GrpcPlace, expression: str, expected: list[str]) -> None:
    """Filters of the type TAG. The last message passes each of them."""
    topic = place.create_topic(queues=1)
    producer = place.start_producer(topic)
    for body, tag in zip("123", ("red", "green", "blue"), strict=True):
        send(producer, topic, body, tag=tag)
    send(producer, topic, "4")
    send(producer, topic, "last", tag=expression.split()[0].replace("*", "any"))
    consumer = place.start_simple(topic, expression)
    assert bodies_of(receive_until(consumer, "last")) == [*expected, "last"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [("weight > 1", ["2", "3"]), ("weight BETWEEN 2 AND 3 AND TAGS = 'blue'", ["3"]), ("a IS NULL", ["4"])],
)
def test_a_filter_of_sql_lets_through(place: GrpcPlace, expression: str, expected: list[str]) -> None:
    """Filters of the type SQL92, on properties and tags. The last message passes each of them."""
    topic = place.create_topic(queues=1)
    producer = place.start_producer(topic)
    for weight, tag in enumerate(("red", "green", "blue"), start=1):
        send(producer, topic, str(weight), tag=tag, properties={"weight": str(weight), "a": "b"})
    send(producer, topic, "4")
    send(producer, topic, "last", tag="blue", properties={"weight": "3"})
    consumer = place.start_simple(topic, expression, sql=True)
    assert bodies_of(receive_until(consumer, "last")) == [*expected, "last"]


@pytest.mark.uses("deliveryMs")
def test_a_message_with_a_delivery_time_comes_then(place: GrpcPlace) -> None:
    """Delays: what is due earlier is delivered earlier, although it was sent later."""
    topic = place.create_topic("DELAY")
    producer = place.start_producer(topic)
    now_ms = time.time_ns() // 1_000_000
    send(producer, topic, "later", deliveryMs=now_ms + 6_000)
    send(producer, topic, "sooner", deliveryMs=now_ms + 3_000)
    consumer = place.start_simple(topic)
    received = [receive_all(consumer, 1)[0], receive_all(consumer, 1)[0]]
    assert [message.body for message in received] == ["sooner", "later"]


@pytest.mark.uses("recall")
def test_a_recalled_message_never_comes(place: GrpcPlace) -> None:
    """Recall: a message that waits for its delivery time is recalled by its handle."""
    topic = place.create_topic("DELAY", queues=1)
    producer = place.start_producer(topic)
    now_ms = time.time_ns() // 1_000_000
    recalled = producer.call("send", topic=topic, body="recalled", deliveryMs=now_ms + 6_000)
    send(producer, topic, "last", deliveryMs=now_ms + 8_000)
    told = producer.call("recall", topic=topic, handle=recalled["recallHandle"])
    assert told["messageId"] == recalled["messageId"]
    consumer = place.start_simple(topic)
    assert bodies_of(receive_until(consumer, "last")) == ["last"]


@pytest.mark.uses("transaction")
def test_committed_messages_are_received_and_others_never(place: GrpcPlace) -> None:
    """Transactions: a producer commits one and rolls back another."""
    topic = place.create_topic("TRANSACTION")
    producer = place.start_producer(topic, checker="UNKNOWN")
    send(producer, topic, "rolled back", transaction="ROLLBACK")
    (committed,) = send(producer, topic, "committed", transaction="COMMIT")
    consumer = place.start_simple(topic)
    (received,) = receive_all(consumer, 1)
    assert (received.body, received.message_id) == ("committed", committed)
    assert consumer.receive() == []


@pytest.mark.uses("transaction", "checker")
@pytest.mark.parametrize("answer", ["COMMIT", "ROLLBACK"])
def test_a_server_asks_for_the_fate_of_a_half_message(place: GrpcPlace, answer: str) -> None:
    """Transactions: the producer did neither, and its checker answers."""
    topic = place.create_topic("TRANSACTION")
    producer = place.start_producer(topic, checker=answer)
    send(producer, topic, "half", transaction="UNKNOWN")
    consumer = place.start_simple(topic)
    if answer == "COMMIT":
        assert bodies_of(receive_all(consumer, 1)) == ["half"]
        return
    send(producer, topic, "next", transaction="COMMIT")
    assert bodies_of(receive_all(consumer, 1)) == ["next"]
    assert consumer.receive() == []
