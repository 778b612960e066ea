"""QueryOffset over gRPC: BEGINNING, END and TIMESTAMP (rules 3.11)."""

from __future__ import annotations

import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import Connect, RpcClient

BEGINNING, END, TIMESTAMP = v2.QueryOffsetPolicy.BEGINNING, v2.QueryOffsetPolicy.END, v2.QueryOffsetPolicy.TIMESTAMP


def query(
    policy: v2.QueryOffsetPolicy, at_ms: int | None = None, topic: str = "single", queue_id: int = 0
) -> service.QueryOffsetRequest:
    queue = v2.MessageQueue(topic=v2.Resource(name=topic), id=queue_id)
    request = service.QueryOffsetRequest(message_queue=queue, query_offset_policy=policy)
    if at_ms is not None:
        request.timestamp.FromMilliseconds(at_ms)
    return request


@pytest.mark.parametrize("count", [0, 3])
def test_beginning_and_end_are_the_min_and_max_offset(client: RpcClient, count: int) -> None:
    for _ in range(count):
        client.send_bodies("single", b"x")
    assert client.call("QueryOffset", query(BEGINNING)).offset == 0
    assert client.call("QueryOffset", query(END)).offset == count


def test_a_time_finds_the_first_message_stored_then_or_later(client: RpcClient) -> None:
    client.send_bodies("single", b"x", b"x")
    messages = client.pull(v2.MessageQueue(topic=v2.Resource(name="single")), 0).messages
    stored_ms = messages[0].system_properties.store_timestamp.ToMilliseconds()
    # Messages of one request are stored in the same millisecond.
    for at_ms, offset in [(0, 0), (stored_ms, 0), (stored_ms + 1, 2), (stored_ms + 1_000_000, 2)]:
        assert client.call("QueryOffset", query(TIMESTAMP, at_ms)).offset == offset


def test_every_time_in_an_empty_queue_has_the_offset_zero(client: RpcClient) -> None:
    assert client.call("QueryOffset", query(TIMESTAMP, 1_700_000_000_000)).offset == 0


def beyond_all_years() -> service.QueryOffsetRequest:
    request = query(TIMESTAMP)
    request.timestamp.seconds = 1 << 62
    return request


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (query(END, topic="unknown"), "TOPIC_NOT_FOUND"),
        (query(END, queue_id=1), "BAD_REQUEST"),
        (query(END, queue_id=-1), "BAD_REQUEST"),
        (query(TIMESTAMP), "BAD_REQUEST"),
        (beyond_all_years(), "BAD_REQUEST"),
    ],
)
def test_a_bad_query_is_refused(client: RpcClient, request_: service.QueryOffsetRequest, code: str) -> None:
    assert client.code("QueryOffset", request_) == code


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    assert connect(broker.endpoints, client_id="").code("QueryOffset", query(END)) == "CLIENT_ID_REQUIRED"
