"""Groups with members in Python and in Java: they share the queues as Apache's classes do, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rmqpull_client import Averagely, MessageQueue
from rmqpull_client.consumers import LitePullConsumer, LitePullSettings
from tests.clients.programs.java.many_clients import OneClient, Read
from tests.harness.client_servers import BROKER, Place
from tests.harness.waiting import wait_until

SETTINGS = LitePullSettings(consume_from_where="CONSUME_FROM_FIRST_OFFSET")


@pytest.mark.small
def test_members_in_python_and_java_share_a_group(place: Place) -> None:
    """A member in Python joins a group of Java's, takes over from one that ends, and hands over when it ends itself.

    Each share is what AVG gives the sorted client ids. After a hand-over nothing is lost, and nothing before the
    consumer offsets is repeated.
    """
    topic = place.create_topic(queues=8)
    queues = [MessageQueue(topic, BROKER, number) for number in range(8)]
    java = place.start("litePull", topic=topic)
    python = LitePullConsumer(place.server.address, place.group, SETTINGS)
    python.subscribe(topic)

    def wait_for_shares(java_count: int, python_count: int) -> None:
        wait_until(lambda: len(share_of(java)) == java_count and len(python.assignment) == python_count, "shared")

    with python:
        wait_for_shares(4, 4)
        blocks = Averagely().allocate_all(queues, ["a", "b"])
        assert sorted(python.assignment) in blocks.values()
        assert sorted([*share_of(java), *(queue.queue_id for queue in python.assignment)]) == [*range(8)]
        sent = send(place, topic, 0)
        got = poll_both(java, python, len(sent))
        assert sorted(got) == sorted(sent)
        own = share_of(java)
        java.call("commitAll")
        wait_until(
            lambda: {place.administration.query_offset(place.group, topic, queue) for queue in own} == {2}, "set"
        )
        place.shut_down(java)
        wait_until(lambda: len(python.assignment) == 8, "taken over")
        sent = send(place, topic, 1)
        found = poll_until(lambda: [message.body.decode() for message in python.poll(200)], len(sent))
        assert sorted(found) == sorted(sent)
    heir = place.start("litePull", topic=topic)
    wait_until(lambda: len(share_of(heir)) == 8, "handed over")
    sent = send(place, topic, 2)
    assert sorted(poll_until(lambda: bodies_of(heir), len(sent))) == sorted(sent)
    offsets = [place.administration.query_offset(place.group, topic, number) for number in range(8)]
    assert offsets == [4] * 8


def share_of(java: OneClient) -> list[int]:
    return [queue for _, _, queue in java.call("assignment")]


def bodies_of(java: OneClient) -> list[str]:
    return [Read(message).body for message in java.call("poll", timeoutMs=200)]


def send(place: Place, topic: str, number: int) -> list[str]:
    """Sends two messages to each queue."""
    sent = []
    for queue in range(8):
        bodies = [f"{number}-{queue}-{each}" for each in range(2)]
        place.send(topic, *bodies, broker=BROKER, queue=queue)
        sent += bodies
    return sent


def poll_both(java: OneClient, python: LitePullConsumer, count: int) -> list[str]:
    return poll_until(lambda: [*bodies_of(java), *(message.body.decode() for message in python.poll(200))], count)


def poll_until(poll: Callable[[], list[str]], count: int) -> list[str]:
    found: list[str] = []

    def has_all() -> bool:
        found.extend(poll())
        return len(found) >= count

    wait_until(has_all, f"{count} messages")
    return found
