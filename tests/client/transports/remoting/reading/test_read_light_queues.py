"""Light message queues and lite topics of Apache's brokers are read row by row, as they were sent."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from processes.apache.cluster import ApacheCluster, make_cluster
from processes.apache.java_clients import JavaProducer
from processes.apache.releases import RELEASE_4, RELEASE_5, RELEASE_5_5, Release
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError, RequestRefused
from rmqpull_client.model import EVERYTHING, SQL92, Bounds, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect, get_producer
from rmqpull_client.transports.port import BrokerClient
from tests.client.transports.remoting.sending.test_producer_apache import publish
from tests.harness.apache import run_apache

MASTERS = ("broker-a", "broker-b")
KEEPING_LIGHT_QUEUES = {"enableLmq": "true", "enableMultiDispatch": "true", "enablePropertyFilter": "true"}
WAIT_MS = 30_000


@pytest.fixture(scope="module")
def release(apache_release: Release) -> Release:
    """5.5 has lite topics, and light message queues as 4.9 has them, too."""
    return RELEASE_5_5 if apache_release is RELEASE_5 else apache_release


@pytest.fixture(scope="module")
def cluster(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheCluster]:
    with run_apache(release, tmp_path_factory.mktemp("light")) as start:
        yield start(make_cluster, masters=MASTERS, properties=KEEPING_LIGHT_QUEUES)


@pytest.fixture(scope="module")
def java(cluster: ApacheCluster, release: Release, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaProducer]:
    with JavaProducer(release, cluster.addresses, tmp_path_factory.mktemp("producer")) as producer:
        yield producer


@pytest.fixture
def parent(cluster: ApacheCluster, request: pytest.FixtureRequest) -> str:
    """A topic of its own for each test, with two queues on each broker."""
    name = f"parent-{abs(hash(request.node.name)):x}"
    cluster.administration.create_topic(name, 2)
    return name


@pytest.fixture
def client(cluster: ApacheCluster, parent: str) -> Iterator[BrokerClient]:
    found = connect(Connection(name_servers=cluster.addresses, parent_topic=parent))
    yield found
    found.close()


def dispatched(*queues: str, **properties: str) -> dict[str, str]:
    return {"INNER_MULTI_DISPATCH": ",".join(queues), **properties}


def find_bounds(client: BrokerClient, topic: str, count: int) -> dict[MessageQueue, Bounds]:
    """Returns the bounds when so many messages are in the queues: brokers add them after their response."""
    until_s = time.monotonic() + WAIT_MS / 1000
    while True:
        bounds = dict(client.query_bounds([topic])[topic].queues)
        if sum(found.max_offset for found in bounds.values()) >= count or time.monotonic() > until_s:
            return bounds
        time.sleep(0.05)


def read(
    client: BrokerClient, bounds: dict[MessageQueue, Bounds], message_filter: MessageFilter = EVERYTHING
) -> dict[MessageQueue, dict[int, bytes]]:
    ranges = [QueueRange(queue, found.min_offset, found.max_offset) for queue, found in bounds.items()]
    rows: dict[MessageQueue, dict[int, bytes]] = {}
    for step in client.read("readers", ranges, ["queueOffset", "body"], message_filter=message_filter):
        for entry in step:
            for batch in entry.batches:
                for row in batch.to_pylist():
                    rows.setdefault(entry.queue, {})[row["queueOffset"]] = row["body"]
    return rows


def expect(topic: str, sent: Sequence[dict[str, Any]], bodies: Sequence[bytes]) -> dict[MessageQueue, dict[int, bytes]]:
    """Returns what was sent, by the light message queue on the broker that took it."""
    rows: dict[MessageQueue, dict[int, bytes]] = {}
    for result, body in zip(sent, bodies, strict=True):
        queue = rows.setdefault(MessageQueue(topic, result["broker"], 0), {})
        queue[len(queue)] = body
    return rows


def test_a_light_message_queue_has_its_messages_with_its_own_offsets(
    client: BrokerClient, java: JavaProducer, parent: str
) -> None:
    """They are in other queues, with other offsets, and in several light message queues at the same time."""
    every, some = f"%LMQ%every-of-{parent}", f"%LMQ%{parent}$third.1"
    bodies = [b"%03d" % number for number in range(200)]
    sent = [
        java.send(
            parent,
            body,
            tags="third" if number % 3 == 0 else "other",
            properties=dispatched(some, every, n=str(number)) if number % 3 == 0 else dispatched(every, n=str(number)),
        )
        for number, body in enumerate(bodies)
    ]
    bounds = find_bounds(client, every, len(bodies))
    assert set(bounds) == {MessageQueue(every, broker, 0) for broker in MASTERS}
    assert read(client, bounds) == expect(every, sent, bodies)
    of_some = find_bounds(client, some, len(bodies[::3]))
    assert read(client, of_some) == expect(some, sent[::3], bodies[::3])
    for chosen in (MessageFilter("third"), MessageFilter("n >= 150", SQL92)):
        found = read(client, bounds, chosen)
        wanted = bodies[::3] if chosen.expression == "third" else bodies[150:]
        assert sorted(body for rows in found.values() for body in rows.values()) == wanted
        everything = expect(every, sent, bodies)
        assert all(everything[queue].items() >= rows.items() for queue, rows in found.items())


def test_offsets_of_groups_and_times_and_waits(
    client: BrokerClient, java: JavaProducer, parent: str, release: Release
) -> None:
    topic = f"%LMQ%of-{parent}"
    before_ms = time.time_ns() // 1_000_000
    sent = [java.send(parent, b"one", properties=dispatched(topic)) for _ in range(6)]
    bounds = find_bounds(client, topic, 6)
    ends = {queue: found.max_offset for queue, found in bounds.items()}
    assert sum(ends.values()) == len(sent)
    group = f"readers-of-{parent}"
    if release is not RELEASE_4:  # which tells 0 for none
        assert client.get_consumer_offsets(group, list(ends)) == dict.fromkeys(ends)
    client.set_consumer_offsets(group, ends)
    assert client.get_consumer_offsets(group, list(ends)) == ends
    assert client.find_offsets_at(dict.fromkeys(ends, before_ms)) == dict.fromkeys(ends, 0)
    assert client.find_offsets_at(dict.fromkeys(ends, before_ms + 3_600_000)) == ends
    witnesses = client.look_at(group, {queue: end - 1 for queue, end in ends.items()})
    assert {queue: found and found.offset for queue, found in witnesses.items()} == {
        queue: end - 1 for queue, end in ends.items()
    }
    assert not client.wait_for_messages(group, ends, 300)
    java.send(parent, b"another topic's")
    java.send(parent, b"next", properties=dispatched(topic))
    assert client.wait_for_messages(group, ends, WAIT_MS)
    assert sum(len(rows) for rows in read(client, find_bounds(client, topic, 7)).values()) == 7


def test_a_queue_that_nobody_has_written_to_is_empty(client: BrokerClient, parent: str) -> None:
    topic = f"%LMQ%nothing-of-{parent}"
    assert client.query_bounds([topic])[topic].queues == {
        MessageQueue(topic, broker, 0): Bounds(0, 0) for broker in MASTERS
    }


def test_delayed_and_transactional_messages(client: BrokerClient, java: JavaProducer, parent: str) -> None:
    """Brokers put the half message of a transaction there too, whatever becomes of it."""
    topic = f"%LMQ%of-{parent}"
    java.send(parent, b"later", delayLevel=1, properties=dispatched(topic))
    java.send(parent, b"done", transaction="COMMIT_MESSAGE", properties=dispatched(topic))
    java.send(parent, b"undone", transaction="ROLLBACK_MESSAGE", properties=dispatched(topic))
    found = read(client, find_bounds(client, topic, 4))
    assert sorted(body for rows in found.values() for body in rows.values()) == [b"done", b"done", b"later", b"undone"]


def test_lite_topics(cluster: ApacheCluster, release: Release, java: JavaProducer) -> None:
    if release is not RELEASE_5_5:
        pytest.skip("only 5.5 has lite topics")
    cluster.administration.create_topic("chats", 2, attributes={"message.type": "LITE"})
    bodies = [b"%02d" % number for number in range(40)]
    names = ["alice" if number % 4 else "bob" for number in range(40)]
    sent = [
        java.send("chats", body, properties={"__LITE_TOPIC": name}) for body, name in zip(bodies, names, strict=True)
    ]
    client = connect(Connection(name_servers=cluster.addresses))
    for name in ("alice", "bob"):
        chosen = [number for number in range(40) if names[number] == name]
        topic = f"%LMQ%$chats${name}"
        bounds = find_bounds(client, topic, len(chosen))
        assert read(client, bounds) == expect(topic, [sent[at] for at in chosen], [bodies[at] for at in chosen])
    client.close()


def test_nothing_is_written_to_them(cluster: ApacheCluster, parent: str) -> None:
    producer = get_producer(Connection(name_servers=cluster.addresses, parent_topic=parent))
    with pytest.raises(RequestRefused, match="is a light message queue"):
        publish(producer, f"%LMQ%of-{parent}", {"body": b"row"})


def test_a_broker_that_keeps_none_says_so(apache: ApacheCluster) -> None:
    """By default it does not, and says of each that it is empty."""
    apache.administration.create_topic("ordinary", 1)
    client = connect(Connection(name_servers=apache.addresses, parent_topic="ordinary"))
    with pytest.raises(OptionError, match=r"Broker broker-a keeps no light message queues, such as %LMQ%a.*enableLmq"):
        client.query_bounds(["%LMQ%a"])
    client.close()
