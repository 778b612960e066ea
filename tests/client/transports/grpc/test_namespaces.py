"""Calls in a namespace use names without it, and reach the topics and groups of the namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pyspark_rmqpull.planning.topics import TopicSelection
from pyspark_rmqpull.reading.topics import find_topics
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.namespaces import wrap_request
from rmqpull_client.transports.port import BrokerClient
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.secured_proxy import StartProxy

TIMEOUT_MS = 60_000
QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def broker(extensions: str) -> Iterator[RunningBroker]:
    """A broker with a topic in the namespace, and one of the same name outside."""
    topics = {"shop%orders": 1, "orders": 1, "elsewhere": 1, "other%orders": 1, "shop%bills": 1}
    with running_broker(topics, extensions=f"{extensions},admin" if extensions == "columns" else "admin") as running:
        running.send("shop%orders", b"inside", b"too")
        running.send("orders", b"outside")
        yield running


@pytest.fixture
def inside(broker: RunningBroker) -> Iterator[BrokerClient]:
    client = connect(Connection(broker.endpoints, TIMEOUT_MS, namespace="shop"))
    yield client
    client.close()


@pytest.fixture
def outside(broker: RunningBroker) -> Iterator[BrokerClient]:
    client = connect(Connection(broker.endpoints, TIMEOUT_MS))
    yield client
    client.close()


def bodies(client: BrokerClient, group: str, queue: MessageQueue, until: int) -> list[bytes]:
    pulled = client.read(group, [QueueRange(queue, 0, until)], ["body"])
    return [body for rows in pulled for entry in rows for batch in entry.batches for body in batch["body"].to_pylist()]


def test_a_name_means_the_topic_in_the_namespace(inside: BrokerClient, outside: BrokerClient) -> None:
    assert inside.query_bounds(["orders", "elsewhere"])["orders"].queues == {QUEUE: Bounds(0, 2)}
    assert bodies(inside, "g", QUEUE, 2) == [b"inside", b"too"]
    assert bodies(outside, "g", QUEUE, 1) == [b"outside"]
    assert list(inside.query_bounds(["elsewhere"])) == []


def test_a_group_is_in_the_namespace(inside: BrokerClient, outside: BrokerClient) -> None:
    bodies(inside, "g", QUEUE, 2)
    inside.set_consumer_offsets("g", {QUEUE: 2})
    assert inside.get_consumer_offsets("g", [QUEUE]) == {QUEUE: 2}
    assert outside.get_consumer_offsets("shop%g", [MessageQueue("shop%orders", "broker-a", 0)]) == {
        MessageQueue("shop%orders", "broker-a", 0): 2
    }


def test_offsets_by_time_and_waits_are_in_the_namespace(inside: BrokerClient) -> None:
    assert inside.find_offsets_at({QUEUE: 0}) == {QUEUE: 0}
    assert inside.wait_for_messages("g", {QUEUE: 1}, 1)
    assert not inside.wait_for_messages("g", {QUEUE: 2}, 1)


def test_list_topics_returns_those_of_the_namespace(inside: BrokerClient, outside: BrokerClient) -> None:
    assert sorted(inside.list_topics()) == ["bills", "orders"]
    assert {"orders", "shop%orders", "other%orders"} < set(outside.list_topics())


def test_the_error_of_a_missing_topic_names_the_namespace(inside: BrokerClient) -> None:
    with pytest.raises(OptionError, match=r"Topic elsewhere does not exist at .* \(namespace shop\)"):
        find_topics(inside, TopicSelection(("elsewhere",), None, frozenset()), (), None)


def test_a_header_has_the_namespace(broker: RunningBroker, start_proxy: StartProxy) -> None:
    proxy = start_proxy(broker.endpoints)
    for namespace in ("shop", ""):
        client = connect(Connection(proxy.endpoints, TIMEOUT_MS, namespace=namespace))
        assert QUEUE in client.query_bounds(["orders"])["orders"].queues
        client.close()
        assert {headers.get("x-mq-namespace", "") for headers in proxy.seen} == {namespace}
        proxy.seen.clear()


def test_wrapping_does_not_change_the_request() -> None:
    asked = v1.PullColumnsRequest(group="g", queues=[v1.QueuePull(queue=v1.Queue(topic="orders"))])
    sent = wrap_request("shop", asked)
    assert (sent.group, sent.queues[0].queue.topic) == ("shop%g", "shop%orders")
    assert (asked.group, asked.queues[0].queue.topic) == ("g", "orders")


def test_resources_of_the_standard_protocol_have_a_field_for_it() -> None:
    asked = service.PullMessageRequest()
    asked.group.name, asked.message_queue.topic.name = "g", "orders"
    sent = wrap_request("shop", asked)
    for resource, name in ((sent.group, "g"), (sent.message_queue.topic, "orders")):
        assert (resource.resource_namespace, resource.name) == ("shop", name)
