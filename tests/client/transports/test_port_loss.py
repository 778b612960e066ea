"""Messages of a range that a pull does not return are lost, unless a filter dropped them."""

from __future__ import annotations

from typing import cast

import pytest

from rmqpull_client.errors import DataLoss
from rmqpull_client.flow import Flow
from rmqpull_client.loss import Loss
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.standard.client import StandardClient
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.client.transports.test_port import numbered
from tests.harness.scripted_channel import FixedChannel, ScriptedChannel, column_response, standard_response
from tests.harness.served_broker import ServeBroker

QUEUE = MessageQueue("orders", "broker-a", 0)
RANGE = QueueRange(QUEUE, 0, 10)


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
def test_missing_offsets_in_a_standard_response_are_lost(code: v2.Code, offsets: list[int], next_offset: int) -> None:
    channel = cast(BrokerChannel, FixedChannel(standard_response(code, "SOME_STATUS", offsets, next_offset)))
    with pytest.raises(DataLoss, match=r"orders/broker-a/0.*are lost.*SOME_STATUS"):
        list(StandardClient(channel, Flow()).read("g", [RANGE], ["queueOffset"]))


@pytest.mark.parametrize(
    ("status", "row_count", "next_offset"),
    [(v1.PullStatus.FOUND, 2, 3), (v1.PullStatus.NO_MATCHED_MESSAGE, 0, 4), (v1.PullStatus.NOT_REACHED, 0, 1)],
)
def test_missing_rows_in_a_columnar_response_are_lost(status: v1.PullStatus, row_count: int, next_offset: int) -> None:
    result = v1.QueuePulled(pull_status=status, row_count=row_count, next_offset=next_offset, max_offset=10)
    channel = cast(BrokerChannel, FixedChannel(v1.PullColumnsResponse(queues=[result])))
    with pytest.raises(DataLoss, match="messages of queue orders/broker-a/0"):
        list(ColumnarClient(channel).read("g", [RANGE], ["queueOffset"]))


@pytest.mark.parametrize(
    ("wanted", "offsets", "lost"),
    [
        (QueueRange(QUEUE, 0, 10), range(10), []),
        (QueueRange(QUEUE, 5, 14), range(5, 10), [(QUEUE, 10, 14)]),
        (QueueRange(QUEUE, 12, 14), [], [(QUEUE, 12, 14)]),
        (QueueRange(QUEUE._replace(queue_id=5), 3, 7), [], [(QUEUE._replace(queue_id=5), 3, 7)]),
        (QueueRange(QUEUE._replace(topic="deleted"), 3, 7), [], [(QUEUE._replace(topic="deleted"), 3, 7)]),
    ],
    ids=["nothing lost", "end lost", "all lost", "no queue", "no topic"],
)
def test_a_read_continues_after_a_loss_if_on_loss_returns(
    serve: ServeBroker, wanted: QueueRange, offsets: range, lost: list[tuple[MessageQueue, int, int]]
) -> None:
    client, reported = serve(batch=numbered(10)).client, list[Loss]()
    responses = list(client.read("g", [wanted], ["queueOffset"], on_loss=reported.append))
    batches = [batch for response in responses for entry in response for batch in entry.batches]
    assert [at for batch in batches for at in batch.column("queueOffset").to_pylist()] == list(offsets)
    assert [loss[:3] for loss in reported] == lost


def test_a_server_with_columns_counts_lost_rows(serve: ServeBroker, extensions: str) -> None:
    client = serve(batch=numbered(10)).client
    for _ in range(2):
        client.report_lost("query", [Loss(QUEUE, 3, 7, "lost")])
    counted = client.query_bounds(["orders"], "query")["orders"].rows_lost
    assert counted == ({QUEUE: 4} if extensions == "columns" else None)
    assert not client.query_bounds(["orders"], "another")["orders"].rows_lost


# --- creation ids -----------------------------------------------------------------------------------------------------


def test_a_columnar_pull_has_the_creation_id_of_its_topic() -> None:
    channel = ScriptedChannel(column_response(("FOUND", 2, 4)))
    client = ColumnarClient(cast(BrokerChannel, channel))
    list(client.read("g", [QueueRange(QUEUE, 2, 4)], ["queueOffset"], {"orders": "first"}))
    assert [pull.creation_id for pull in channel.requests[0].queues] == ["first"]


def test_a_read_without_creation_ids_sends_none() -> None:
    channel = ScriptedChannel(column_response(("FOUND", 2, 4)))
    list(ColumnarClient(cast(BrokerChannel, channel)).read("g", [QueueRange(QUEUE, 2, 4)], ["queueOffset"]))
    assert not channel.requests[0].queues[0].HasField("creation_id")


def test_the_range_of_a_topic_that_was_created_again_is_lost() -> None:
    channel = ScriptedChannel(column_response(("NO_MATCHED_LOGIC_QUEUE", 0, 2)))
    client = ColumnarClient(cast(BrokerChannel, channel))
    with pytest.raises(DataLoss, match=r"Queue orders/broker-a/0 no longer exists, or its topic .*\[2, 4\)"):
        list(client.read("g", [QueueRange(QUEUE, 2, 4)], ["queueOffset"], {"orders": "first"}))
