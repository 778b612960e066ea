"""What only the client for Java can do, or shows in more detail than the others."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from processes.maven import SoftwareMissing
from rmqpull_proto.remoting.codes import RequestCode
from tests.clients.programs.grpc.clients import ClientRefused
from tests.harness.client_servers import SERVERS
from tests.harness.grpc_servers import (
    GrpcPlace,
    GrpcServers,
    bodies_of,
    receive_all,
    send,
    wait_for_consumed,
)


@pytest.fixture(params=SERVERS)
def place(grpc_servers: GrpcServers, request: pytest.FixtureRequest) -> Iterator[GrpcPlace]:
    """Topics and groups of one scenario on one server, with clients for Java."""
    try:
        place = GrpcPlace(grpc_servers, "java", request.param)
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    try:
        yield place
    finally:
        place.close()


# ---- TLS


def test_tls_is_what_the_client_speaks_by_default(place: GrpcPlace) -> None:
    """TLS: the client trusts any certificate, also one that the server has made for itself."""
    topic = place.create_topic()
    producer = place.start_producer(topic, tls=True)
    pushed = place.start_push(topic, tls=True)
    send(producer, topic, "one", "two")
    assert bodies_of(wait_for_consumed([pushed], 2)) == ["one", "two"]


# ---- receipt handles


def test_a_message_may_be_acknowledged_twice(place: GrpcPlace) -> None:
    """Acknowledgements: the second one of the same handle is accepted too."""
    topic = place.create_topic()
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    (message,) = receive_all(consumer, 1)
    consumer.call("ack", handle=message.handle)


def test_a_handle_from_before_a_change_acknowledges_nothing(place: GrpcPlace) -> None:
    """Changed invisible time: the old handle is accepted until its own time is over, but the message is redelivered."""
    topic = place.create_topic(queues=1)
    send(place.start_producer(topic), topic, "one")
    consumer = place.start_simple(topic)
    (first,) = receive_all(consumer, 1, acknowledge=False, invisible_ms=600_000)
    consumer.call("change", handle=first.handle, invisibleMs=2_000)
    consumer.call("ack", handle=first.handle)
    (again,) = receive_all(consumer, 1)
    assert (again.body, again.attempt) == ("one", 2)


def test_the_fields_of_a_handle_say_where_a_message_is(place: GrpcPlace) -> None:
    """Receipt handles: first offset, time, invisible time, revive queue, kind of topic, broker, queue, offset, ..."""
    topic = place.create_topic(queues=1)
    send(place.start_producer(topic), topic, "one", "two")
    consumer = place.start_simple(topic)
    _, second = receive_all(consumer, 2, acknowledge=False)
    assert show(second.handle) == ["0", "10000", "0", "broker-a", "0", "1"]
    changed = consumer.call("change", handle=second.handle, invisibleMs=2_000)
    assert show(changed["handle"]) == ["1", "2000", "0", "broker-a", "0", "1"]
    again = receive_all(consumer, 1, acknowledge=False)[-1]
    assert show(again.handle) == ["0", "10000", "1", "broker-a", "0", "0"]


def show(handle: str) -> list[str]:
    """Returns the fields of a handle without its time, its revive queue, and the place in the log."""
    fields = handle.split(" ")
    assert len(fields) == 9
    return [fields[index] for index in (0, 2, 4, 5, 6, 7)]


def test_a_batch_returns_from_its_first_message_that_is_not_acknowledged(place: GrpcPlace) -> None:
    """FIFO: messages behind it are redelivered even if they were acknowledged."""
    topic = place.create_topic("FIFO")
    place.create_group(consumeMessageOrderly=True)
    send(place.start_producer(topic), topic, *"123", messageGroup="customer")
    consumer = place.start_simple(topic)
    first = receive_all(consumer, 3, acknowledge=False)
    for index in (0, 2):
        consumer.call("ack", handle=first[index].handle)
    again = receive_all(consumer, 2)
    assert [(message.body, message.attempt) for message in again] == [("2", 2), ("3", 2)]


# ---- refusals


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        pytest.param(
            lambda place, topic: place.start_simple(topic).receive(1, 9_999),
            40011,
            "the invisibleTime is too small. min is 10000",
            id="invisible time too short",
        ),
        pytest.param(
            lambda place, topic: place.start_simple(topic).receive(1, 12 * 3_600_000 + 1),
            40011,
            "the invisibleTime is too large. max is 43200000",
            id="invisible time too long",
        ),
        pytest.param(
            lambda place, topic: place.start_simple(topic, "weight >", sql=True).receive(),
            50001,
            "parse the consumer's subscription failed",
            id="malformed SQL",
        ),
        pytest.param(lambda place, topic: place.start_simple("no-such-topic"), 40402, "", id="unknown topic"),
        pytest.param(
            lambda place, topic: place.start_producer(topic).call("recall", topic=topic, handle="any"),
            40014,
            "TopicMessageType validate failed, the expected type is NORMAL, but actual type is DELAY",
            id="recall from a topic without delays",
        ),
    ],
)
def test_a_refusal_has_the_code_and_the_text_of_the_proxy(
    place: GrpcPlace, call: Callable[[GrpcPlace, str], Any], code: int, text: str
) -> None:
    """Refusals: the exception has the code and the text of the proxy."""
    topic = place.create_topic()
    with pytest.raises(ClientRefused) as refused:
        call(place, topic)
    assert f"response-code={code}" in str(refused.value)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [({"priority": 1}, "PRIORITY"), ({"liteTopic": "a"}, "LITE"), ({"messageGroup": "a"}, "FIFO")],
)
def test_a_topic_says_which_kind_of_message_it_takes(place: GrpcPlace, fields: dict[str, Any], kind: str) -> None:
    """Priorities and lite topics: a normal topic takes neither, so the client does not even send."""
    topic = place.create_topic()
    with pytest.raises(ClientRefused, match=rf"actualMessageType={kind}, acceptMessageTypes=\[NORMAL\]"):
        send(place.start_producer(topic), topic, "body", **fields)


def test_a_consumer_of_lite_topics_does_not_start(place: GrpcPlace) -> None:
    """Lite topics: the server ends the stream of their consumer, whose group is not a group of lite topics."""
    topic = place.create_topic()
    with pytest.raises(ClientRefused, match="Stream is already completed, no further calls are allowed"):
        place.start("litePush", group=place.group, topic=topic)


# ---- subscriptions and consumption


def test_a_simple_consumer_changes_its_subscriptions(place: GrpcPlace) -> None:
    """Subscriptions: a topic that is added is received, and one that is removed no longer."""
    before, after = place.create_topic(), place.create_topic()
    producer = place.start_producer(before)
    consumer = place.start_simple(before)
    consumer.call("subscribe", topic=after, expression="red")
    consumer.call("unsubscribe", topic=before)
    send(producer, before, "unwanted", tag="red")
    send(producer, after, "unwanted", tag="green")
    send(producer, after, "wanted", tag="red")
    assert bodies_of(receive_all(consumer, 1)) == ["wanted"]
    assert consumer.receive() == []


def test_a_push_consumer_subscribes_while_it_runs(place: GrpcPlace) -> None:
    """Subscriptions: a push consumer asks for the assignment of a topic that is added, and consumes it."""
    first, second = place.create_topic(), place.create_topic()
    producer = place.start_producer(first)
    consumer = place.start_push(first)
    consumer.call("subscribe", topic=second, expression="*")
    send(producer, second, "two")
    send(producer, first, "one")
    assert bodies_of(wait_for_consumed([consumer], 2)) == ["one", "two"]


def test_message_groups_of_one_queue_are_consumed_side_by_side(place: GrpcPlace) -> None:
    """In order: with the client's accelerator, a message that fails holds up only its own message group."""
    topic = place.create_topic("FIFO", queues=1)
    place.create_group(consumeMessageOrderly=True)
    producer = place.start_producer(topic)
    for number in range(3):
        for customer in ("a", "b"):
            send(producer, topic, f"{customer}{number}", messageGroup=customer)
    consumer = place.start_push(topic, fail=1, accelerated=True)
    by_group: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for message in wait_for_consumed([consumer], 12):
        by_group[message.shown["messageGroup"]].append((message.body, message.attempt))
    expected = [(number, attempt) for number in range(3) for attempt in (1, 2)]
    for customer in ("a", "b"):
        assert by_group[customer] == [(f"{customer}{number}", attempt) for number, attempt in expected]


def test_retries_in_order_follow_the_exponential_policy_of_the_group(place: GrpcPlace) -> None:
    """In order: the client takes the policy from its settings, retries by itself, and then gives up."""
    topic = place.create_topic("FIFO")
    policy = {"type": "EXPONENTIAL", "exponentialRetryPolicy": {"initial": 100, "max": 300, "multiplier": 2}}
    place.create_group(consumeMessageOrderly=True, retryMaxTimes=3, groupRetryPolicy=policy)
    producer = place.start_producer(topic)
    send(producer, topic, "poison", "next", messageGroup="customer")
    consumer = place.start_push(topic, fail=-1)
    consumed = wait_for_consumed([consumer], 8)
    assert [(message.body, message.attempt) for message in consumed] == [
        (body, attempt) for body in ("poison", "next") for attempt in (1, 2, 3, 4)
    ]
    letters = receive_all(place.start_simple(f"%DLQ%{place.group}", group=f"{place.group}-dead"), 2)
    assert bodies_of(letters) == ["next", "poison"]


# ---- questions of an administrator


@pytest.fixture
def emulator_place(grpc_servers: GrpcServers) -> Iterator[GrpcPlace]:
    """A place on the emulator. Brokers behind a proxy in cluster mode do not know its clients, and ask them nothing."""
    try:
        place = GrpcPlace(grpc_servers, "java", "emulator")
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    try:
        yield place
    finally:
        place.close()


def ask_member(place: GrpcPlace, code: RequestCode, **fields: str) -> dict[str, Any]:
    """Asks the only member of a place's group, as `mqadmin` does. Returns what it answers."""
    administration = place.server.administration
    (address,) = administration.find_masters().values()
    group = {"consumerGroup": place.group}
    listed = administration.call(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, group).body
    (client_id,) = json.loads(bytes(listed))["consumerIdList"]
    answered = administration.call(address, code, {**group, "clientId": client_id, **fields})
    told: dict[str, Any] = json.loads(bytes(answered.body))
    return told


def test_a_push_consumer_tells_the_stacks_of_its_threads(emulator_place: GrpcPlace) -> None:
    """Questions: an administrator asks a push consumer for the stacks of its threads."""
    emulator_place.start_push(emulator_place.create_topic())
    told = ask_member(emulator_place, RequestCode.GET_CONSUMER_RUNNING_INFO, jstackEnable="true")
    assert "org.apache.rocketmq" in told["jstack"]


@pytest.mark.parametrize(("fail", "result"), [(0, "CR_SUCCESS"), (-1, "CR_LATER")])
def test_a_push_consumer_consumes_a_message_that_it_is_shown(emulator_place: GrpcPlace, fail: int, result: str) -> None:
    """Questions: an administrator shows a push consumer a message. It consumes the message, which it has not subscribed
    to, and tells whether it succeeded."""
    topic = emulator_place.create_topic(queues=1)
    consumer = emulator_place.start_push(topic, "red", fail=fail)
    administration = emulator_place.server.administration
    (address,) = administration.find_masters().values()
    sent = administration.send(address, topic, b"shown")
    told = ask_member(emulator_place, RequestCode.CONSUME_MESSAGE_DIRECTLY, msgId=sent.fields["msgId"])
    assert told["consumeResult"] == result
    assert bodies_of(wait_for_consumed([consumer], 1)) == ["shown"]


# ---- clients that die


def test_another_producer_of_the_topic_is_asked_for_the_fate_of_a_half_message(place: GrpcPlace) -> None:
    """Transactions: the producer is killed before it has committed or rolled back what it sent."""
    topic = place.create_topic("TRANSACTION")
    with place.start_clients() as doomed:
        producer = place.start("producer", process=doomed, topics=[topic], checker="UNKNOWN")
        send(producer, topic, "orphan", transaction="UNKNOWN")
    place.start_producer(topic, checker="COMMIT")
    assert receive_all(place.start_simple(topic), 1)[0].body == "orphan"
