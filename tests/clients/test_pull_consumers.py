"""Apache's pull consumers: lite pull with subscribe and assign, and the one that it has replaced."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.clients.programs.java.many_clients import OneClient, Read
from tests.harness.client_servers import BROKER, Place, bodies_of, make_message
from tests.harness.waiting import wait_until


@pytest.mark.small
def test_lite_pull_subscribes_and_commits(place: Place) -> None:
    """Lite pull with subscribe: members share the queues, filter, and commit what they have polled."""
    topic = place.create_topic(queues=2)
    members = [place.start("litePull", topic=topic, expression="red") for _ in range(2)]
    wait_until_shared(members)
    for queue in range(2):
        place.send(topic, "1", "2", tags="red", broker=BROKER, queue=queue)
        place.send(topic, "3", tags="blue", broker=BROKER, queue=queue)
    found: list[list[Read]] = [[], []]

    def poll() -> bool:
        for member, read in zip(members, found, strict=True):
            read.extend(map(Read, member.call("poll", timeoutMs=100)))
        return sum(map(len, found)) >= 4

    wait_until(poll, "polled")
    assert bodies_of(read for one in found for read in one) == ["1", "1", "2", "2"]
    for member in members:
        member.call("commitAll")
        place.shut_down(member)
    assert [place.administration.query_offset(place.group, topic, queue) for queue in range(2)] == [2, 2]


def wait_until_shared(members: Sequence[OneClient]) -> None:
    shares: list[object] = []

    def is_shared() -> bool:
        shares[:] = [one.call("assignment") for one in members]
        return [len(share) for share in shares if isinstance(share, list)] == [1, 1]

    try:
        wait_until(is_shared, "shared equally")
    except AssertionError as error:
        raise AssertionError(f"{error}: {shares}") from None


@pytest.mark.small
def test_lite_pull_assigns_and_seeks(place: Place) -> None:
    """Lite pull with assign: seek to an offset, to the beginning and to the end, offsets of the group and by time."""
    topic = place.create_topic()
    place.send(topic, *(str(number) for number in range(6)))
    place.wait_for_messages(topic, 6)
    consumer = place.start("litePull", queues=[[topic, BROKER, 0]])
    queue = {"topic": topic, "broker": BROKER, "queue": 0}
    assert consumer.call("queues", topic=topic) == [[topic, BROKER, 0]]
    place.poll(consumer, 6)
    for seek, offsets in (("seekToBegin", range(6)), ("seek", range(4, 6))):
        wait_for_seek(consumer, seek, queue, [*offsets])
    consumer.call("seekToEnd", **queue)
    place.send(topic, "6")
    assert [one.body for one in place.poll(consumer, 1)] == ["6"]
    consumer.call("commit", **queue, offset=5)
    wait_until(lambda: consumer.call("committed", **queue) == 5, "committed")
    wait_until(lambda: place.administration.query_offset(place.group, topic, 0) == 5, "stored on the broker")
    assert consumer.call("findOffset", **queue, timestamp=0) == 0


def wait_for_seek(consumer: OneClient, seek: str, queue: dict[str, object], expected: list[int]) -> None:
    """Returns when a seek is followed by the messages with these offsets.

    The client loses a seek if its own thread begins a pull at the same moment. So the seek is repeated.
    """

    def seek_and_poll() -> bool:
        consumer.call(seek, **queue, offset=4)
        offsets: list[int] = []
        while polled := consumer.call("poll", timeoutMs=1_000):
            offsets += [Read(message).offset for message in polled]
        return offsets == expected

    wait_until(seek_and_poll, f"{expected} read after {seek}")


@pytest.fixture
def old_pull(place: Place) -> OneClient:
    return place.start("oldPull")


@pytest.mark.small
def test_the_old_pull_consumer_gets_each_status(place: Place, old_pull: OneClient) -> None:
    """`DefaultMQPullConsumer`: each status of a pull with its next offset and the bounds of the queue."""
    topic = place.create_topic()
    queue = {"topic": topic, "broker": BROKER, "queue": 0}
    assert old_pull.call("queues", topic=topic) == [[topic, BROKER, 0]]
    assert pull(old_pull, queue, 0) == ("NO_NEW_MSG", 0, 0, 0, [])
    place.send(topic, "1", "2", "3", tags="red")
    place.wait_for_messages(topic, 3)
    assert pull(old_pull, queue, 0, max=2) == ("FOUND", 2, 0, 3, ["1", "2"])
    assert pull(old_pull, queue, 1, expression="blue") == ("NO_MATCHED_MSG", 3, 0, 3, [])
    assert pull(old_pull, queue, 3) == ("NO_NEW_MSG", 3, 0, 3, [])
    assert pull(old_pull, queue, 9) == ("OFFSET_ILLEGAL", 3, 0, 3, [])


def test_a_pull_that_waits_gets_the_next_message(place: Place, old_pull: OneClient) -> None:
    """Long polling: `pullBlockIfNotFound` gets a message that is sent while it waits."""
    topic = place.create_topic()
    queue = {"topic": topic, "broker": BROKER, "queue": 0}
    delayed = make_message(topic, "late", delayLevel=1)
    place.producer.call("send", message=delayed)
    assert pull(old_pull, queue, 0, wait=True) == ("FOUND", 1, 0, 1, ["late"])


@pytest.mark.small
def test_the_old_pull_consumer_sets_offsets_and_sends_back(place: Place, old_pull: OneClient) -> None:
    """`DefaultMQPullConsumer`: it sets and finds offsets of its group, and sends a message back to be retried."""
    topic = place.create_topic()
    queue = {"topic": topic, "broker": BROKER, "queue": 0}
    place.send(topic, "1", "2")
    pull(old_pull, queue, 0)  # the broker knows the group from now on
    old_pull.call("setOffset", **queue, offset=1)
    assert old_pull.call("findOffset", **queue) == 1
    assert place.administration.query_offset(place.group, topic, 0) == 1
    old_pull.call("sendBack", **queue, offset=1, delayLevel=1)
    (read,) = place.read_topic(f"%RETRY%{place.group}", 1)
    assert (read.body, read.attempts, read.properties["RETRY_TOPIC"]) == ("2", 1, topic)


def pull(consumer: OneClient, queue: dict[str, object], offset: int, **options: object) -> tuple[object, ...]:
    """Returns status, next offset, min and max offset, and the bodies."""
    result = consumer.call("pull", **queue, offset=offset, **options)
    bodies = [Read(message).body for message in result["messages"] or ()]
    return result["status"], result["next"], result["min"], result["max"], bodies
