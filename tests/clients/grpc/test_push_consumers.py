"""Push consumers of Apache's gRPC clients: concurrently, in order, retried, and with dead letters."""

from __future__ import annotations

from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from processes.grpc_clients.lacks import LACKS
from tests.clients.programs.grpc.clients import LANGUAGES, GrpcClient, Received
from tests.harness.client_servers import SERVERS
from tests.harness.grpc_servers import (
    GrpcPlace,
    bodies_of,
    busy,
    has_messages,
    receive_all,
    send,
    send_while_possible,
    wait_for_consumed,
)
from tests.harness.waiting import WAIT_S, wait_until

pytestmark = pytest.mark.uses("push")


def test_a_push_consumer_gets_each_message_once(place: GrpcPlace) -> None:
    """Concurrently: messages sent before and after its start."""
    topic = place.create_topic()
    producer = place.start_producer(topic)
    send(producer, topic, "before")
    consumer = place.start_push(topic)
    wait_for_consumed([consumer], 1)
    producer.call("send", topic=topic, count=200)
    consumed = wait_for_consumed([consumer], 201)
    assert bodies_of(consumed) == sorted(["before", *(f"body-{number}" for number in range(200))])
    assert {message.attempt for message in consumed} == {1}


def test_a_refused_message_is_redelivered(place: GrpcPlace) -> None:
    """Retries: a failed delivery is redelivered with its attempts counted, until it succeeds."""
    topic = place.create_topic()
    producer = place.start_producer(topic)
    (message_id,) = send(producer, topic, "one")
    consumer = place.start_push(topic, fail=1)

    def list_attempts() -> list[int]:
        return [message.attempt for message in consumer.consumed if message.message_id == message_id]

    with busy(producer, topic):
        wait_until(lambda: len(list_attempts()) >= 2, "consumed again")
    assert list_attempts() == [1, 2]


def test_a_message_that_always_fails_becomes_a_dead_letter(place: GrpcPlace) -> None:
    """Retries: after the last attempt of its group, the message is in the group's dead letter topic."""
    topic = place.create_topic()
    place.create_group(retryMaxTimes=1)
    producer = place.start_producer(topic)
    (message_id,) = send(producer, topic, "poison", tag="red", properties={"a": "b"})
    consumer = place.start_push(topic, fail=-1)
    dead = f"%DLQ%{place.group}"
    with busy(producer, topic):
        wait_until(lambda: has_messages(place, dead), "a dead letter")
    reader = place.start_simple(dead, "red", group=f"{place.group}-dead")
    (letter,) = receive_all(reader, 1)
    assert (letter.body, letter.shown["tag"], letter.properties["a"]) == ("poison", "red", "b")
    attempts = [message.attempt for message in consumer.consumed if message.message_id == message_id]
    assert attempts == [1, 2]


@pytest.mark.uses("fifo retry")
def test_messages_of_a_group_are_consumed_in_order_with_failures(place: GrpcPlace) -> None:
    """In order: a message that fails is consumed again before the next one of its message group."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    producer = place.start_producer(topic)
    for number in range(3):
        for customer in ("a", "b"):
            send(producer, topic, f"{customer}{number}", messageGroup=customer)
    consumer = place.start_push(topic, fail=1)
    by_group: defaultdict[str, list[str]] = defaultdict(list)
    for message in wait_for_consumed([consumer], 12):
        by_group[message.shown["messageGroup"]].append(message.body)
    assert by_group == {key: [f"{key}{number}" for number in (0, 0, 1, 1, 2, 2)] for key in ("a", "b")}


def test_messages_are_consumed_in_the_order_of_many_groups(place: GrpcPlace) -> None:
    """In order: many message groups at once, each in its order."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    producer = place.start_producer(topic)
    for customer in range(8):
        producer.call("send", topic=topic, count=20, messageGroup=f"customer-{customer}")
    consumer = place.start_push(topic)
    by_group: defaultdict[str, list[str]] = defaultdict(list)
    for message in wait_for_consumed([consumer], 160):
        by_group[message.shown["messageGroup"]].append(message.body)
    assert [*by_group.values()] == [[f"body-{number}" for number in range(20)]] * 8


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(2_000, id="2000"),
        pytest.param(100_000, id="100000", marks=[pytest.mark.long, pytest.mark.nightly]),
    ],
)
def test_two_consumers_share_many_messages(place: GrpcPlace, count: int) -> None:
    """Two members of a group: each message is consumed once, and both consume."""
    topic = place.create_topic(queues=8)
    members = [place.start_push(topic), place.start_push(topic)]
    producer = place.start_producer(topic)
    sent = [
        receipt["messageId"]
        for _ in range(count // 2_000)  # a call has a time limit, and a busy machine is slow
        for receipt in producer.call("send", topic=topic, count=2_000)
    ]
    wait_for_consumed(members, count, wait_s=600)
    # A client sends again what is not answered in time, with the same id: the broker may have more than was sent.
    wait_until(lambda: set(sent) <= {message.message_id for message in read_all(members)}, "each message consumed")
    consumed = read_all(members)
    assert {message.message_id for message in consumed} == set(sent)
    assert {message.attempt for message in consumed} == {1}
    assert set(Counter(place_of(message) for message in consumed).values()) == {1}
    assert all(member.consumed for member in members)


def read_all(members: list[GrpcClient]) -> list[Received]:
    return [message for member in members for message in member.consumed]


def place_of(message: Received) -> tuple[str, ...]:
    """Returns where a message is stored: kind of topic, broker, queue and offset, as its handle says."""
    return tuple(message.handle.split(" ")[4:8])


@pytest.mark.long
def test_a_broker_that_restarts_loses_nothing(place: GrpcPlace) -> None:
    """Restarts: a broker is killed while messages are sent and consumed. What it acknowledged is consumed.

    Where the proxy is restarted with it, a client that does not connect again is replaced, as on a real one.
    """
    server = place.use_own_server()
    topic = place.create_topic()
    producer = place.start_producer(topic)
    members = [place.start_push(topic)]
    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send_while_possible, producer, topic, 500)
        wait_for_consumed(members, 50)
        server.restart()
        if server.restarts_proxy and (place.language, "reconnect") in LACKS:
            members[0].shut_down(in_background=True)
            members.append(place.start_push(topic))
        sent = sending.result(WAIT_S)

    def find_missing() -> set[str]:
        return sent - {message.message_id for member in members for message in member.consumed}

    with busy(producer, topic):
        wait_until(lambda: not find_missing(), "each message consumed", wait_s=120)


# The emulator gives a dead member's messages to others after two minutes, and a real proxy after one. With a clock that
# the test moves, test_renewals.py shows the same in seconds.
@pytest.mark.long
@pytest.mark.parametrize(
    "place",
    [
        pytest.param(
            (language, kind),
            id=f"{language}-{kind}",
            marks=[] if (language, kind) == ("java", "apache") else [pytest.mark.nightly],
        )
        for language in LANGUAGES
        for kind in SERVERS
    ],
    indirect=True,
)
def test_a_dead_consumer_loses_nothing(place: GrpcPlace) -> None:
    """Two members of a group consume, and one is killed: the other continues, and gets what the dead one held as a
    second attempt, minutes later.
    """
    topic = place.create_topic()
    producer = place.start_producer(topic)
    survivor = place.start_push(topic)
    sent: list[str] = []
    with place.start_clients() as doomed:
        dying = place.start_push(topic, process=doomed, hold=True)

        def do_both_consume() -> bool:
            sent.extend(send(producer, topic, f"{len(sent)}"))
            return bool(survivor.consumed) and bool(dying.consumed)

        wait_until(do_both_consume, "both members consume")
    held = {message.message_id for message in dying.consumed}
    assert held.isdisjoint(message.message_id for message in survivor.consumed)
    sent += send(producer, topic, *(f"after the kill, {number}" for number in range(10)))
    with busy(producer, topic):
        wait_until(
            lambda: {message.message_id for message in survivor.consumed}.issuperset(sent),
            "the survivor consumes each message",
            wait_s=300,
        )
    attempts = {message.message_id: message.attempt for message in survivor.consumed}
    assert {attempts[message_id] for message_id in held} == {2}
