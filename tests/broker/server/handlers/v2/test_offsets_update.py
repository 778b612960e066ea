"""UpdateOffset over gRPC (rules 3.5.1, 6.1)."""

from __future__ import annotations

import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.rpc_client import Connect, RpcClient

SINGLE = v2.MessageQueue(topic=v2.Resource(name="single"), id=0)
UNKNOWN = v2.MessageQueue(topic=v2.Resource(name="unknown"), id=0)
NO_SUCH_QUEUE = v2.MessageQueue(topic=v2.Resource(name="single"), id=7)


@pytest.fixture
def reader(client: RpcClient) -> RpcClient:
    """A client whose group "readers" exists, because it has pulled."""
    client.pull(SINGLE, 0, group="readers")
    return client


@pytest.mark.parametrize("offsets", [(5,), (5, 9), (9, 5), (0,), (1 << 62,)])
def test_the_last_offset_replaces_any_other(reader: RpcClient, offsets: tuple[int, ...]) -> None:
    for offset in offsets:
        assert reader.update_offset("readers", SINGLE, offset) == "OK"
    assert reader.get_offset("readers", SINGLE) == ("OK", offsets[-1])


def test_a_group_must_have_pulled_before(client: RpcClient) -> None:
    assert client.update_offset("strangers", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"
    assert client.update_offset("", SINGLE, 1) == "CONSUMER_GROUP_NOT_FOUND"


def test_the_group_is_missed_before_the_topic(reader: RpcClient) -> None:
    assert reader.update_offset("strangers", UNKNOWN, 1) == "CONSUMER_GROUP_NOT_FOUND"
    assert reader.update_offset("readers", UNKNOWN, 1) == "TOPIC_NOT_FOUND"


def test_the_queue_id_is_not_checked(reader: RpcClient) -> None:
    assert reader.update_offset("readers", NO_SUCH_QUEUE, 4) == "OK"
    assert reader.get_offset("readers", NO_SUCH_QUEUE) == ("OK", 4)


def test_the_offset_minus_one_reads_as_not_found(reader: RpcClient) -> None:
    assert reader.update_offset("readers", SINGLE, -1) == "OK"
    assert reader.get_offset("readers", SINGLE)[0] == "OFFSET_NOT_FOUND"


def test_a_queue_without_a_broker_is_the_brokers_own(reader: RpcClient) -> None:
    named = v2.MessageQueue(topic=v2.Resource(name="single"), id=0, broker=v2.Broker(name="broker-a"))
    assert reader.update_offset("readers", named, 3) == "OK"
    assert reader.get_offset("readers", SINGLE) == ("OK", 3)


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").update_offset("readers", SINGLE, 1) == "CLIENT_ID_REQUIRED"
