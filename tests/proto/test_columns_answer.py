"""The shortcut around a message: byte for byte what the message would say."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.columns import write_stream
from rmqpull_proto.columns_answer import ColumnsAnswer
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

SCHEMA = pa.schema([("body", pa.binary())])
OK = v2.Status(code=v2.Code.OK, message="OK")


def batch_of(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array(bodies, pa.binary())})


def response(**fields: bytes) -> v1.PullColumnsResponse:
    return v1.PullColumnsResponse(status=OK, queues=[v1.QueuePulled(row_count=3, next_offset=300)], **fields)


@given(st.lists(st.lists(st.binary(max_size=30), max_size=5), min_size=1, max_size=5))
def test_an_answer_is_read_as_the_message_it_stands_for(bodies: list[list[bytes]]) -> None:
    batches = [batch_of(*some) for some in bodies]
    data = ColumnsAnswer(response(), SCHEMA, batches).SerializeToString()
    assert v1.PullColumnsResponse.FromString(data) == response(arrow_ipc=write_stream(SCHEMA, batches))


@pytest.mark.parametrize("byte_count", [1, 1 << 7, 1 << 14, 1 << 21])
def test_lengths_of_any_number_of_bytes_are_understood(byte_count: int) -> None:
    data = ColumnsAnswer(response(), SCHEMA, [batch_of(bytes(byte_count))]).SerializeToString()
    assert v1.PullColumnsResponse.FromString(data).SerializeToString() == data


def test_without_batches_there_is_no_stream() -> None:
    answer = ColumnsAnswer(response(), SCHEMA, [])
    assert (answer.SerializeToString(), answer.status) == (response().SerializeToString(), OK)
