"""Clients and their locks over the admin service."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from rmqpull_broker.testing import running_broker
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.remoting_member import RemotingMember, make_membership
from tests.harness.rpc_client import Connect, OpenTelemetryStream, RpcClient

if TYPE_CHECKING:
    from rmqpull_broker.testing import RunningBroker

FIRST, SECOND = (v1.Queue(topic="orders", broker_name="broker-a", queue_id=number) for number in range(2))


def listed(client: RpcClient, group: str = "") -> list[Any]:
    return list(client.call("ListClients", rpc.ListClientsRequest(group=group)).clients)


def test_nobody_is_connected_at_first(client: RpcClient) -> None:
    assert listed(client) == []


def test_clients_are_listed_with_what_they_are_members_of(
    broker: RunningBroker, connect: Connect, open_telemetry_stream: OpenTelemetryStream
) -> None:
    reader, writer = connect(broker.endpoints, "reader"), connect(broker.endpoints, "writer")
    reader.call("PutGroup", rpc.PutGroupRequest(name="readers"))
    open_telemetry_stream(reader, "PUSH_CONSUMER", "orders", group="readers")
    open_telemetry_stream(writer, "PRODUCER", "orders", "single")
    first, second = listed(reader)
    assert (first.client_id, first.client_type, second.client_id) == ("reader", "PUSH_CONSUMER", "writer")
    assert first.last_heartbeat_timestamp_ms > 0
    (membership,) = first.memberships
    assert (membership.group, membership.is_producer, membership.message_model) == ("readers", False, "CLUSTERING")
    assert [entry.topic for entry in membership.subscriptions] == ["orders"]
    assert [(entry.group, entry.is_producer) for entry in second.memberships] == [("orders", True), ("single", True)]
    assert [entry.client_id for entry in listed(reader, "readers")] == ["reader"]
    described = reader.call("DescribeGroup", rpc.DescribeGroupRequest(name="readers"))
    assert (described.message_model, [entry.client_id for entry in described.clients]) == ("CLUSTERING", ["reader"])
    assert [entry.client_count for entry in reader.call("ListGroups", rpc.ListGroupsRequest()).groups] == [1]


def test_a_client_of_the_remoting_protocol_is_listed_once_however_many_brokers_it_is_connected_to(
    connect: Connect,
) -> None:
    with running_broker({"orders": 2}, remoting=True, brokers=("a", "b")) as broker, ExitStack() as opened:
        for address in broker.remoting_addresses:
            opened.enter_context(RemotingMember(address, "ann")).beat("readers", producer_groups=("inner",))
            puller = make_membership("pullers", consume_type="CONSUME_ACTIVELY", message_model="BROADCASTING")
            opened.enter_context(RemotingMember(address, "bob")).beat(puller)
            opened.enter_context(RemotingMember(address, "eve")).beat(producer_groups=("writers",))
        client = connect(broker.endpoints)
        ann, bob, eve = listed(client)
        types = [(entry.client_id, entry.client_type) for entry in (ann, bob, eve)]
        assert types == [("ann", "PUSH_CONSUMER"), ("bob", "PULL_CONSUMER"), ("eve", "PRODUCER")]
        assert [(entry.group, entry.is_producer) for entry in ann.memberships] == [("readers", False), ("inner", True)]
        assert bob.memberships[0].message_model == "BROADCASTING"
        assert ann.last_heartbeat_timestamp_ms > 0
        assert [entry.client_id for entry in listed(client, "writers")] == ["eve"]
        groups = client.call("ListGroups", rpc.ListGroupsRequest()).groups
        assert {group.group.name: group.client_count for group in groups} == {"pullers": 1, "readers": 1}


def lock(client: RpcClient, client_id: str, *queues: v1.Queue) -> list[int]:
    request = rpc.LockQueuesRequest(group="readers", client_id=client_id, queues=queues)
    return [queue.queue_id for queue in client.call("LockQueues", request).locked]


def test_a_locked_queue_stays_with_its_client_until_it_is_unlocked(client: RpcClient) -> None:
    assert lock(client, "a", FIRST) == [0]
    assert lock(client, "b", FIRST, SECOND) == [1]
    assert lock(client, "a", FIRST, SECOND) == [0]
    for client_id in ("b", "a"):  # only its owner can release a lock
        assert lock(client, "c", FIRST) == []
        client.call("UnlockQueues", rpc.UnlockQueuesRequest(group="readers", client_id=client_id, queues=[FIRST]))
    assert lock(client, "c", FIRST) == [0]


def test_locks_are_listed_by_group_and_queue(client: RpcClient) -> None:
    lock(client, "a", SECOND, FIRST)
    locks = client.call("ListLocks", rpc.ListLocksRequest()).locks
    assert [(entry.group, entry.queue.queue_id, entry.client_id) for entry in locks] == [
        ("readers", 0, "a"),
        ("readers", 1, "a"),
    ]
    assert not client.call("ListLocks", rpc.ListLocksRequest(group="others")).locks


@pytest.mark.parametrize(
    "request_",
    [
        rpc.LockQueuesRequest(client_id="a", queues=[FIRST]),
        rpc.LockQueuesRequest(group="readers", queues=[FIRST]),
        rpc.LockQueuesRequest(group="readers", client_id="a", queues=[v1.Queue(topic="orders")]),
    ],
)
def test_a_lock_needs_a_group_a_client_and_a_queue(client: RpcClient, request_: rpc.LockQueuesRequest) -> None:
    assert client.code("LockQueues", request_) == "BAD_REQUEST"
