"""The client for Go, rocketmq-client-go: producers and push consumers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from processes.maven import SoftwareMissing
from tests.clients.programs.java.many_clients import Kind, ManyClients, OneClient
from tests.harness.client_servers import SERVERS, ClientServers, Place, ServerKind, bodies_of, make_message
from tests.harness.waiting import wait_until


class GoPlace(Place):
    """A place whose clients are in Go."""

    def __init__(self, servers: ClientServers, kind: ServerKind, go: ManyClients) -> None:
        super().__init__(servers, kind, "5.5")
        self.go = go

    def start_go(self, kind: Kind, **options: Any) -> OneClient:
        """Starts a client in Go."""
        return self.start(kind, process=self.go, **options)


@pytest.fixture(params=SERVERS)
def place(client_servers: ClientServers, request: pytest.FixtureRequest) -> Iterator[GoPlace]:
    """Topics and groups of one scenario on one server."""
    try:
        go = client_servers.find_go()
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    place = GoPlace(client_servers, request.param, go)
    try:
        yield place
    finally:
        place.close()


def test_go_sends_and_java_reads(place: GoPlace) -> None:
    """Go: a producer sends single messages, batches and delayed messages, which Java's clients read."""
    topic = place.create_topic()
    producer = place.start_go("producer")
    first = producer.call("send", message=make_message(topic, "1", tags="red", keys="k", properties={"a": "b"}))
    assert (first["isOk"], first["broker"], first["queueOffset"]) == (True, "broker-a", 0)
    assert producer.call("sendBatch", messages=[make_message(topic, "2"), make_message(topic, "3")])["isOk"]
    assert producer.call("send", message=make_message(topic, "4", delayLevel=1))["isOk"]
    read = place.read_topic(topic, 4)
    assert [one.body for one in read] == ["1", "2", "3", "4"]
    assert {name: read[0].properties[name] for name in ("TAGS", "KEYS", "a")} == {"TAGS": "red", "KEYS": "k", "a": "b"}
    assert read[0].stored["msgId"] == first["msgId"]


def test_go_consumes_what_its_filter_lets_through(place: GoPlace) -> None:
    """Go: a push consumer filters by TAG, and gets messages that are sent while it runs."""
    topic = place.create_topic(queues=4)
    place.send(topic, "1", tags="red")
    place.send(topic, "2", tags="blue")
    consumer = place.start_go("push", topic=topic, expression="red || green")
    place.send(topic, "3", tags="green")
    assert bodies_of(place.read(consumer, 2)) == ["1", "3"]


def test_go_consumes_refused_messages_again(place: GoPlace) -> None:
    """Go: a message that is refused is redelivered with its attempts counted."""
    topic = place.create_topic()
    place.send(topic, "one")
    consumer = place.start_go("push", topic=topic, refusals=2)
    assert [(one.body, one.attempts) for one in place.read(consumer, 3)] == [("one", 0), ("one", 1), ("one", 2)]


def test_go_consumes_in_order(place: GoPlace) -> None:
    """Go: an ordered consumer locks its queue and keeps the order of its messages."""
    topic = place.create_topic()
    bodies = [str(number) for number in range(10)]
    place.send(topic, *bodies)
    consumer = place.start_go("push", topic=topic, ordered=True)
    assert [one.body for one in place.read(consumer, 10)] == bodies


def test_go_and_java_share_the_queues_of_a_group(place: GoPlace) -> None:
    """Go and Java: members of both share the queues of their group."""
    topic = place.create_topic(queues=4)
    java = place.start("push", topic=topic)
    place.start_go("push", topic=topic)
    wait_until(lambda: len(java.call("queues", topic=topic)) == 2, "shared equally")
