"""A reset of the group, told once by OFFSET_RESET, moves no query: it is logged, and the pull repeated."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any, cast

import pyarrow as pa
import pytest

from rmqpull_broker.core import model
from rmqpull_broker.core.pulling.consumer_offsets import ResetRequest, invoke_reset
from rmqpull_broker.testing import running_broker
from rmqpull_client.errors import DataLoss
from rmqpull_client.flow import Flow
from rmqpull_client.model import EVERYTHING, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.columnar.client import ColumnarClient
from rmqpull_client.transports.columnar.lane import ColumnarLane
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.standard.client import StandardClient
from rmqpull_proto import columns
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1)]
LOGGED = "Consumer group g was reset to offset 7 of queue orders/broker-a/0; the query continues at its own offset"


class ScriptedChannel:
    """Gives one answer after the other and keeps what was asked."""

    endpoints = "127.0.0.1:1"

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)
        self.requests: list[Any] = []

    def call(self, method: object, request: Any, **_: object) -> object:
        self.requests.append(request)
        return self._answers.pop(0)

    def start(self, method: object, request: Any, *_: object) -> Callable[[], object]:
        answer = self.call(method, request)
        return lambda: answer

    start_stream = start


def column_answer(*results: tuple[str, int, int]) -> v1.PullColumnsResponse:
    """Each result is (status, rows, next offset); rows end at the next offset."""
    queues = [
        v1.QueuePulled(pull_status=status, row_count=rows, next_offset=next_offset, max_offset=10)
        for status, rows, next_offset in results
    ]
    offsets = [at for _, rows, next_offset in results for at in range(next_offset - rows, next_offset)]
    schema = columns.select(columns.PULL_SCHEMA, ["queueOffset"])
    batch = pa.record_batch({"queueOffset": pa.array(offsets, pa.int64())}, schema=schema)
    return v1.PullColumnsResponse(queues=queues, arrow_ipc=columns.write_stream(schema, [batch]) if offsets else b"")


def standard_answer(code: v2.Code, status: str, offsets: Iterable[int], next_offset: int) -> list[Any]:
    messages = [v2.Message(system_properties=v2.SystemProperties(queue_offset=offset)) for offset in offsets]
    return [
        messaging.PullMessageResponse(status=v2.Status(code=code, message=status)),
        *(messaging.PullMessageResponse(message=message) for message in messages),
        messaging.PullMessageResponse(next_offset=next_offset),
    ]


def test_a_columnar_read_repeats_the_pull_of_the_queue_that_was_reset(caplog: pytest.LogCaptureFixture) -> None:
    channel = ScriptedChannel(
        column_answer(("OFFSET_RESET", 0, 7), ("FOUND", 3, 3)),
        column_answer(("FOUND", 2, 4)),
    )
    ranges = [QueueRange(QUEUES[0], 2, 4), QueueRange(QUEUES[1], 0, 3)]
    lane = ColumnarLane(cast(BrokerChannel, channel), "g", ranges, ["queueOffset"], {}, EVERYTHING, 0)
    with caplog.at_level(logging.WARNING):
        pieces = [lane.pull(), lane.pull()]
    assert lane.is_done
    found = [(rows.queue, rows.batches[0].column(0).to_pylist()) for piece in pieces for rows in piece.rows]
    assert found == [(QUEUES[1], [0, 1, 2]), (QUEUES[0], [2, 3])]
    assert caplog.messages == [LOGGED]
    assert [(pull.offset, pull.until_offset) for pull in channel.requests[1].queues] == [(2, 4)]


def test_a_standard_read_repeats_the_pull(caplog: pytest.LogCaptureFixture) -> None:
    channel = ScriptedChannel(
        standard_answer(v2.Code.ILLEGAL_OFFSET, "OFFSET_RESET", [], 7),
        standard_answer(v2.Code.OK, "FOUND", [2, 3], 4),
    )
    client = StandardClient(cast(BrokerChannel, channel), Flow())
    with caplog.at_level(logging.WARNING):
        [[rows]] = client.read("g", [QueueRange(QUEUES[0], 2, 4)], ["queueOffset"])
    assert rows.batches[0].column(0).to_pylist() == [2, 3]
    assert caplog.messages == [LOGGED]
    assert [request.offset for request in channel.requests] == [2, 2]


@pytest.mark.parametrize(
    ("results", "has_news"),
    [
        ((("OFFSET_RESET", 0, 7), ("OFFSET_OVERFLOW_ONE", 0, 5)), True),
        ((("OFFSET_RESET", 0, 2), ("OFFSET_RESET", 0, 5)), True),
        ((("OFFSET_OVERFLOW_ONE", 0, 2), ("FOUND", 1, 6)), True),
        ((("OFFSET_OVERFLOW_ONE", 0, 2), ("OFFSET_OVERFLOW_ONE", 0, 5)), False),
    ],
)
def test_a_wait_ends_with_a_reset_as_with_news(results: Any, has_news: bool) -> None:
    """Whoever waits looks at the bounds then, and waits on within its own time."""
    channel = ScriptedChannel(column_answer(*results))
    client = ColumnarClient(cast(BrokerChannel, channel))
    assert client.wait_for_messages("g", {QUEUES[0]: 2, QUEUES[1]: 5}, 1_000) == has_news


@pytest.mark.parametrize("extensions", ["columns", "none"])
@pytest.mark.parametrize("asks_for_filter", [False, True])
def test_whatever_pull_is_told_of_a_reset_tells_it_in_the_log(
    extensions: str, asks_for_filter: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with running_broker({"orders": 1}, extensions=extensions) as broker:
        broker.send("orders", *[b"x"] * 9)
        client = connect(broker.endpoints)
        client.set_consumer_offsets("g", {QUEUES[0]: 9})
        broker.change(lambda draft: invoke_reset(draft, ResetRequest("g", "orders", model.MessageQueue(*QUEUES[0]), 7)))
        if asks_for_filter:
            client.check_filter("g", QUEUES[0], 9, MessageFilter("paid"))
        else:
            client.wait_for_messages("g", {QUEUES[0]: 9}, 50)
        client.close()
    assert caplog.messages == [LOGGED]


# --- the topic that is meant ------------------------------------------------------------------------------------------


def test_a_columnar_read_names_the_topic_that_it_was_planned_for() -> None:
    channel = ScriptedChannel(column_answer(("FOUND", 2, 4)))
    client = ColumnarClient(cast(BrokerChannel, channel))
    list(client.read("g", [QueueRange(QUEUES[0], 2, 4)], ["queueOffset"], {"orders": "first"}))
    assert [pull.creation_id for pull in channel.requests[0].queues] == ["first"]


def test_a_read_without_an_id_takes_any_topic_of_the_name() -> None:
    channel = ScriptedChannel(column_answer(("FOUND", 2, 4)))
    list(ColumnarClient(cast(BrokerChannel, channel)).read("g", [QueueRange(QUEUES[0], 2, 4)], ["queueOffset"]))
    assert not channel.requests[0].queues[0].HasField("creation_id")


def test_another_topic_of_the_same_name_is_a_loss() -> None:
    channel = ScriptedChannel(column_answer(("NO_MATCHED_LOGIC_QUEUE", 0, 2)))
    client = ColumnarClient(cast(BrokerChannel, channel))
    with pytest.raises(DataLoss, match=r"Queue orders/broker-a/0 no longer exists, or its topic .*\[2, 4\)"):
        list(client.read("g", [QueueRange(QUEUES[0], 2, 4)], ["queueOffset"], {"orders": "first"}))
