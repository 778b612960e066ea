"""Every RPC reads requests up to its bound. One byte more is refused before protobuf makes objects of it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import pytest
from google.protobuf.message import DecodeError, Message
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.steps import STEP_ENTRIES
from rmqpull_broker.server.grpc.bounds import REQUEST_BYTES_MAX, find_fields_max, find_request_bytes_max
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.calls import LargeRequest, make_method_handler
from rmqpull_broker.server.grpc.registry import list_methods
from rmqpull_broker.server.grpc.wire_fields import FIELD_BYTES_MAX, read_in_steps
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_broker.server.wire.limits import GRPC_MESSAGE_BYTES_MAX
from rmqpull_broker.testing import running_broker
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging

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


def test_a_large_list_is_read_in_steps() -> None:
    kind = METHODS["PullColumns"][0].request
    data = b"\x12\0" * 10 * STEP_ENTRIES
    parts = list(read_in_steps(data, kind, 10 * STEP_ENTRIES))
    assert parts[:-1] == [None] * 10
    assert parts[-1] == kind.FromString(data)
    with pytest.raises(BadRequest, match="more than 600 entries"):
        list(read_in_steps(data, kind, 600))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x12", "a field is not complete"),
        (b"\x12\x05\0", "a field is longer than the request"),
        (b"\x13", "a field has the wire type 3"),
        (b"\x80" * 11, "a number has more than 64 bits"),
        (b"\x08\x80", "a field is not complete"),
        (b"\x0d\0", "a field is longer than the request"),
    ],
)
def test_bytes_that_are_no_request(data: bytes, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        list(read_in_steps(data, METHODS["PullColumns"][0].request, 10))


def test_one_entry_of_a_list_has_a_bound() -> None:
    entry = b"\x12\x81\x80\x04" + bytes(FIELD_BYTES_MAX + 1)
    with pytest.raises(BadRequest, match="field 2 of the request has 65537 bytes, more than 65536"):
        list(read_in_steps(entry, METHODS["PullColumns"][0].request, 10))


@given(st.binary(max_size=40) | st.lists(st.sampled_from((b"\x12\0", b"\x0a\x01x", b"\x28\x80\x01"))).map(b"".join))
def test_fields_are_those_that_protobuf_sees(data: bytes) -> None:
    kind = METHODS["PullColumns"][0].request
    try:
        *_, found = read_in_steps(data, kind, 1_000)
    except DecodeError:
        return
    assert found == kind.FromString(data)


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
    why = "the request has more than 2097152 bytes beside bodies"
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
