"""Receives with fields that no client sends: each gets a code, and nothing is taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rmqpull_broker.core.popping.request import ATTEMPT_ID_LENGTH_MAX
from rmqpull_broker.server.grpc.handlers.v2.receiving import receive_message
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from tests.harness.popping import GROUP, TOPIC, PopHarness, run_pops


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"invisible_ms": 9_999}, "ILLEGAL_INVISIBLE_TIME"),
        ({"invisible_ms": -1}, "ILLEGAL_INVISIBLE_TIME"),
        ({"invisible_ms": -(1 << 43)}, "ILLEGAL_INVISIBLE_TIME"),
        ({"invisible_ms": 12 * 3_600_000 + 1}, "ILLEGAL_INVISIBLE_TIME"),
        ({"topic": ""}, "ILLEGAL_TOPIC"),
        ({"topic": "x" * 128}, "ILLEGAL_TOPIC"),
        ({"topic": "\0"}, "ILLEGAL_TOPIC"),
        ({"topic": "none"}, "TOPIC_NOT_FOUND"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "ILLEGAL_TOPIC"),
        ({"group": ""}, "ILLEGAL_CONSUMER_GROUP"),
        ({"group": "€"}, "ILLEGAL_CONSUMER_GROUP"),
        ({"group": "CID_RMQ_SYS_x"}, "ILLEGAL_CONSUMER_GROUP"),
        ({"expression": "||"}, "ILLEGAL_FILTER_EXPRESSION"),
        ({"expression": "a" * 100_000}, "ILLEGAL_FILTER_EXPRESSION"),
        ({"expression": "a" * 100_000, "sql": True}, "INTERNAL_SERVER_ERROR"),
        ({"expression": "(" * 5_000, "sql": True}, "INTERNAL_SERVER_ERROR"),
        ({"attempt_id": "x" * (ATTEMPT_ID_LENGTH_MAX + 1)}, "BAD_REQUEST"),
    ],
)
def test_a_receive_that_makes_no_sense_is_refused(fields: dict[str, object], code: str) -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a")
        assert (await broker.receive(**fields)).code == code  # type: ignore[arg-type]
        assert (await broker.receive()).attempts == [1]

    run_pops(story)


@pytest.mark.parametrize("count", [0, -1, -(2**31), 2**31 - 1])
def test_any_batch_size_gets_messages(count: int) -> None:
    async def story(broker: PopHarness) -> None:
        await broker.send("a", "b")
        assert (await broker.receive(count)).bodies == (["a", "b"] if count > 1 else ["a"])

    run_pops(story)


@pytest.mark.parametrize("version", ["", "5", "5.0.x", "5..", "9" * 5_000, "5." + "9" * 5_000, "\u0665.0.3", "-"])
def test_any_version_of_a_client_is_accepted(version: str) -> None:
    async def story(broker: PopHarness) -> None:
        caller = replace(broker.caller(), version=version, remaining_ms=1_000)
        request = rpc.ReceiveMessageRequest(
            group=v2.Resource(name=GROUP), message_queue=v2.MessageQueue(topic=v2.Resource(name=TOPIC))
        )
        first, *_ = [part async for part in receive_message(broker.service, request, caller)]
        assert v2.Code.Name(first.status.code) in ("BAD_REQUEST", "ILLEGAL_POLLING_TIME")

    run_pops(story)
