"""Topics over the admin service: put, list, describe and delete."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc
from tests.harness.rpc_client import RpcClient


def put(client: RpcClient, name: str, **fields: Any) -> Any:
    return client.call("PutTopic", rpc.PutTopicRequest(name=name, **fields))


def shape(topic: Any) -> tuple[Any, ...]:
    return topic.read_queue_nums, topic.write_queue_nums, topic.perm, topic.message_type, topic.order


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, (8, 8, 6, "NORMAL", False)),
        ({"read_queue_nums": 2}, (2, 2, 6, "NORMAL", False)),
        ({"write_queue_nums": 3}, (3, 3, 6, "NORMAL", False)),
        ({"read_queue_nums": 2, "write_queue_nums": 3, "perm": 4}, (2, 3, 4, "NORMAL", False)),
        ({"message_type": "fifo", "order": True}, (8, 8, 6, "FIFO", True)),
    ],
)
@pytest.mark.parametrize("mode", [rpc.CREATE, rpc.CREATE_OR_UPDATE])
def test_a_new_topic_gets_the_given_fields_and_defaults(
    client: RpcClient, mode: rpc.PutMode, fields: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    answer = put(client, "new", mode=mode, **fields)
    assert (shape(answer.topic), answer.created) == (expected, True)


def test_an_update_keeps_the_fields_that_are_not_given_and_the_creation_id(client: RpcClient) -> None:
    before = put(client, "new", read_queue_nums=2, message_type="FIFO").topic
    after = put(client, "new", mode=rpc.UPDATE, write_queue_nums=5, perm=4)
    assert (shape(after.topic), after.created) == ((2, 5, 4, "FIFO", False), False)
    assert after.topic.creation_id == before.creation_id


def test_creating_an_existing_topic_is_refused_unless_it_has_the_same_shape(client: RpcClient) -> None:
    first = put(client, "new", mode=rpc.CREATE, read_queue_nums=2)
    again = put(client, "new", mode=rpc.CREATE, read_queue_nums=2)
    assert (again.topic, again.created) == (first.topic, False)
    refused = put(client, "new", mode=rpc.CREATE, read_queue_nums=3)
    assert refused.status.code == v2.Code.BAD_REQUEST
    assert "exists with 2 queues of type NORMAL, but the request has 3" in refused.status.message


@pytest.mark.parametrize(
    ("fields", "code", "sentence"),
    [
        ({"name": "a.b"}, "ILLEGAL_TOPIC", "The specified topic: a.b, contains illegal characters"),
        ({"name": "TBW102"}, "ILLEGAL_TOPIC", "The topic[TBW102] is conflict with system topic."),
        ({"name": "n", "read_queue_nums": 0}, "BAD_REQUEST", "needs 1 to 1024 queues, got 0"),
        ({"name": "n", "perm": 8}, "BAD_REQUEST", "has the permission 8"),
        ({"name": "n", "message_type": "FAST"}, "BAD_REQUEST", "unknown message.type 'FAST': use one of NORMAL"),
        ({"name": "n", "message_type": "MIXED"}, "BAD_REQUEST", "MIXED message type is not supported."),
        ({"name": "n", "mode": rpc.UPDATE}, "TOPIC_NOT_FOUND", "topic[n] not exist"),
    ],
)
def test_a_bad_topic_is_refused(client: RpcClient, fields: dict[str, Any], code: str, sentence: str) -> None:
    status = put(client, **fields).status
    assert v2.Code.Name(status.code) == code
    assert sentence in status.message


def test_topics_are_listed_by_name_with_their_messages(client: RpcClient) -> None:
    client.send_bodies("single", b"a", b"b")
    topics = client.call("ListTopics", rpc.ListTopicsRequest()).topics
    assert [(entry.topic.name, entry.message_count) for entry in topics] == [("orders", 0), ("single", 2)]
    everything = client.call("ListTopics", rpc.ListTopicsRequest(with_system_topics=True)).topics
    names = [entry.topic.name for entry in everything]
    assert names == sorted(names)
    assert {entry.topic.name: entry.topic.is_system for entry in everything}.items() >= {
        "TBW102": True,
        "single": False,
    }.items()


def test_a_topic_is_described_with_bounds_times_and_groups(client: RpcClient) -> None:
    client.send_bodies("single", b"a", b"b")
    client.call("PutGroup", rpc.PutGroupRequest(name="readers"))
    client.update_offset("readers", v2.MessageQueue(topic=v2.Resource(name="single")), 1)
    answer = client.call("DescribeTopic", rpc.DescribeTopicRequest(name="single"))
    (queue,) = answer.queues
    assert (queue.broker_name, queue.queue_id, queue.min_offset, queue.max_offset) == ("broker-a", 0, 0, 2)
    assert 0 < queue.oldest_store_timestamp_ms <= queue.newest_store_timestamp_ms
    assert list(answer.groups) == ["readers"]


def test_an_empty_queue_has_no_times(client: RpcClient) -> None:
    (queue,) = client.call("DescribeTopic", rpc.DescribeTopicRequest(name="single")).queues
    assert not queue.HasField("oldest_store_timestamp_ms")
    assert not queue.HasField("newest_store_timestamp_ms")


def test_queues_that_are_only_readable_or_only_writable_are_described_too(client: RpcClient) -> None:
    put(client, "uneven", read_queue_nums=1, write_queue_nums=2, perm=6)
    queues = client.call("DescribeTopic", rpc.DescribeTopicRequest(name="uneven")).queues
    assert [(queue.is_readable, queue.is_writable) for queue in queues] == [(True, True), (False, True)]
    put(client, "uneven", perm=4)
    queues = client.call("DescribeTopic", rpc.DescribeTopicRequest(name="uneven")).queues
    assert [(queue.is_readable, queue.is_writable) for queue in queues] == [(True, False), (False, False)]


def test_a_topic_is_deleted_with_its_messages(client: RpcClient) -> None:
    client.send_bodies("single", b"a")
    assert client.code("DeleteTopic", rpc.DeleteTopicRequest(name="single")) == "OK"
    assert client.code("DescribeTopic", rpc.DescribeTopicRequest(name="single")) == "TOPIC_NOT_FOUND"
    put(client, "single", read_queue_nums=1)
    (queue,) = client.call("DescribeTopic", rpc.DescribeTopicRequest(name="single")).queues
    assert (queue.min_offset, queue.max_offset) == (0, 0)


@pytest.mark.parametrize(("name", "code"), [("unknown", "TOPIC_NOT_FOUND"), ("TBW102", "ILLEGAL_TOPIC")])
def test_an_impossible_deletion_is_refused(client: RpcClient, name: str, code: str) -> None:
    assert client.code("DeleteTopic", rpc.DeleteTopicRequest(name=name)) == code
