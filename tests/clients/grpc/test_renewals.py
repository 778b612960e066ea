"""Apache's push consumers keep a message for as long as they work: the broker renews its receipt (rules 5.12.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from processes.grpc_clients.lacks import LACKS, Language
from processes.maven import SoftwareMissing
from rmqpull_broker.core.model import GroupConfig, Message, TopicType
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.clients.programs.grpc.clients import LANGUAGES, GrpcClient, GrpcClients
from tests.harness.grpc_servers import GrpcPlace, receive_all, send, wait_for_consumed
from tests.harness.waiting import wait_until

# --- with a clock that the test moves: by less than two minutes, or a client without heartbeats is forgotten

TOPIC, GROUP = "orders", "readers"
RETRY_TOPIC = f"%RETRY%{GROUP}_{TOPIC}"


class Work(NamedTuple):
    """A broker with a manual clock, and a push consumer that holds a message until it lets go."""

    broker: RunningBroker
    language: Language
    clients: GrpcClients
    consumer: GrpcClient
    in_order: bool

    def send(self, body: str) -> None:
        """Sends a message, in order one of the same message group."""
        self.broker.send(TOPIC, Message(body.encode(), "", message_group="customer" if self.in_order else None))

    def count_streams(self) -> int:
        return self.broker._server.clients.stream_count

    def count_in_flight(self) -> int:
        return self.broker.look(lambda state: sum(state.popped.count(*each) for each in state.popped.list_queues()))


def make_works() -> list[Any]:
    return [
        pytest.param(
            (language, topic_type),
            id=f"{language}-{topic_type.value.lower()}",
            marks=[pytest.mark.clients_small] * ((language, topic_type) == ("python", TopicType.NORMAL)),
        )
        for language in LANGUAGES
        for topic_type in (TopicType.NORMAL, TopicType.FIFO)
    ]


@pytest.fixture(params=make_works())
def work(request: pytest.FixtureRequest, tmp_path: Path, processes_allowed: None) -> Iterator[Work]:
    language: Language
    topic_type: TopicType
    language, topic_type = request.param
    if (language, "push") in LACKS:
        pytest.skip(f"{language} has no push: {LACKS[language, 'push']}")
    in_order = topic_type is TopicType.FIFO
    try:
        process = LANGUAGES[language](tmp_path / "clients")
    except SoftwareMissing as missing:
        pytest.skip(f"{missing}.")
    with GrpcClients(process) as clients, running_broker(topics={TOPIC: (1, topic_type)}, clock="manual") as broker:
        broker.change(lambda draft: draft.add(GroupPut(GroupConfig(GROUP, consume_message_orderly=in_order))))
        options = {"group": GROUP, "subscriptions": {TOPIC: "*"}, "hold": True}
        consumer = clients.start("push", broker.endpoints, **options)
        work = Work(broker, language, clients, consumer, in_order)
        work.send("long")
        wait_for_consumed([consumer], 1)
        yield work


def test_a_message_stays_with_its_consumer_until_it_is_acknowledged(work: Work) -> None:
    """Renewal, on the emulator alone: a consumer that works for minutes gets a message once; its first handle
    acknowledges it.
    """
    work.broker.clock.advance(seconds=115)
    assert work.count_in_flight() == 1
    work.consumer.call("letGo")
    wait_until(lambda: work.count_in_flight() == 0, "the message is acknowledged, by its first handle")
    work.broker.clock.advance(hours=1)
    assert len(work.consumer.consumed) == 1
    assert not work.broker.look(lambda state: RETRY_TOPIC in state.topics)


def test_the_message_of_a_consumer_that_is_killed_goes_to_another_one(work: Work, tmp_path: Path) -> None:
    """Renewal, on the emulator alone: what a killed consumer held is redelivered 2 minutes after its last heartbeat."""
    work.clients.kill()
    wait_until(lambda: work.count_streams() == 0, "the broker sees that it has left")
    work.broker.clock.advance(seconds=140)  # two minutes, and the checks of clients and receipts
    with GrpcClients(LANGUAGES["python"](tmp_path / "others")) as others:
        options = {"group": GROUP, "subscriptions": {TOPIC: "*"}, "awaitMs": 5_000}
        (received,) = receive_all(others.start("simple", work.broker.endpoints, **options), 1, acknowledge=False)
    assert (received.body, received.attempt) == ("long", 2)


def test_a_member_that_is_alive_gets_what_a_killed_one_held(work: Work, tmp_path: Path) -> None:
    """Renewal, on the emulator alone: two push consumers run when one is killed.

    What it held goes to the other, two minutes after its last heartbeat. In order, a consumer that holds a message
    holds its queue, and the other waits until then.
    """
    with GrpcClients(LANGUAGES[work.language](tmp_path / "others")) as others:
        survivor = others.start("push", work.broker.endpoints, group=GROUP, subscriptions={TOPIC: "*"})
        wait_until(lambda: work.count_streams() == 2, "the broker knows both members")
        sent = ["long"]

        def send_to_both() -> bool:
            sent.append(f"{len(sent)}")
            work.send(sent[-1])
            return work.in_order or bool(survivor.consumed)

        wait_until(send_to_both, "both members consume")
        held = {message.body for message in work.consumer.consumed}
        work.clients.kill()
        wait_until(lambda: work.count_streams() == 1, "the broker sees that one has left")
        assert held.isdisjoint(message.body for message in survivor.consumed)
        work.broker.clock.advance(seconds=140)  # two minutes, and the checks of clients and receipts
        wait_until(consumes_all_of(survivor, sent), "the survivor consumes each message")
    attempts = {message.body: message.attempt for message in survivor.consumed}
    assert {attempts[body] for body in held} == {2}
    assert not work.in_order or [message.body for message in survivor.consumed] == sent


def consumes_all_of(member: GrpcClient, bodies: Sequence[str]) -> Callable[[], bool]:
    return lambda: {message.body for message in member.consumed}.issuperset(bodies)


# --- with the time of the system


@pytest.mark.long
@pytest.mark.uses("push")
@pytest.mark.parametrize(
    "place",
    [
        # What comes before shows the same in seconds, with a clock that the test moves.
        pytest.param(("java", "emulator"), id="emulator", marks=pytest.mark.nightly),
        pytest.param(("java", "apache"), id="apache"),
    ],
    indirect=True,
)
def test_a_message_is_renewed_for_more_than_a_minute(place: GrpcPlace) -> None:
    """Renewal: a consumer that works for over a minute gets its message once. 5.3.3 delivers it again (rules 6.4)."""
    topic = place.create_topic(queues=1)
    send(place.start_producer(topic), topic, "long")
    consumer = place.start_push(topic, hold=True)
    wait_for_consumed([consumer], 1)
    # In another group a message is redelivered after 90 s: enough for a minute, and for a receive that waits 20 s.
    other = place.start_simple(topic, group=f"{place.group}-other")
    receive_all(other, 1, acknowledge=False, invisible_ms=90_000)
    wait_until(lambda: bool(other.receive()), "90 s are over", wait_s=240)
    assert [message.attempt for message in consumer.consumed] == [1]
    consumer.call("letGo")
