"""Fields on the wire are those that protobuf sees, and are counted before it makes objects of them."""

from __future__ import annotations

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.core.steps import STEP_ENTRIES
from rmqpull_broker.server.grpc.wire_fields import FIELD_BYTES_MAX, read_in_steps
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

REQUEST = v1.PullColumnsRequest


def test_a_large_list_is_read_in_steps() -> None:
    data = b"\x12\0" * 10 * STEP_ENTRIES
    parts = list(read_in_steps(data, REQUEST, 10 * STEP_ENTRIES))
    assert parts[:-1] == [None] * 10
    assert parts[-1] == REQUEST.FromString(data)
    with pytest.raises(BadRequest, match="more than 600 entries"):
        list(read_in_steps(data, REQUEST, 600))


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
        list(read_in_steps(data, REQUEST, 10))


def test_one_entry_of_a_list_has_a_bound() -> None:
    entry = b"\x12\x81\x80\x04" + bytes(FIELD_BYTES_MAX + 1)
    with pytest.raises(BadRequest, match="field 2 of the request has 65537 bytes, more than 65536"):
        list(read_in_steps(entry, REQUEST, 10))


@given(st.binary(max_size=40) | st.lists(st.sampled_from((b"\x12\0", b"\x0a\x01x", b"\x28\x80\x01"))).map(b"".join))
def test_fields_are_those_that_protobuf_sees(data: bytes) -> None:
    try:
        *_, found = read_in_steps(data, REQUEST, 1_000)
    except DecodeError:
        return
    assert found == REQUEST.FromString(data)
