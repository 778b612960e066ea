"""The broker reports a reset of a group once. The client logs it and repeats the pull: readers keep their offsets."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest

from rmqpull_client.flow import Flow
from rmqpull_client.model import EVERYTHING, MessageFilter, MessageQueue, QueueRange
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.columnar.lane import ColumnarLane
from rmqpull_client.transports.grpc.standard.client import StandardClient
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.scripted_channel import ScriptedChannel, column_response, standard_response
from tests.harness.served_broker import ServeBroker
from tests.harness.waiting import wait_until

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in (0, 1)]
LOGGED = "Consumer group g was reset to offset 7 of queue orders/broker-a/0; the query continues at its own offset"


def test_a_columnar_read_repeats_the_pull_of_the_queue_that_was_reset(caplog: pytest.LogCaptureFixture) -> None:
    channel = ScriptedChannel(
        column_response(("OFFSET_RESET", 0, 7), ("FOUND", 3, 3)),
        column_response(("FOUND", 2, 4)),
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
        standard_response(v2.Code.ILLEGAL_OFFSET, "OFFSET_RESET", [], 7),
        standard_response(v2.Code.OK, "FOUND", [2, 3], 4),
    )
    client = StandardClient(cast(BrokerChannel, channel), Flow())
    with caplog.at_level(logging.WARNING):
        [[rows]] = client.read("g", [QueueRange(QUEUES[0], 2, 4)], ["queueOffset"])
    assert rows.batches[0].column(0).to_pylist() == [2, 3]
    assert caplog.messages == [LOGGED]
    assert [request.offset for request in channel.requests] == [2, 2]


@pytest.mark.parametrize(
    ("results", "is_worth_a_look"),
    [
        ((("OFFSET_RESET", 0, 7), ("OFFSET_OVERFLOW_ONE", 0, 5)), True),
        ((("OFFSET_RESET", 0, 2), ("OFFSET_RESET", 0, 5)), True),
        ((("OFFSET_OVERFLOW_ONE", 0, 2), ("FOUND", 1, 6)), True),
        ((("OFFSET_OVERFLOW_ONE", 0, 2), ("OFFSET_OVERFLOW_ONE", 0, 5)), False),
    ],
)
def test_a_wait_ends_with_a_reset(results: Any, is_worth_a_look: bool) -> None:
    """The caller then queries the bounds, and waits again for the rest of its time."""
    channel = ScriptedChannel(column_response(*results))
    client = ColumnarClient(cast(BrokerChannel, channel))
    assert client.wait_for_messages("g", {QUEUES[0]: 2, QUEUES[1]: 5}, 1_000) == is_worth_a_look


@pytest.mark.parametrize("checks_filter", [False, True])
def test_each_kind_of_pull_logs_a_reset(
    serve: ServeBroker, checks_filter: bool, caplog: pytest.LogCaptureFixture
) -> None:
    served = serve()
    served.send(*[b"x"] * 9)
    served.client.set_consumer_offsets("g", {QUEUES[0]: 9})
    served.reset("g", QUEUES[0].queue_id, 7)
    if checks_filter:
        served.client.check_filter("g", QUEUES[0], 9, MessageFilter("paid"))
    else:
        # A real broker may need longer than 50 ms to answer. The pull then stays parked, and serves the next wait.
        def wait_and_look() -> bool:
            served.client.wait_for_messages("g", {QUEUES[0]: 9}, 50)
            return bool(caplog.messages)

        wait_until(wait_and_look, "the reset logged")
    assert caplog.messages == [LOGGED]
