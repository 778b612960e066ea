"""Every RPC reads requests up to its bound. One byte more is refused before protobuf makes objects of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import Message

from rmqpull_broker.server.grpc.bounds import REQUEST_BYTES_MAX, find_fields_max, find_request_bytes_max
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.calls import LargeRequest, make_method_handler
from rmqpull_broker.server.grpc.wire_fields import FIELD_BYTES_MAX
from rmqpull_broker.server.limits import GRPC_MESSAGE_BYTES_MAX
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from tests.harness.rpc_client import list_methods

METHODS = list_methods()
SMALLER_THAN_GRPCS = sorted(name for name in METHODS if find_request_bytes_max(name) < GRPC_MESSAGE_BYTES_MAX)
_UNKNOWN_FIELD = 15_000


def make_request(size: int) -> bytes:
    """Makes a request of so many bytes that any RPC can read: fields, which none of them knows."""
    full, last = divmod(size, FIELD_BYTES_MAX)
    if last < 100 and full:
        return _make_field(last + 100) + _make_field(FIELD_BYTES_MAX - 100) + _make_field(FIELD_BYTES_MAX) * (full - 1)
    return _make_field(last) + _make_field(FIELD_BYTES_MAX) * full


def _make_field(size: int) -> bytes:
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
    assert len(make_request(bound)) == bound
    found = read(make_request(bound))
    if isinstance(found, LargeRequest):
        found = asyncio.run(found.read(Slices()))
    assert isinstance(found, method.request)
    refused = read(make_request(bound + 1))
    assert not isinstance(refused, Message)
    assert refused.reason == f"the request has {bound + 1} bytes; {name} reads at most {bound}"


LISTS = sorted(name for name in METHODS if find_fields_max(name) is not None)


@pytest.mark.parametrize("name", LISTS)
def test_the_entries_of_a_list_are_counted_before_protobuf_makes_objects_of_them(name: str) -> None:
    method, handler = METHODS[name]
    read: Any = make_method_handler(cast("Any", None), method, handler, CallShares(1)).request_deserializer
    entries_max = find_fields_max(name)
    assert entries_max is not None
    entry = _make_field(REQUEST_BYTES_MAX // entries_max + 8)
    below, above = read(entry * entries_max), read(entry * (entries_max + 1))
    assert isinstance(asyncio.run(below.read(Slices())), method.request)
    refused = asyncio.run(above.read(Slices()))
    assert refused.reason == f"the request has more than {entries_max} entries; send several requests"


def test_messages_have_a_bound_of_what_is_no_body() -> None:
    method, handler = METHODS["SendMessage"]
    read: Any = make_method_handler(cast("Any", None), method, handler, CallShares(1)).request_deserializer

    def refuse(request: messaging.SendMessageRequest) -> str:
        return str(getattr(read(request.SerializeToString()), "reason", ""))

    body = v2.Message(body=bytes(5 << 20), user_properties={"a": "b"})
    assert refuse(messaging.SendMessageRequest(messages=[body] * 3)) == ""
    many = messaging.SendMessageRequest(messages=[v2.Message(body=bytes(REQUEST_BYTES_MAX)), *[v2.Message()] * 65_536])
    assert refuse(many) == "the request has more than 65536 fields; send fewer messages"
    keys = v2.Message(system_properties=v2.SystemProperties(keys=[""] * (1 << 20) + ["x"]))
    why = "the request has more than 2097152 bytes besides bodies"
    assert refuse(messaging.SendMessageRequest(messages=[keys])) == why


def test_only_messages_have_no_bound_but_that_of_grpc() -> None:
    assert set(METHODS) - set(SMALLER_THAN_GRPCS) == {"SendMessage", "PublishColumns", "StageColumns"}


def test_a_client_gets_a_code_and_its_connection_stays() -> None:
    method = rpc.MESSAGING.methods["QueryRoute"]
    with running_broker({"orders": 1}) as broker, grpc.insecure_channel(broker.endpoints) as channel:
        call = channel.unary_unary(method.path, lambda same: same, method.response.FromString)
        answers: list[Any] = [call(make_request(size)) for size in (REQUEST_BYTES_MAX + 1, REQUEST_BYTES_MAX)]
    assert [answer.status.code for answer in answers] == [v2.Code.BAD_REQUEST, v2.Code.CLIENT_ID_REQUIRED]
    assert "QueryRoute reads at most 262144" in answers[0].status.message
