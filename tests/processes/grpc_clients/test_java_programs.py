"""The Java programs with Apache's gRPC client do what is asked of them, and say what has happened."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from processes.apache.releases import Release
from processes.grpc_clients.java_programs import start_grpc_java
from rmqpull_broker.core.model import Message, TopicType
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_broker.testing.embedded import Topics
from tests.clients.programs.java.many_clients import ClientRefused, ManyClients
from tests.harness.waiting import wait_until

TOPICS: Topics = {
    "orders": 1,
    "fifo": (2, TopicType.FIFO),
    "delays": (1, TopicType.DELAY),
    "transactions": (1, TopicType.TRANSACTION),
}


@pytest.fixture(scope="module")
def broker(apache_release: Release) -> Iterator[RunningBroker]:
    """A broker for the tests of this module. It needs Java and Maven, as Apache's servers do."""
    with running_broker(topics=TOPICS) as running:
        yield running


@pytest.fixture(scope="module")
def clients(broker: RunningBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyClients]:
    process = start_grpc_java("Clients", tmp_path_factory.mktemp("clients"), has_input=True)
    with ManyClients(process) as started:
        options = {"kind": "producer", "endpoints": broker.endpoints, "checker": "COMMIT"}
        started.call("producer", "start", **options, topics=["orders"])
        yield started


def send(clients: ManyClients, topic: str, body: str, **fields: Any) -> dict[str, Any]:
    sent: dict[str, Any] = clients.call("producer", "send", topic=topic, body=body, **fields)
    return sent


def messages_of(broker: RunningBroker, topic: str) -> dict[str, Message]:
    return {stored.message.body.decode(): stored.message for stored in broker.messages(topic)}


def test_a_message_is_stored_with_all_that_was_asked_for(broker: RunningBroker, clients: ManyClients) -> None:
    sent = send(clients, "orders", "Jürgen", tag="red", keys=["k1", "k2"], properties={"weight": 3})
    stored = messages_of(broker, "orders")["Jürgen"]
    assert sent == {"messageId": stored.msg_id}
    assert (stored.tags, stored.keys, stored.properties["weight"]) == ("red", ("k1", "k2"), "3")


def test_many_messages_are_one_call(broker: RunningBroker, clients: ManyClients) -> None:
    sent = clients.call("producer", "send", topic="fifo", messageGroup="customer", count=50)
    stored = messages_of(broker, "fifo")
    assert [*stored] == [f"body-{number}" for number in range(50)]
    assert [one["messageId"] for one in sent] == [message.msg_id for message in stored.values()]


def test_a_delayed_message_is_recalled(broker: RunningBroker, clients: ManyClients) -> None:
    sent = send(clients, "delays", "later", deliveryMs=int(time.time() * 1000) + 3_600_000)
    recalled = clients.call("producer", "recall", topic="delays", handle=sent["recallHandle"])
    assert recalled == {"messageId": sent["messageId"]}


def test_half_messages_end_as_asked_for(broker: RunningBroker, clients: ManyClients) -> None:
    send(clients, "transactions", "no", transaction="ROLLBACK")
    send(clients, "transactions", "yes", transaction="COMMIT")
    wait_until(lambda: list(messages_of(broker, "transactions")) == ["yes"], "the committed message is stored")


def test_refusals_name_the_code(clients: ManyClients) -> None:
    with pytest.raises(ClientRefused, match=r"NotFoundException.*response-code=40402"):
        send(clients, "no-such-topic", "body")
    with pytest.raises(ClientRefused, match="unsupported: deadLetter"):
        clients.call("producer", "deadLetter", handle="any")
    with pytest.raises(ClientRefused, match="There is no client nobody"):
        clients.call("nobody", "receive", max=1)


def test_a_client_that_ended_is_unknown(broker: RunningBroker, clients: ManyClients) -> None:
    clients.call("second", "start", kind="producer", endpoints=broker.endpoints)
    clients.call("second", "shutdown")
    with pytest.raises(ClientRefused, match="There is no client second"):
        clients.call("second", "send", topic="orders", body="body")


def test_the_benchmark_counts_what_it_sends(broker: RunningBroker, tmp_path: Path) -> None:
    broker.create_topic("sent", 2)
    process = start_grpc_java("Bench", tmp_path, arguments=[broker.endpoints, "sent", "group", "send", "2", "100"])
    process.wait(60)
    (line,) = process.read_rest()
    result = json.loads(line)
    assert (result["messages"], len(broker.messages("sent"))) == (100, 100)
    assert set(result) == {"messages", "seconds", "processorSeconds", "p50Ms", "p99Ms"}
    assert 0 < result["p50Ms"] <= result["p99Ms"]
