"""Simple consumers of Apache's gRPC clients: what is not acknowledged returns, and queues of FIFO groups wait."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.clients.programs.grpc.clients import ClientRefused, Received
from tests.harness.grpc_servers import INVISIBLE_MS, GrpcPlace, bodies_of, receive_all, send


@pytest.mark.long
def test_what_is_not_acknowledged_returns(place: GrpcPlace) -> None:
    """Invisible time: when it is over, the message is redelivered, as its second attempt; acknowledged ones are not."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "1", "2", "3")
    consumer = place.start_simple(topic)
    first = receive_all(consumer, 3, acknowledge=False)
    (kept,) = [message for message in first if message.body == "2"]
    for message in first:
        if message is not kept:
            consumer.call("ack", handle=message.handle)
    (again,) = receive_all(consumer, 1)
    assert (again.body, again.attempt, again.message_id) == ("2", 2, kept.message_id)
    assert consumer.receive() == []


@pytest.mark.long
def test_a_handle_that_has_expired_is_refused(place: GrpcPlace) -> None:
    """Receipt handles: the one of the first attempt acknowledges nothing when the second has begun."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    (first,) = receive_all(consumer, 1, acknowledge=False)
    (second,) = receive_all(consumer, 1, acknowledge=False)
    with pytest.raises(ClientRefused):
        consumer.call("ack", handle=first.handle)
    consumer.call("ack", handle=second.handle)


@pytest.mark.uses("change")
def test_a_shorter_invisible_time_brings_a_message_back(place: GrpcPlace) -> None:
    """Changed invisible time: it replaces the one of the receive, and the new handle the old one."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    (first,) = receive_all(consumer, 1, acknowledge=False, invisible_ms=600_000)
    changed = consumer.call("change", handle=first.handle, invisibleMs=2_000)
    assert changed["handle"] != first.handle
    (again,) = receive_all(consumer, 1)
    assert (again.body, again.attempt) == ("one", 2)


@pytest.mark.long
@pytest.mark.uses("change")
def test_a_longer_invisible_time_keeps_a_message_away(place: GrpcPlace) -> None:
    """Changed invisible time: a message stays with its consumer, while others are redelivered.

    Its new handle is valid.
    """
    topic = place.create_topic()
    producer = place.start_producer(topic)
    send(producer, topic, "kept")
    consumer = place.start_simple(topic)
    (kept,) = receive_all(consumer, 1, acknowledge=False)
    changed = consumer.call("change", handle=kept.handle, invisibleMs=600_000)
    send(producer, topic, "returned")
    receive_all(consumer, 1, acknowledge=False)
    (again,) = receive_all(consumer, 1)
    assert (again.body, again.attempt) == ("returned", 2)
    consumer.call("ack", handle=changed["handle"])


def test_two_groups_receive_all(place: GrpcPlace) -> None:
    """Groups: each gets every message, whatever the other acknowledges."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, *"12345")
    for group in ("a", "b"):
        consumer = place.start_simple(topic, group=f"{place.group}-{group}")
        assert bodies_of(receive_all(consumer, 5)) == [*"12345"]


def test_a_dead_consumer_loses_nothing(place: GrpcPlace) -> None:
    """Two consumers share a group, and one is killed after both have received messages: what it held comes to the
    other, as a second attempt, and what it had acknowledged does not."""
    topic = place.create_topic()
    producer = place.start_producer(topic)
    send(producer, topic, *(f"{number:02}" for number in range(20)))
    survivor = place.start_simple(topic)
    with place.start_clients() as doomed:
        dying = place.start_simple(topic, process=doomed)
        before = receive_all(survivor, 1, count_max=5)
        finished, *held = receive_all(dying, 2, acknowledge=False, count_max=5, invisible_ms=INVISIBLE_MS)
        dying.call("ack", handle=finished.handle)
    assert not doomed.process.is_running
    send(producer, topic, *(f"{number:02}" for number in range(20, 30)))
    after = receive_all(survivor, 29 - len(before))
    assert bodies_of([finished, *before, *after]) == [f"{number:02}" for number in range(30)]
    again = [message for message in after if message.attempt > 1]
    assert [(message.message_id, message.attempt) for message in sorted_by_body(again)] == [
        (message.message_id, 2) for message in sorted_by_body(held)
    ]


def sorted_by_body(messages: Iterable[Received]) -> list[Received]:
    return sorted(messages, key=lambda message: message.body)


def test_the_queue_of_a_message_group_waits(place: GrpcPlace) -> None:
    """FIFO: while a batch of a queue is not acknowledged, the queue gives nothing; then the next ones in order."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    send(place.start_producer(topic), topic, *"1234", messageGroup="customer")
    consumer = place.start_simple(topic)
    first = receive_all(consumer, 2, acknowledge=False, count_max=2, invisible_ms=60_000)
    assert [message.body for message in first] == ["1", "2"]
    assert [message.shown["messageGroup"] for message in first] == ["customer"] * 2
    assert [message.properties for message in first] == [{"__SHARDINGKEY": "customer"}] * 2
    assert consumer.receive() == []
    for message in first:
        consumer.call("ack", handle=message.handle)
    rest = receive_all(consumer, 2)
    assert [(message.body, message.attempt) for message in rest] == [("3", 1), ("4", 1)]


def test_an_unacknowledged_batch_returns_in_order(place: GrpcPlace) -> None:
    """FIFO: what is not acknowledged in time is redelivered, before what follows it."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    send(place.start_producer(topic), topic, *"123", messageGroup="customer")
    consumer = place.start_simple(topic)
    first = receive_all(consumer, 2, acknowledge=False, count_max=2)
    assert [message.body for message in first] == ["1", "2"]
    consumer.call("ack", handle=first[0].handle)
    rest = receive_all(consumer, 2)
    assert [message.body for message in rest] == ["2", "3"]
