"""QueryBounds over gRPC: the bounds of all queues of many topics."""

from __future__ import annotations

from rmqpull_broker.testing import running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import Connect, RpcClient


def asking(*topics: str) -> v1.QueryBoundsRequest:
    return v1.QueryBoundsRequest(topics=[v1.TopicBoundsRequest(topic=topic) for topic in topics])


def test_every_queue_is_listed_with_its_bounds(client: RpcClient) -> None:
    client.send_bodies("orders", b"a", b"b", b"c")
    bounds = client.bounds("orders")
    assert bounds.status.code == v2.Code.OK
    assert [(q.broker_name, q.queue_id, q.min_offset, q.max_offset, q.rows_lost) for q in bounds.queues] == [
        ("broker-a", 0, 0, 3, 0),
        ("broker-a", 1, 0, 0, 0),
    ]


def test_topics_are_answered_in_order_and_an_unknown_one_affects_no_other(client: RpcClient) -> None:
    answer = client.call("QueryBounds", asking("single", "unknown", "orders"))
    assert answer.status.code == v2.Code.OK
    assert [(topic.topic, v2.Code.Name(topic.status.code), len(topic.queues)) for topic in answer.topics] == [
        ("single", "OK", 1),
        ("unknown", "TOPIC_NOT_FOUND", 0),
        ("orders", "OK", 2),
    ]
    assert not answer.topics[1].creation_id


def test_no_topic_gives_no_bounds(client: RpcClient) -> None:
    assert client.call("QueryBounds", asking()).status.code == v2.Code.OK


def test_the_creation_id_is_the_topics_own_and_new_with_every_creation(client: RpcClient, connect: Connect) -> None:
    ids = [client.bounds(topic).creation_id for topic in ("orders", "orders", "single")]
    assert ids[0] == ids[1] != ids[2]
    with running_broker(topics={"orders": 2}) as another:
        assert connect(another.endpoints).bounds("orders").creation_id not in ("", *ids)
