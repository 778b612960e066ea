"""Groups over the admin service: put, list, describe, delete, their lag and their resets."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Popped
from rmqpull_broker.server.grpc.handlers.admin.groups import list_in_flight
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from tests.harness.popping import GROUP, TOPIC, PopHarness, run_pops
from tests.harness.rpc_client import RpcClient

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"))


def put(client: RpcClient, name: str, **fields: Any) -> Any:
    return client.call("PutGroup", rpc.PutGroupRequest(name=name, **fields))


def reset(client: RpcClient, **fields: Any) -> Any:
    return client.call("ResetOffsets", rpc.ResetOffsetsRequest(**{"group": "readers", "topic": "single", **fields}))


@pytest.fixture
def readers(client: RpcClient) -> RpcClient:
    """A topic with three messages, one of them consumed by the group."""
    client.send_bodies("single", b"a", b"b", b"c")
    put(client, "readers")
    client.update_offset("readers", SINGLE, 1)
    return client


def test_a_new_group_gets_rocketmqs_defaults(client: RpcClient) -> None:
    answer = put(client, "readers", retry_max_times=3)
    assert answer.created
    assert answer.group == rpc.Group(
        name="readers",
        consume_enable=True,
        consume_broadcast_enable=True,
        consume_message_orderly=False,
        retry_queue_nums=1,
        retry_max_times=3,
        notify_consumer_ids_changed_enable=True,
    )


def test_an_update_keeps_the_fields_that_are_not_given(client: RpcClient) -> None:
    put(client, "readers", retry_max_times=3)
    switches = ("consume_enable", "consume_broadcast_enable", "notify_consumer_ids_changed_enable")
    answer = put(client, "readers", mode=rpc.UPDATE, **dict.fromkeys(switches, False))
    assert not answer.created
    assert (answer.group.retry_max_times, *(getattr(answer.group, name) for name in switches)) == (3, *[False] * 3)


def test_creating_an_existing_group_is_refused_unless_it_is_the_same(client: RpcClient) -> None:
    put(client, "readers", mode=rpc.CREATE, retry_max_times=3)
    assert put(client, "readers", mode=rpc.CREATE, retry_max_times=3).status.code == v2.Code.OK
    refused = put(client, "readers", mode=rpc.CREATE)
    assert (refused.status.code, "another configuration" in refused.status.message) == (v2.Code.BAD_REQUEST, True)


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"name": "g", "retry_queue_nums": -1}, "BAD_REQUEST"),
        ({"name": "g", "retry_max_times": -2}, "BAD_REQUEST"),
        ({"name": "g", "mode": rpc.UPDATE}, "CONSUMER_GROUP_NOT_FOUND"),
    ],
)
def test_a_bad_group_is_refused(client: RpcClient, fields: dict[str, Any], code: str) -> None:
    assert v2.Code.Name(put(client, **fields).status.code) == code


def test_a_name_that_no_client_may_use_is_handled_as_by_apaches_broker(client: RpcClient) -> None:
    assert v2.Code.Name(put(client, "a.b").status.code) == "ILLEGAL_CONSUMER_GROUP"
    assert put(client, "CID_RMQ_SYS_x").group.name == "CID_RMQ_SYS_x"


def test_groups_are_listed_with_their_lag(readers: RpcClient) -> None:
    put(readers, "another")
    groups = readers.call("ListGroups", rpc.ListGroupsRequest()).groups
    assert [(entry.group.name, entry.lag) for entry in groups] == [("another", 0), ("readers", 2)]


def test_a_group_is_described_with_its_progress(readers: RpcClient) -> None:
    answer = readers.call("DescribeGroup", rpc.DescribeGroupRequest(name="readers"))
    (progress,) = answer.progress
    assert (progress.consumer_offset, progress.min_offset, progress.max_offset, progress.lag) == (1, 0, 3, 2)
    assert readers.code("DescribeGroup", rpc.DescribeGroupRequest(name="none")) == "CONSUMER_GROUP_NOT_FOUND"


def test_a_group_is_deleted_with_its_progress(readers: RpcClient) -> None:
    assert readers.code("DeleteGroup", rpc.DeleteGroupRequest(name="readers")) == "OK"
    assert readers.code("DeleteGroup", rpc.DeleteGroupRequest(name="readers")) == "CONSUMER_GROUP_NOT_FOUND"
    put(readers, "readers")
    assert not readers.call("DescribeGroup", rpc.DescribeGroupRequest(name="readers")).progress


def test_lag_is_returned_by_group_and_topic_and_unknown_names_are_refused(readers: RpcClient) -> None:
    (entry,) = readers.call("QueryLag", rpc.QueryLagRequest(groups=["readers"], topics=["single"])).progress
    assert (entry.group, entry.queue.topic, entry.lag) == ("readers", "single", 2)
    assert not readers.call("QueryLag", rpc.QueryLagRequest(topics=["orders"])).progress
    assert readers.code("QueryLag", rpc.QueryLagRequest(groups=["none"])) == "CONSUMER_GROUP_NOT_FOUND"
    assert readers.code("QueryLag", rpc.QueryLagRequest(topics=["none"])) == "TOPIC_NOT_FOUND"


@pytest.mark.parametrize(
    ("target", "offset"),
    [
        ({"place": rpc.EARLIEST}, 0),
        ({"place": rpc.LATEST}, 3),
        ({"timestamp_ms": 0}, 0),
        ({"timestamp_ms": -1}, 3),
        ({"timestamp_ms": 1 << 45}, 3),
        ({"offset": 2, "queue_id": 0}, 2),
        ({"offset": 4, "queue_id": 0}, 4),
    ],
)
def test_a_reset_moves_the_group(readers: RpcClient, target: dict[str, Any], offset: int) -> None:
    (entry,) = reset(readers, **target).queues
    assert (entry.previous_offset, entry.offset) == (1, offset)
    assert readers.get_offset("readers", SINGLE) == ("OK", offset)


def test_a_dry_run_says_the_same_and_changes_nothing(readers: RpcClient) -> None:
    (entry,) = reset(readers, place=rpc.EARLIEST, dry_run=True).queues
    assert (entry.previous_offset, entry.offset) == (1, 0)
    assert readers.get_offset("readers", SINGLE) == ("OK", 1)
    assert reset(readers, offset=9, queue_id=0, dry_run=True).status.code == v2.Code.ILLEGAL_OFFSET


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"topic": "none", "place": rpc.LATEST}, "TOPIC_NOT_FOUND", "Topic none does not exist"),
        ({"group": "none", "place": rpc.LATEST}, "CONSUMER_GROUP_NOT_FOUND", "Group none does not exist"),
        ({"queue_id": 7, "place": rpc.LATEST}, "BAD_REQUEST", "queueId[7] is illegal"),
        ({"queue_id": 0, "broker_name": "broker-z", "place": rpc.LATEST}, "BAD_REQUEST", "queueId[0] is illegal"),
        ({"broker_name": "broker-a", "place": rpc.LATEST}, "BAD_REQUEST", "broker_name needs a queue_id"),
        ({"queue_id": 0, "offset": 5}, "ILLEGAL_OFFSET", "Target offset 5 not in consume queue range [0-3]"),
        ({"queue_id": 0, "offset": -1}, "BAD_REQUEST", "offset -1 is negative"),
        ({"offset": 1}, "BAD_REQUEST", "an offset is for one queue"),
        ({}, "BAD_REQUEST", "a reset needs an offset, a time, EARLIEST or LATEST"),
    ],
)
def test_an_impossible_reset_is_refused_in_rocketmqs_words(
    readers: RpcClient, fields: dict[str, Any], code: str, sentence: str
) -> None:
    status = reset(readers, **fields).status
    assert v2.Code.Name(status.code) == code
    assert sentence in status.message
    assert readers.get_offset("readers", SINGLE) == ("OK", 1)


@pytest.mark.parametrize("invisible_ms", [(1 << 63) - 1, -(1 << 63), -1, 0])
def test_messages_in_flight_are_listed_whatever_their_invisible_time_is(invisible_ms: int) -> None:
    """Clients of the remoting protocol may ask for any."""

    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        queue = MessageQueue(TOPIC, "broker-a", 0)
        broker.state.apply([Popped(GROUP, queue, range(1), 1_000_000, invisible_ms)])
        response = await list_in_flight(broker.service, rpc.ListInFlightRequest(), broker.caller())
        assert (response.total, response.messages[0].message_id) == (1, "id-a")

    run_pops(story)


def test_a_negative_number_of_messages_cannot_be_listed(client: RpcClient) -> None:
    assert client.code("ListInFlight", rpc.ListInFlightRequest(max_messages=-1)) == "BAD_REQUEST"
