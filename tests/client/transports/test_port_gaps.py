"""A gap in what a pull gives is loss: nothing is filtered, and every message was there when the batch was planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from rmqpull_client.errors import DataLoss
from rmqpull_client.flow import Flow
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.standard.client import StandardClient
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

RANGE = QueueRange(MessageQueue("orders", "broker-a", 0), 0, 10)


class FixedChannel:
    """Answers every call with the same."""

    endpoints = "127.0.0.1:1"

    def __init__(self, answer: object) -> None:
        self._answer = answer

    def start(self, *_: object) -> Callable[[], object]:
        return lambda: self._answer

    start_stream = start


def standard_answer(code: v2.Code, offsets: list[int], next_offset: int) -> list[messaging.PullMessageResponse]:
    messages = [v2.Message(system_properties=v2.SystemProperties(queue_offset=offset)) for offset in offsets]
    return [
        messaging.PullMessageResponse(status=v2.Status(code=code, message="as the store says")),
        *(messaging.PullMessageResponse(message=message) for message in messages),
        messaging.PullMessageResponse(next_offset=next_offset),
    ]


@pytest.mark.parametrize(
    ("code", "offsets", "next_offset"),
    [
        (v2.Code.OK, [0, 2], 3),
        (v2.Code.OK, [1, 2], 3),
        (v2.Code.OK, [0, 1], 5),
        (v2.Code.MESSAGE_NOT_FOUND, [], 5),
        (v2.Code.MESSAGE_NOT_FOUND, [], 0),
        (v2.Code.ILLEGAL_OFFSET, [], 7),
    ],
)
def test_over_the_standard_protocol(code: v2.Code, offsets: list[int], next_offset: int) -> None:
    channel = cast(BrokerChannel, FixedChannel(standard_answer(code, offsets, next_offset)))
    with pytest.raises(DataLoss, match=r"orders/broker-a/0.*are lost.*as the store says"):
        list(StandardClient(channel, Flow()).read("g", [RANGE], ["queueOffset"]))


@pytest.mark.parametrize(
    ("status", "row_count", "next_offset"),
    [(v1.PullStatus.FOUND, 2, 3), (v1.PullStatus.NO_MATCHED_MESSAGE, 0, 4), (v1.PullStatus.NOT_REACHED, 0, 1)],
)
def test_in_columns(status: v1.PullStatus, row_count: int, next_offset: int) -> None:
    result = v1.QueuePulled(pull_status=status, row_count=row_count, next_offset=next_offset, max_offset=10)
    channel = cast(BrokerChannel, FixedChannel(v1.PullColumnsResponse(queues=[result])))
    with pytest.raises(DataLoss, match="messages of queue orders/broker-a/0"):
        list(ColumnarClient(channel).read("g", [RANGE], ["queueOffset"]))
