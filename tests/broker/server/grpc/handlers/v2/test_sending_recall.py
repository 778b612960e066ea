"""Delayed messages and their recall over gRPC."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from rmqpull_broker.core.model import TopicType
from rmqpull_broker.server.grpc.wire.proxy_errors import FROM_PROXY
from rmqpull_broker.testing import RunningBroker, Topics, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.rpc_client import RpcClient

TOPICS: Topics = {"later": (1, TopicType.DELAY), "orders": 1}


@pytest.fixture
def broker() -> Iterator[RunningBroker]:
    with running_broker(topics=TOPICS, clock="manual") as running:
        yield running


def send(client: RpcClient, delivery_ms: int, topic: str = "later") -> Any:
    system = v2.SystemProperties(message_id="ID", message_type=v2.MessageType.DELAY)
    system.delivery_timestamp.FromMilliseconds(delivery_ms)
    message = v2.Message(topic=v2.Resource(name=topic), body=b"x", system_properties=system)
    return client.call("SendMessage", service.SendMessageRequest(messages=[message]))


def recall(client: RpcClient, handle: str, topic: str = "later") -> Any:
    request = service.RecallMessageRequest(topic=v2.Resource(name=topic), recall_handle=handle)
    return client.call("RecallMessage", request)


def code(answer: Any) -> str:
    return str(v2.Code.Name(answer.status.code))


def test_a_message_is_delivered_at_its_time(broker: RunningBroker, client: RpcClient) -> None:
    delivery_ms = broker.clock.now_ms() + 3_600_000
    assert code(send(client, delivery_ms)) == "OK"
    broker.clock.advance(minutes=59)
    assert broker.messages("later") == []
    broker.clock.advance(minutes=1)
    (row,) = broker.messages("later")
    assert delivery_ms - 1_000 <= row.store_timestamp_ms <= delivery_ms
    pulled = client.pull(v2.MessageQueue(topic=v2.Resource(name="later")), 0)
    assert pulled.messages[0].system_properties.delivery_timestamp.ToMilliseconds() == delivery_ms


def test_a_delivery_wakes_a_parked_pull(broker: RunningBroker, client: RpcClient) -> None:
    send(client, broker.clock.now_ms() + 5_000)
    pull = client.start_pull(v2.MessageQueue(topic=v2.Resource(name="later")), 0, wait_ms=60_000)
    broker.clock.advance(seconds=5)
    assert client.finish_pull(pull).bodies == [b"x"]


def test_a_recalled_message_never_comes(broker: RunningBroker, client: RpcClient) -> None:
    handle = send(client, broker.clock.now_ms() + 60_000).entries[0].recall_handle
    answer = recall(client, handle)
    assert (code(answer), answer.message_id) == ("OK", "ID")
    broker.clock.advance(hours=1)
    assert broker.messages("later") == []


def test_only_messages_of_delay_topics_are_recalled(client: RpcClient) -> None:
    refused = recall(client, "any", "orders")
    assert code(refused) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    failed = f"{FROM_PROXY}TopicMessageType validate failed, the expected type is"
    assert refused.status.message == f"{failed} NORMAL, but actual type is DELAY"
    unknown = recall(client, "any", "unknown")
    assert code(unknown) == "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"
    assert unknown.status.message == f"{failed} UNSPECIFIED, but actual type is DELAY"


def make_handle(topic: str, broker: str) -> str:
    return base64.urlsafe_b64encode(f"v1 {topic} {broker} 1000 ID".encode()).decode()


@pytest.mark.parametrize(
    ("handle", "refused_with", "text"),
    [
        ("no handle", "INTERNAL_SERVER_ERROR", f"{FROM_PROXY}recall handle is invalid"),
        (make_handle("later", "nobody"), "BAD_REQUEST", f"{FROM_PROXY}cannot find broker nobody"),
        (make_handle("other", "broker-a"), "INTERNAL_SERVER_ERROR", "recall failed, topic not match"),
    ],
)
def test_a_bad_handle_is_refused(client: RpcClient, handle: str, refused_with: str, text: str) -> None:
    answer = recall(client, handle)
    assert (code(answer), answer.status.message) == (refused_with, text)
