"""DescribeServer over gRPC: the extensions and limits of a server."""

from __future__ import annotations

import rmqpull_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import RpcClient


def test_extensions_and_limits_are_named(client: RpcClient) -> None:
    answer = client.call("DescribeServer", v1.DescribeServerRequest())
    assert answer.status.code == v2.Code.OK
    assert list(answer.extensions) == ["admin", "columns", "stages"]
    assert answer.version == rmqpull_broker.__version__
    assert min(answer.pull_rows_max, answer.pull_bytes_max, answer.publish_bytes_max) > 0
    assert answer.publish_topics_max == 1_000


def test_a_batch_and_a_pull_of_the_largest_size_fit_into_a_message_of_the_server(client: RpcClient) -> None:
    limits = client.call("DescribeServer", v1.DescribeServerRequest())
    request = v1.PublishColumnsRequest(topic="single", arrow_ipc=bytes(limits.publish_bytes_max + 1))
    assert client.code("PublishColumns", request) == "BAD_REQUEST"
    request = v1.PublishColumnsRequest(topic="single", arrow_ipc=bytes(limits.publish_bytes_max))
    assert client.code("PublishColumns", request) == "MESSAGE_CORRUPTED"
