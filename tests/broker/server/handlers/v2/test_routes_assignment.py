"""QueryAssignment (rules 5.9)."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.core.errors import BrokerError, Forbidden
from rmqpull_broker.core.model import GroupConfig, TopicConfig
from rmqpull_broker.core.state.facts import GroupPut, TopicPut
from rmqpull_broker.server.handlers.v2.routes import query_assignment
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.handlers import HandlerHarness
from tests.harness.rpc_client import Connect, RpcClient


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


def test_a_caller_without_a_client_id_is_refused() -> None:
    handlers = HandlerHarness()
    with pytest.raises(BrokerError, match="client id cannot be empty"):
        asyncio.run(query_assignment(handlers.service, asking(), handlers.caller(client_id="")))
