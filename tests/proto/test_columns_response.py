"""ColumnsResponse and ReceivedColumns: the same bytes as the message."""

import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.columns import write_stream
from rmqpull_proto.columns_response import ColumnsResponse, ReceivedColumns
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

SCHEMA = pa.schema([("body", pa.binary())])
OK = v2.Status(code=v2.Code.OK, message="OK")


def batch_of(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array(bodies, pa.binary())})


def response(**fields: bytes) -> v1.PullColumnsResponse:
    return v1.PullColumnsResponse(status=OK, queues=[v1.QueuePulled(row_count=3, next_offset=300)], **fields)


@given(st.lists(st.lists(st.binary(max_size=30), max_size=5), min_size=1, max_size=5))
def test_a_response_is_parsed_as_the_message_is(bodies: list[list[bytes]]) -> None:
    batches = [batch_of(*some) for some in bodies]
    data = ColumnsResponse(response(), SCHEMA, batches).SerializeToString()
    assert v1.PullColumnsResponse.FromString(data) == response(arrow_ipc=write_stream(SCHEMA, batches))


@pytest.mark.parametrize("byte_count", [1, 1 << 7, 1 << 14, 1 << 21])
def test_lengths_of_any_number_of_bytes_are_understood(byte_count: int) -> None:
    data = ColumnsResponse(response(), SCHEMA, [batch_of(bytes(byte_count))]).SerializeToString()
    assert v1.PullColumnsResponse.FromString(data).SerializeToString() == data


def test_without_batches_there_is_no_stream() -> None:
    answer = ColumnsResponse(response(), SCHEMA, [])
    assert (answer.SerializeToString(), answer.status) == (response().SerializeToString(), OK)


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=3), st.integers(0, 3), st.integers(0, 9))
def test_a_received_response_equals_the_message(streams: list[bytes], status_at: int, unknown_at: int) -> None:
    parts = [v1.PullColumnsResponse(arrow_ipc=stream).SerializeToString() for stream in streams]
    parts.insert(status_at, response().SerializeToString())
    unknown = v1.DescribeServerResponse(publish_rows_max=7).SerializeToString()  # not a field of the response
    parts[unknown_at:unknown_at] = [unknown] * (unknown_at < 5)
    message = v1.PullColumnsResponse.FromString(b"".join(parts))
    received = ReceivedColumns.FromString(b"".join(parts))
    assert bytes(received.arrow_ipc) == message.arrow_ipc
    assert (received.status, list(received.queues)) == (message.status, list(message.queues))


def test_the_columns_that_are_received_are_not_copied() -> None:
    data = response(arrow_ipc=b"columns").SerializeToString()
    assert ReceivedColumns.FromString(data).arrow_ipc.obj is data


@given(st.data())
def test_an_incomplete_response_is_refused_as_the_message_is(data: st.DataObject) -> None:
    whole = response(arrow_ipc=b"columns").SerializeToString()
    cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
    try:
        expected = v1.PullColumnsResponse.FromString(cut)
    except DecodeError:
        with pytest.raises(DecodeError):
            ReceivedColumns.FromString(cut)
    else:
        received = ReceivedColumns.FromString(cut)
        assert (bytes(received.arrow_ipc), received.status) == (expected.arrow_ipc, expected.status)
