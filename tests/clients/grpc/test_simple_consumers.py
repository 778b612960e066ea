"""Simple consumers of Apache's gRPC clients: what is not acknowledged returns, and queues of FIFO groups wait."""

from __future__ import annotations

import pytest

from processes.grpc_clients.clients import ClientRefused
from tests.harness.grpc_servers import INVISIBLE_MS, GrpcPlace, bodies_of, receive_all, send


def test_what_is_not_acknowledged_returns(place: GrpcPlace) -> None:
    """Invisible time: when it is over, the message comes again, as its second attempt; acknowledged ones do not."""
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


@pytest.mark.uses("change")
def test_a_longer_invisible_time_keeps_a_message_away(place: GrpcPlace) -> None:
    """Changed invisible time: a message stays with its consumer, while others come back. Its new handle is good."""
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
    """Two consumers share a group, and one is killed with messages in its hands: the other gets them later."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, *(f"{number:02}" for number in range(20)))
    with place.start_clients() as doomed:
        held = place.start_simple(topic, process=doomed).receive(5, INVISIBLE_MS)
        assert held
    survivor = place.start_simple(topic)
    received = receive_all(survivor, 20)
    assert bodies_of(received) == [f"{number:02}" for number in range(20)]
    attempts = {message.body: message.attempt for message in received}
    assert {attempts[message.body] for message in held} == {2}


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
    """FIFO: what is not acknowledged in time comes again, before what follows it."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    send(place.start_producer(topic), topic, *"123", messageGroup="customer")
    consumer = place.start_simple(topic)
    first = receive_all(consumer, 2, acknowledge=False, count_max=2)
    assert [message.body for message in first] == ["1", "2"]
    consumer.call("ack", handle=first[0].handle)
    rest = receive_all(consumer, 2)
    assert [message.body for message in rest] == ["2", "3"]
