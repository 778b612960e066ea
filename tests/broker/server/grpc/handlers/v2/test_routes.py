"""QueryRoute and QueryAssignment over gRPC (rules 5.8, 5.9)."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.core.errors import BrokerError, Forbidden
from rmqpull_broker.core.model import GroupConfig, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.facts import GroupPut, TopicPut
from rmqpull_broker.server.grpc.handlers.v2.routes import query_assignment, query_route
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.handlers import HandlerHarness
from tests.harness.rpc_client import Connect, RpcClient

# --- QueryRoute -------------------------------------------------------------------------------------------------------


def route_of(topic: str, **fields: object) -> service.QueryRouteRequest:
    return service.QueryRouteRequest(topic=v2.Resource(name=topic), **fields)  # type: ignore[arg-type]


def test_every_queue_of_a_topic_is_listed_as_clients_require(client: RpcClient) -> None:
    answer = client.call("QueryRoute", route_of("orders"))
    assert answer.status.code == v2.Code.OK
    assert [queue.id for queue in answer.message_queues] == [0, 1]
    for queue in answer.message_queues:
        assert queue.topic.name == "orders"
        assert queue.permission == v2.Permission.READ_WRITE
        assert (queue.broker.name, queue.broker.id) == ("broker-a", 0)
        assert list(queue.accept_message_types) == [v2.MessageType.NORMAL]


@pytest.mark.proves("Endpoints in a route")
def test_the_address_that_the_client_used_is_echoed(client: RpcClient) -> None:
    seen = v2.Endpoints(scheme=v2.AddressScheme.DOMAIN_NAME, addresses=[v2.Address(host="mq.example", port=80)])
    answer = client.call("QueryRoute", route_of("single", endpoints=seen))
    assert [queue.broker.endpoints for queue in answer.message_queues] == [seen]


def test_a_client_that_names_no_address_gets_the_brokers_own(client: RpcClient, broker: RunningBroker) -> None:
    (queue,) = client.call("QueryRoute", route_of("single")).message_queues
    (address,) = queue.broker.endpoints.addresses
    assert f"{address.host}:{address.port}" == broker.endpoints
    assert queue.broker.endpoints.scheme == v2.AddressScheme.IPv4


def routed(handlers: HandlerHarness, topic: TopicConfig) -> list[tuple[str, int, str]]:
    handlers.state.apply([TopicPut(topic)])
    answer = asyncio.run(query_route(handlers.service, route_of(topic.name), handlers.caller()))
    queues = answer.message_queues
    return [(queue.broker.name, queue.id, v2.Permission.Name(queue.permission)) for queue in queues]


@pytest.mark.parametrize(
    ("topic", "permissions"),
    [
        (TopicConfig("orders", 3, 1), ["READ_WRITE", "READ", "READ"]),
        (TopicConfig("orders", 1, 3), ["READ_WRITE", "WRITE", "WRITE"]),
        (TopicConfig("orders", 2, 3, perm=4), ["READ", "READ"]),
        (TopicConfig("orders", 2, 3, perm=0), ["NONE", "NONE", "NONE"]),
    ],
)
@pytest.mark.proves("Configuration of a topic")
def test_the_queues_of_every_broker_follow_from_numbers_and_permission(
    topic: TopicConfig, permissions: list[str]
) -> None:
    numbered = list(enumerate(permissions))
    expected = [(broker, *queue) for broker in ("broker-a", "broker-b") for queue in numbered]
    assert routed(HandlerHarness(["broker-a", "broker-b"]), topic) == expected


def test_a_broker_without_write_permission_has_routes_for_reading_only() -> None:
    handlers = HandlerHarness(properties=BrokerProperties(broker_permission=4))
    assert routed(handlers, TopicConfig("orders", 1, 1)) == [("broker-a", 0, "READ")]


@pytest.mark.parametrize(
    ("topic_type", "accepted"),
    [
        (TopicType.FIFO, ["FIFO"]),
        (TopicType.PRIORITY, ["PRIORITY"]),
        (TopicType.MIXED, ["NORMAL", "FIFO", "DELAY", "TRANSACTION"]),
    ],
)
def test_a_queue_takes_its_topics_types(topic_type: TopicType, accepted: list[str]) -> None:
    handlers = HandlerHarness()
    handlers.state.apply([TopicPut(TopicConfig("orders", 1, 1, topic_type))])
    (queue,) = asyncio.run(query_route(handlers.service, route_of("orders"), handlers.caller())).message_queues
    assert [v2.MessageType.Name(number) for number in queue.accept_message_types] == accepted


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("unknown", "TOPIC_NOT_FOUND"),
        ("", "ILLEGAL_TOPIC"),
        ("  ", "ILLEGAL_TOPIC"),
        ("a.b", "ILLEGAL_TOPIC"),
        ("t" * 128, "ILLEGAL_TOPIC"),
        ("TBW102", "ILLEGAL_TOPIC"),
    ],
)
def test_a_topic_that_cannot_be_routed_is_refused_by_name(client: RpcClient, topic: str, code: str) -> None:
    answer = client.call("QueryRoute", route_of(topic))
    assert v2.Code.Name(answer.status.code) == code
    assert not answer.message_queues


def test_a_route_never_creates_its_topic(client: RpcClient) -> None:
    assert client.code("QueryRoute", route_of("later")) == "TOPIC_NOT_FOUND"
    assert client.code("QueryRoute", route_of("later")) == "TOPIC_NOT_FOUND"


def test_a_namespace_is_part_of_the_topics_name(client: RpcClient) -> None:
    request = service.QueryRouteRequest(topic=v2.Resource(resource_namespace="shop", name="orders"))
    answer = client.call("QueryRoute", request)
    assert v2.Code.Name(answer.status.code) == "TOPIC_NOT_FOUND"
    assert "shop%orders" in answer.status.message


def test_query_route_needs_a_client_id(broker: RunningBroker, connect: Connect) -> None:
    answer = connect(broker.endpoints, client_id="").call("QueryRoute", route_of("orders"))
    assert (answer.status.code, answer.status.message) == (v2.Code.CLIENT_ID_REQUIRED, "client id cannot be empty")


# --- QueryAssignment --------------------------------------------------------------------------------------------------


def asking(topic: str = "orders", group: str = "readers", **fields: object) -> service.QueryAssignmentRequest:
    resources = {"topic": v2.Resource(name=topic), "group": v2.Resource(name=group)}
    return service.QueryAssignmentRequest(**resources, **fields)  # type: ignore[arg-type]


def assigned(handlers: HandlerHarness, topic: TopicConfig, group: GroupConfig) -> list[tuple[str, int, str]]:
    handlers.state.apply([TopicPut(topic), GroupPut(group)])
    answer = asyncio.run(query_assignment(handlers.service, asking(), handlers.caller()))
    queues = [assignment.message_queue for assignment in answer.assignments]
    return [(queue.broker.name, queue.id, v2.Permission.Name(queue.permission)) for queue in queues]


TWO_BROKERS = ("broker-b", "broker-a")


def test_a_group_receives_from_each_broker_as_a_whole() -> None:
    found = assigned(HandlerHarness(TWO_BROKERS), TopicConfig("orders", 3, 2), GroupConfig("readers"))
    assert found == [("broker-a", -1, "READ_WRITE"), ("broker-b", -1, "READ_WRITE")]


def test_a_group_that_consumes_in_order_receives_from_each_queue_to_read() -> None:
    orderly = GroupConfig("readers", consume_message_orderly=True)
    found = assigned(HandlerHarness(TWO_BROKERS), TopicConfig("orders", 2, 5, perm=4), orderly)
    queues = [("broker-a", 0), ("broker-a", 1), ("broker-b", 0), ("broker-b", 1)]
    assert found == [(*queue, "READ") for queue in queues]


def test_a_topic_without_read_permission_has_no_assignment() -> None:
    with pytest.raises(Forbidden, match=r"^no readable queue$"):
        assigned(HandlerHarness(), TopicConfig("orders", 2, 2, perm=2), GroupConfig("readers"))


def test_every_consumer_gets_the_same_assignment(broker: RunningBroker, connect: Connect) -> None:
    endpoints = v2.Endpoints(scheme=v2.AddressScheme.DOMAIN_NAME, addresses=[v2.Address(host="mq.example", port=80)])
    first, second = (
        connect(broker.endpoints, name).call("QueryAssignment", asking(endpoints=endpoints)) for name in ("ann", "bob")
    )
    assert first == second
    (assignment,) = first.assignments
    queue = assignment.message_queue
    assert (queue.topic.name, queue.id, queue.broker.endpoints) == ("orders", -1, endpoints)
    assert not queue.accept_message_types


@pytest.mark.parametrize(
    ("topic", "group", "code"),
    [
        ("unknown", "readers", "TOPIC_NOT_FOUND"),
        ("a.b", "readers", "ILLEGAL_TOPIC"),
        ("orders", "", "ILLEGAL_CONSUMER_GROUP"),
        ("orders", "never seen", "ILLEGAL_CONSUMER_GROUP"),
        ("orders", "never-seen", "OK"),
    ],
)
def test_names_are_checked_and_the_group_need_not_exist(client: RpcClient, topic: str, group: str, code: str) -> None:
    assert client.code("QueryAssignment", asking(topic, group)) == code


def test_query_assignment_needs_a_client_id() -> None:
    handlers = HandlerHarness()
    with pytest.raises(BrokerError, match="client id cannot be empty"):
        asyncio.run(query_assignment(handlers.service, asking(), handlers.caller(client_id="")))
