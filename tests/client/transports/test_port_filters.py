"""The broker evaluates filters, and messages that a filter drops are not lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pyarrow as pa
import pytest

from rmqpull_client.errors import DataLoss, OptionError
from rmqpull_client.flow import Flow
from rmqpull_client.model import SQL92, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.standard.client import StandardClient
from rmqpull_client.transports.port import BrokerClient
from rmqpull_proto import columns as wire
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.scripted_channel import FixedChannel
from tests.harness.served_broker import ServeBroker

QUEUE = MessageQueue("orders", "broker-a", 0)
COUNT = 3_000
PAID = MessageFilter("paid || lost")


def tagged() -> pa.RecordBatch:
    """Every third message has the tag "paid", every third none; ``number`` is a property."""
    tags = [("paid", "sent", None)[number % 3] for number in range(COUNT)]
    properties = pa.array([[("number", str(number))] for number in range(COUNT)], wire.PROPERTIES)
    return pa.record_batch({"body": pa.array([b"x"] * COUNT), "tags": tags, "properties": properties})


def offsets(client: BrokerClient, wanted: MessageFilter, first: int = 0, until: int = COUNT) -> list[int]:
    answers = client.read("g", [QueueRange(QUEUE, first, until)], ["queueOffset"], message_filter=wanted)
    return [
        offset
        for answer in answers
        for entry in answer
        for batch in entry.batches
        for offset in batch.column("queueOffset").to_pylist()
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (PAID, range(0, COUNT, 3)),
        (MessageFilter("sent||paid"), [n for n in range(COUNT) if n % 3 < 2]),
        (MessageFilter("nobody"), []),
        (MessageFilter("*"), range(COUNT)),
        (MessageFilter("number >= 2990 OR number = 5", SQL92), [5, *range(2990, COUNT)]),
        (MessageFilter("TAGS IS NULL AND number < 6", SQL92), [2, 5]),
    ],
)
def test_only_the_messages_that_the_filter_keeps_are_read(
    serve: ServeBroker, wanted: MessageFilter, expected: Sequence[int]
) -> None:
    assert offsets(serve(batch=tagged()).client, wanted) == list(expected)


def test_a_range_with_a_filter_keeps_its_bounds(serve: ServeBroker) -> None:
    assert offsets(serve(batch=tagged()).client, PAID, 4, 12) == [6, 9]


@pytest.mark.parametrize("wanted", [MessageFilter("||"), MessageFilter("number >", SQL92), MessageFilter("*", SQL92)])
def test_a_malformed_expression_is_an_option_error(serve: ServeBroker, wanted: MessageFilter) -> None:
    client = serve(batch=tagged()).client
    with pytest.raises(
        OptionError,
        match=r"The broker does not evaluate the filter expression .* \(options filterExpression and filterType\)",
    ):
        client.check_filter("g", QUEUE, 0, wanted)


@pytest.mark.parametrize("offset", [0, 7, COUNT, COUNT + 5])
def test_a_valid_expression_passes_at_any_offset(serve: ServeBroker, offset: int) -> None:
    serve(batch=tagged()).client.check_filter("g", QUEUE, offset, PAID)


def test_with_a_filter_too_a_range_beyond_the_end_is_lost(serve: ServeBroker) -> None:
    client = serve(batch=tagged()).client
    with pytest.raises(DataLoss, match="orders/broker-a/0"):
        offsets(client, PAID, COUNT - 5, COUNT + 5)


def standard_client(code: v2.Code, status: str, next_offset: int, *tags: str) -> StandardClient:
    messages = [
        v2.Message(system_properties=v2.SystemProperties(queue_offset=at, tag=tag)) for at, tag in enumerate(tags)
    ]
    answer = [
        messaging.PullMessageResponse(status=v2.Status(code=code, message=status)),
        *(messaging.PullMessageResponse(message=message) for message in messages),
        messaging.PullMessageResponse(next_offset=next_offset),
    ]
    return StandardClient(cast(BrokerChannel, FixedChannel(answer)), Flow())


def column_client(status: v1.PullStatus, next_offset: int, *tags: str, min_offset: int = 0) -> ColumnarClient:
    schema = wire.select(wire.PULL_SCHEMA, ["queueOffset", "tags"])
    batch = pa.record_batch([pa.array(range(len(tags)), pa.int64()), pa.array(tags, pa.string())], schema=schema)
    result = v1.QueuePulled(
        pull_status=status, row_count=len(tags), next_offset=next_offset, min_offset=min_offset, max_offset=10
    )
    answer = v1.PullColumnsResponse(queues=[result], arrow_ipc=wire.write_stream(schema, [batch]) if tags else b"")
    return ColumnarClient(cast(BrokerChannel, FixedChannel(answer)))


@pytest.mark.parametrize(
    "client",
    [
        standard_client(v2.Code.OK, "FOUND", 10, "paid", "Pzjd", "paid"),
        column_client(v1.PullStatus.FOUND, 10, "paid", "Pzjd", "paid"),
    ],
    ids=["none", "columns"],
)
def test_the_client_drops_another_tag_with_the_same_hash(client: BrokerClient) -> None:
    assert offsets(client, PAID, 0, 10) == [0, 2]


@pytest.mark.parametrize(
    "client",
    [
        standard_client(v2.Code.ILLEGAL_OFFSET, "OFFSET_TOO_SMALL", 5),
        standard_client(v2.Code.MESSAGE_NOT_FOUND, "MESSAGE_WAS_REMOVING", 10),
        standard_client(v2.Code.MESSAGE_NOT_FOUND, "OFFSET_FOUND_NULL", 10),
        standard_client(v2.Code.MESSAGE_NOT_FOUND, "OFFSET_OVERFLOW_ONE", 0),
        standard_client(v2.Code.OK, "FOUND", 0, "paid"),
        column_client(v1.PullStatus.OFFSET_TOO_SMALL, 5, min_offset=5),
        column_client(v1.PullStatus.MESSAGE_WAS_REMOVING, 10),
        column_client(v1.PullStatus.OFFSET_FOUND_NULL, 10),
    ],
)
def test_with_a_filter_too_missing_messages_are_lost(client: BrokerClient) -> None:
    with pytest.raises(DataLoss, match="orders/broker-a/0"):
        offsets(client, PAID, 0, 10)
