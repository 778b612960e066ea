"""GetOffset over gRPC (rules 3.5.2, 6.1)."""

from __future__ import annotations

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.rpc_client import Connect, RpcClient

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)
UNKNOWN = v2.MessageQueue(topic=v2.Resource(name="unknown"), id=0)


def test_a_queue_never_written_has_no_offset(client: RpcClient) -> None:
    assert client.get_offset("anybody", SINGLE)[0] == "OFFSET_NOT_FOUND"


def test_a_new_queue_starts_at_zero_for_every_group(client: RpcClient) -> None:
    client.send_bodies("single", b"first")
    assert client.get_offset("anybody", SINGLE) == ("OK", 0)


def test_a_query_creates_no_group(client: RpcClient) -> None:
    client.send_bodies("single", b"first")
    client.get_offset("anybody", SINGLE)
    assert client.update_offset("anybody", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"


def test_an_unknown_topic_has_no_offset_rather_than_an_error_of_its_own(client: RpcClient) -> None:
    assert client.get_offset("anybody", UNKNOWN)[0] == "OFFSET_NOT_FOUND"


def test_groups_and_queues_have_separate_offsets(client: RpcClient) -> None:
    second = v2.MessageQueue(topic=v2.Resource(name="orders"), id=1)
    for group in ("a", "b"):
        client.pull(SINGLE, 0, group=group)
    for group, queue, offset in (("a", SINGLE, 1), ("b", SINGLE, 2), ("a", second, 3)):
        client.update_offset(group, queue, offset)
    assert [client.get_offset(*key) for key in (("a", SINGLE), ("b", SINGLE), ("a", second))] == [
        ("OK", 1),
        ("OK", 2),
        ("OK", 3),
    ]


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").get_offset("a", SINGLE)[0] == "CLIENT_ID_REQUIRED"
