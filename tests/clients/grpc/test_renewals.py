"""Apache's push consumer of gRPC keeps a message for as long as it works: the broker renews its receipt (rules 5.12.3).

The test moves the broker's clock, by less than the two minutes after which a client without heartbeats is forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from processes.apache.many_clients import ManyClients
from processes.apache.releases import Release
from processes.grpc_clients.java_programs import start_grpc_java
from rmqpull_broker.core.model import GroupConfig, Message, TopicType
from rmqpull_broker.core.state.facts import GroupPut
from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.waiting import wait_until

TOPIC, GROUP = "orders", "readers"
RETRY_TOPIC = f"%RETRY%{GROUP}_{TOPIC}"


@pytest.fixture(
    params=[
        pytest.param(TopicType.NORMAL, id="concurrent", marks=pytest.mark.clients_small),
        pytest.param(TopicType.FIFO, id="in-order"),
    ]
)
def broker(request: pytest.FixtureRequest, apache_release: Release) -> Iterator[RunningBroker]:
    """A broker with a manual clock, and a group that consumes concurrently or in order."""
    with running_broker(topics={TOPIC: (1, request.param)}, clock="manual") as running:
        group = GroupConfig(GROUP, consume_message_orderly=request.param is TopicType.FIFO)
        running.change(lambda draft: draft.add(GroupPut(group)))
        yield running


@pytest.fixture
def clients(tmp_path: Path) -> Iterator[ManyClients]:
    with ManyClients(start_grpc_java("Clients", tmp_path / "clients", has_input=True)) as started:
        yield started


def hold(clients: ManyClients, broker: RunningBroker) -> None:
    """Sends a message to a push consumer that ends it only when the test says so."""
    options = {"endpoints": broker.endpoints, "group": GROUP, "subscriptions": {TOPIC: "*"}}
    clients.call("consumer", "start", kind="push", hold=True, **options)
    in_order = broker.look(lambda state: state.topics[TOPIC].topic_type) is TopicType.FIFO
    broker.send(TOPIC, Message(b"long", "", message_group="customer" if in_order else None))
    wait_until(lambda: len(clients.consumed("consumer")) == 1, "the consumer has the message")


def count_in_flight(broker: RunningBroker) -> int:
    return broker.look(lambda state: sum(state.popped.count(*each) for each in state.popped.list_queues()))


def test_a_message_stays_with_its_consumer_until_it_is_acknowledged(
    broker: RunningBroker, clients: ManyClients
) -> None:
    """Renewal: a consumer that works for minutes gets its message once, and acknowledges it by its first handle."""
    hold(clients, broker)
    broker.clock.advance(seconds=115)
    assert count_in_flight(broker) == 1
    clients.call("consumer", "letGo")
    wait_until(lambda: count_in_flight(broker) == 0, "the message is acknowledged, by its first handle")
    broker.clock.advance(hours=1)
    assert len(clients.consumed("consumer")) == 1
    assert not broker.look(lambda state: RETRY_TOPIC in state.topics)


def test_the_message_of_a_consumer_that_is_killed_goes_to_another_one(
    broker: RunningBroker, clients: ManyClients, tmp_path: Path
) -> None:
    """Renewal: the broker gives back what a consumer held that was killed, two minutes after its last heartbeat."""
    hold(clients, broker)
    clients.process.kill()
    broker.clock.advance(seconds=140)  # two minutes without a heartbeat, and the checks of clients and receipts
    with ManyClients(start_grpc_java("Clients", tmp_path / "others", has_input=True)) as others:
        options = {"endpoints": broker.endpoints, "group": GROUP, "subscriptions": {TOPIC: "*"}, "awaitMs": 5_000}
        others.call("other", "start", kind="simple", **options)
        (received,) = others.call("other", "receive", max=1, invisibleMs=10_000)
    assert (received["body"], received["attempt"]) == ("long", 2)
