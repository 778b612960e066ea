"""Long responses of gRPC: their parts are one response for those who read them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.grpc.long_response import respond
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_proto.rmqpull.v1 import admin_pb2 as rpc


def make_parts(count: int) -> Iterator[rpc.DescribeTopicResponse | None]:
    for number in range(count):
        yield None
        yield rpc.DescribeTopicResponse(groups=[f"group-{number}"])


@pytest.mark.parametrize("count", [0, 1, 5_000])
def test_a_client_reads_one_response(count: int) -> None:
    head = rpc.DescribeTopicResponse(status=OK, topic=rpc.Topic(name="orders"))
    response = asyncio.run(respond(Slices(), head, make_parts(count)))
    assert response.status.code == OK.code
    read = rpc.DescribeTopicResponse.FromString(response.SerializeToString())
    assert (read.status.code, read.topic.name, len(read.groups)) == (OK.code, "orders", count)


def test_a_response_above_the_limit_is_refused_before_it_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rmqpull_broker.server.grpc.long_response.LIST_RESPONSE_BYTES_MAX", 1_000)
    parts = make_parts(1_000)
    with pytest.raises(BadRequest, match="more than 1000 bytes; request fewer"):
        asyncio.run(respond(Slices(), rpc.DescribeTopicResponse(status=OK), parts))
    assert sum(part is not None for part in parts) > 800
