"""What only the client for Node or the one for Rust does, on both servers alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event

import pytest

from processes.grpc_clients.lacks import Language
from processes.maven import SoftwareMissing
from tests.clients.programs.grpc.clients import ClientRefused, GrpcClient, Received
from tests.harness.client_servers import SERVERS, ServerKind
from tests.harness.grpc_servers import (
    GrpcPlace,
    GrpcServers,
    bodies_of,
    has_messages,
    receive_all,
    send,
    send_while_possible,
    wait_for_consumed,
)
from tests.harness.waiting import wait_until

TRIES_MAX = 3


@pytest.fixture(params=SERVERS)
def node(grpc_servers: GrpcServers, request: pytest.FixtureRequest) -> Iterator[GrpcPlace]:
    """Topics and groups of one scenario on one server, with clients for Node."""
    yield from make_place(grpc_servers, "node", request.param)


@pytest.fixture(params=SERVERS)
def rust(grpc_servers: GrpcServers, request: pytest.FixtureRequest) -> Iterator[GrpcPlace]:
    """Topics and groups of one scenario on one server, with clients for Rust."""
    yield from make_place(grpc_servers, "rust", request.param)


def make_place(servers: GrpcServers, language: Language, kind: ServerKind) -> Iterator[GrpcPlace]:
    try:
        place = GrpcPlace(servers, language, kind)
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    try:
        yield place
    finally:
        place.close()


def test_node_takes_an_empty_body_for_something_unsupported(node: GrpcPlace) -> None:
    """Node, sends: it knows the families of status codes, and not MESSAGE_BODY_EMPTY."""
    topic = node.create_topic()
    producer = node.start_producer(topic)
    with pytest.raises(ClientRefused, match="UnsupportedException"):
        send(producer, topic, "")
    send(producer, topic, "next")


def test_node_shows_offsets_and_checks_bodies(node: GrpcPlace) -> None:
    """Node, received messages: their places in the queue. The client compares bodies with their checksums."""
    topic = node.create_topic(queues=1)
    send(node.start_producer(topic), topic, "1", "2", "3")
    received = receive_all(node.start_simple(topic), 3)
    assert [message.shown["queueOffset"] for message in received] == [0, 1, 2]
    assert not any(message.shown.get("corrupted") for message in received)


def test_node_refuses_a_topic_that_does_not_exist(node: GrpcPlace) -> None:
    """Node, start: it looks for its topics three times."""
    with pytest.raises(ClientRefused, match="Failed to fetch topic routes after 3 attempts"):
        node.start_producer("topic-that-nobody-created")


def test_node_makes_a_dead_letter_of_a_message_in_order_that_fails(node: GrpcPlace) -> None:
    """Node, in order: it does not know the back-off that groups have by default, and gives up after one attempt."""
    topic = node.create_topic("FIFO")
    node.create_group(consumeMessageOrderly=True)
    send(node.start_producer(topic), topic, "1", "2", messageGroup="customer")
    consumer = node.start_push(topic, fail=1)
    consumed = wait_for_consumed([consumer], 2)
    assert [(message.body, message.attempt) for message in consumed] == [("1", 1), ("2", 1)]
    dead, administration = f"%DLQ%{node.group}", node.server.administration
    wait_until(
        lambda: bool(administration.find_route(dead)) and administration.count_messages(dead) == 2, "two dead letters"
    )


def test_node_consumes_again_in_order_with_an_exponential_back_off(node: GrpcPlace) -> None:
    """Node, in order: it knows an exponential back-off, and consumes a failed message again before the next one."""
    topic = node.create_topic("FIFO")
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 1_000, "max": 2_000, "multiplier": 2}}
    node.create_group(consumeMessageOrderly=True, groupRetryPolicy=policy)
    send(node.start_producer(topic), topic, "1", "2", messageGroup="customer")
    consumer = node.start_push(topic, fail=1)
    consumed = wait_for_consumed([consumer], 4)
    assert [(message.body, message.attempt) for message in consumed] == [("1", 1), ("1", 2), ("2", 1), ("2", 2)]


def test_rust_goes_on_after_a_code_that_it_does_not_know(rust: GrpcPlace) -> None:
    """Rust, sends: the library panics when it reads MESSAGE_BODY_EMPTY. The next send works as before."""
    topic = rust.create_topic()
    producer = rust.start_producer(topic)
    with pytest.raises(ClientRefused, match="panic"):
        send(producer, topic, "")
    send(producer, topic, "next")
    assert bodies_of(receive_all(rust.start_simple(topic), 1)) == ["next"]


def test_rust_must_wait_long_enough(rust: GrpcPlace) -> None:
    """Rust, receives: the client's time to wait is its deadline, too, and the server wants five seconds."""
    topic = rust.create_topic()
    consumer = rust.start_simple(topic, awaitMs=1_000)
    with pytest.raises(ClientRefused, match="The deadline time remaining is not enough for polling"):
        consumer.receive()


def test_rust_receives_from_several_topics(rust: GrpcPlace) -> None:
    """Rust, subscriptions: the library has none. Its user names topic and filter with each receive."""
    topics = [rust.create_topic(), rust.create_topic()]
    producer = rust.start("producer", topics=topics)
    for topic in topics:
        send(producer, topic, f"red of {topic}", tag="red")
        send(producer, topic, f"blue of {topic}", tag="blue")
    consumer = rust.start_simple(topics[0], subscriptions=dict.fromkeys(topics, "red"))
    assert bodies_of(receive_all(consumer, 2)) == sorted(f"red of {topic}" for topic in topics)


@pytest.mark.parametrize(("call", "fields"), [("change", {"handle": "any", "invisibleMs": 1}), ("deadLetter", {})])
def test_rust_says_what_its_library_lacks(rust: GrpcPlace, call: str, fields: dict[str, object]) -> None:
    """Rust, lacks: what the library cannot do is refused, and not silently left out."""
    consumer = rust.start_simple(rust.create_topic())
    with pytest.raises(ClientRefused, match=f"unsupported: {call}"):
        consumer.call(call, **fields)
    with pytest.raises(ClientRefused, match="unsupported: kind push"):
        rust.start_push("any")


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize(
    "count", [2_000, pytest.param(100_000, id="100000", marks=[pytest.mark.long, pytest.mark.nightly])]
)
def test_simple_consumers_of_rust_share_many_messages(rust: GrpcPlace, count: int) -> None:
    """Rust, two members of a group: they receive and acknowledge each message once, and both have some."""
    topic = rust.create_topic(queues=8)
    producer = rust.start_producer(topic)
    members = [rust.start_simple(topic), rust.start_simple(topic)]
    received: list[list[Received]] = [[] for _ in members]
    with ThreadPoolExecutor(len(members)) as threads:
        is_over = Event()
        receiving = [threads.submit(receive_until_set, *each, is_over) for each in zip(members, received, strict=True)]
        try:
            sent = [
                receipt["messageId"]
                for _ in range(count // 2_000)  # a call has a time limit, and a busy machine is slow
                for receipt in producer.call("send", topic=topic, count=2_000)
            ]
            wait_until(lambda: sum(map(len, received)) >= count, f"{count} messages received", wait_s=900)
        finally:
            is_over.set()
        for one in receiving:
            one.result(60)
    assert all(received)
    messages = [message for each in received for message in each]
    assert {message.message_id for message in messages} == set(sent)
    places = Counter(tuple(message.handle.split(" ")[4:8]) for message in messages)
    assert set(places.values()) == {1}  # a client that sends again may store a message twice, at two offsets


def receive_until_set(consumer: GrpcClient, received: list[Received], is_over: Event) -> None:
    while not is_over.is_set():
        for message in consumer.receive(32, 60_000):
            consumer.call("ack", handle=message.handle)
            received.append(message)


def test_rust_loses_nothing_when_a_broker_restarts(rust: GrpcPlace) -> None:
    """Rust, restarts: a broker is killed while messages are sent and received. What it acknowledged is received.

    Where the proxy is restarted with it, another consumer continues, because the library's does not reconnect.
    """
    server = rust.use_own_server()
    topic = rust.create_topic()
    producer, consumer = rust.start_producer(topic), rust.start_simple(topic)
    received: set[str] = set()

    def receive() -> set[str]:
        with suppress(ClientRefused):  # the broker is away: what was not acknowledged is redelivered
            for message in consumer.receive():
                consumer.call("ack", handle=message.handle)
                received.add(message.message_id)
        return received

    with ThreadPoolExecutor(1) as thread:
        sending = thread.submit(send_while_possible, producer, topic, 500)
        wait_until(lambda: len(receive()) >= 50, "50 messages received")
        server.restart()
        if server.restarts_proxy:
            consumer = rust.start_simple(topic)
        before = len(received)
        wait_until(lambda: len(receive()) > before, "a message received after the restart", wait_s=120)
        sent = sending.result(120)
    wait_until(lambda: receive() >= sent, "each message received", wait_s=120)


def test_rust_tells_a_restarted_proxy_no_settings(rust: GrpcPlace) -> None:
    """Rust, restarts: a proxy that was restarted refuses the receives of a consumer, and serves the next one."""
    server = rust.use_own_server()
    topic = rust.create_topic()
    producer, consumer = rust.start_producer(topic), rust.start_simple(topic)
    sent = send(producer, topic, "before")
    server.restart_proxy()

    def refuse() -> str:
        with pytest.raises(ClientRefused) as refused:
            consumer.receive()
        return str(refused.value)

    wait_until(lambda: "NullPointerException" in refuse(), "refused without settings")  # and connected again
    sent += send(producer, topic, "after")
    messages = receive_all(rust.start_simple(topic), 2)
    assert {message.message_id for message in messages} == set(sent)


def test_rust_sees_how_a_message_becomes_a_dead_letter(rust: GrpcPlace) -> None:
    """Rust, dead letters: a message that nobody acknowledges is delivered as often as its group says, and then it is in
    the group's dead letter topic, with its tag and properties.
    """
    topic = rust.create_topic(queues=1)
    rust.create_group(retryMaxTimes=1)
    producer = rust.start_producer(topic)
    consumer, dead = rust.start_simple(topic), f"%DLQ%{rust.group}"
    for tries in range(1, TRIES_MAX + 1):
        (message_id,) = send(producer, topic, "poison", tag="red", properties={"a": "b"})
        received: list[Received] = []

        def receive(received: list[Received] = received, letters: int = tries) -> bool:
            received += consumer.receive()
            return has_messages(rust, dead, letters)

        wait_until(receive, "a dead letter")
        attempts = [(message.message_id, message.attempt) for message in received]
        if attempts == [(message_id, 1), (message_id, 2)]:
            break
        # On a busy machine a delivery may arrive after the client has given up its call, and then nobody sees it.
        assert len(attempts) < 2, attempts
    else:
        pytest.fail(f"of {TRIES_MAX} messages, none came twice")
    letter, *_ = receive_all(rust.start_simple(dead, "red", group=f"{rust.group}-dead"), tries)
    assert (letter.body, letter.shown["tag"], letter.properties["a"]) == ("poison", "red", "b")
