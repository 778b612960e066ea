"""Every RPC reads requests up to its bound. One byte more is refused before protobuf makes objects of it."""

from __future__ import annotations

from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import Message

from rmqpull_broker.server.grpc.bounds import REQUEST_BYTES_MAX, find_request_bytes_max
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.calls import make_method_handler
from rmqpull_broker.server.grpc.registry import list_methods
from rmqpull_broker.server.wire.limits import GRPC_MESSAGE_BYTES_MAX
from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2

METHODS = list_methods()
SMALLER_THAN_GRPCS = sorted(name for name in METHODS if find_request_bytes_max(name) < GRPC_MESSAGE_BYTES_MAX)
_UNKNOWN_FIELD = 15_000


def make_request(size: int) -> bytes:
    """Makes a request of so many bytes that any RPC can read: one field, which none of them knows."""
    tag = _make_varint(_UNKNOWN_FIELD << 3 | 2)
    length = size - len(tag) - 4
    padded = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14 & 0x7F | 0x80, length >> 21])
    return tag + padded + bytes(length)


def _make_varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*data, number])


@pytest.mark.parametrize("name", SMALLER_THAN_GRPCS)
def test_a_request_is_read_up_to_the_bound_of_its_rpc(name: str) -> None:
    method, handler = METHODS[name]
    read: Any = make_method_handler(cast("Any", None), method, handler, CallShares(1)).request_deserializer
    bound = find_request_bytes_max(name)
    assert isinstance(read(make_request(bound)), method.request)
    refused = read(make_request(bound + 1))
    assert not isinstance(refused, Message)
    assert refused.reason == f"the request has {bound + 1} bytes; {name} reads at most {bound}"


def test_only_messages_have_no_bound_but_that_of_grpc() -> None:
    assert set(METHODS) - set(SMALLER_THAN_GRPCS) == {"SendMessage", "PublishColumns", "StageColumns"}


def test_a_client_gets_a_code_and_its_connection_stays() -> None:
    method = rpc.MESSAGING.methods["QueryRoute"]
    with running_broker({"orders": 1}) as broker, grpc.insecure_channel(broker.endpoints) as channel:
        call = channel.unary_unary(method.path, lambda same: same, method.response.FromString)
        answers: list[Any] = [call(make_request(size)) for size in (REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX)]
    assert [answer.status.code for answer in answers] == [v2.Code.BAD_REQUEST, v2.Code.CLIENT_ID_REQUIRED]
    assert "QueryRoute reads at most 262144" in answers[0].status.message
