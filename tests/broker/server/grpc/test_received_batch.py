"""Large requests whose batch is not copied: they have the same fields as the message."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.server.grpc.bounds import find_batch_field
from rmqpull_broker.server.grpc.received_batch import ReceivedBatch, read_batch
from rmqpull_broker.server.grpc.targets import find_targets
from rmqpull_proto.rmqpull.v1 import columns_pb2, stages_pb2

Stage = stages_pb2.StageColumnsRequest
NUMBER = Stage.DESCRIPTOR.fields_by_name["arrow_ipc"].number
FIELDS: list[dict[str, Any]] = [
    {"sequence": 1 << 40},
    {"topic": "orders"},
    {"timeout_ms": 5},
    {"stage_id": "s", "parts": [columns_pb2.TopicPart(topic="paid", row_count=3)]},
    {"transaction": stages_pb2.Transaction(id="w", batch_id=7)},
]


def test_each_rpc_with_a_batch_is_known_by_its_field() -> None:
    publish = columns_pb2.PublishColumnsRequest.DESCRIPTOR.fields_by_name["arrow_ipc"].number
    wanted = {"StageColumns": NUMBER, "PublishColumns": publish, "SendMessage": None, "PullColumns": None}
    assert {name: find_batch_field(name) for name in wanted} == wanted


@given(
    st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=3), st.permutations(FIELDS), st.integers(0, 5)
)
def test_a_request_has_the_fields_of_the_message(streams: list[bytes], fields: list[dict[str, Any]], at: int) -> None:
    parts = [Stage(**each).SerializeToString() for each in fields]
    parts[at:at] = [Stage(arrow_ipc=stream).SerializeToString() for stream in streams]
    data = b"".join(parts)
    message, received = Stage.FromString(data), read_batch(data, Stage, NUMBER)
    assert isinstance(received, ReceivedBatch)
    assert received.arrow_ipc == message.arrow_ipc
    for name in ("sequence", "topic", "timeout_ms", "stage_id", "transaction", "queue_selector"):
        assert getattr(received, name) == getattr(message, name)
    assert list(received.parts) == list(message.parts)
    assert list(find_targets(received)) == list(find_targets(message))


def test_the_batch_is_not_copied() -> None:
    data = Stage(arrow_ipc=b"columns").SerializeToString()
    received = read_batch(data, Stage, NUMBER)
    assert isinstance(received, ReceivedBatch)
    assert received.arrow_ipc.obj is data


@pytest.mark.parametrize(
    "data",
    [
        Stage(topic="orders").SerializeToString(),
        bytes((0x80 | NUMBER << 3 | 2, 0, 2)) + b"xy",  # a tag of two bytes
        bytes((NUMBER << 3, 9)) + Stage(topic="orders").SerializeToString(),  # a number in the place of the bytes
    ],
    ids=["no batch", "long tag", "another type"],
)
def test_a_request_of_another_form_is_parsed_as_a_message(data: bytes) -> None:
    assert read_batch(data, Stage, NUMBER) == Stage.FromString(data)


@given(st.data())
def test_an_incomplete_request_is_refused_as_the_message_is(data: st.DataObject) -> None:
    whole = Stage(topic="orders", arrow_ipc=b"columns", timeout_ms=300).SerializeToString()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        expected = Stage.FromString(cut)
    except DecodeError:
        with pytest.raises(DecodeError):
            read_batch(cut, Stage, NUMBER)
    else:
        received: Any = read_batch(cut, Stage, NUMBER)
        assert (bytes(received.arrow_ipc), received.topic) == (expected.arrow_ipc, expected.topic)
