"""SendMessageBack over gRPC (rules 3.10.3)."""

from __future__ import annotations

from typing import Any

import pytest

from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.rpc_client import RpcClient

SINGLE = v1.Queue(topic="single", broker_name="broker-a", queue_id=0)
DEAD = v2.MessageQueue(topic=v2.Resource(name="%DLQ%readers"), id=0)


def back(group: str = "readers", queue: v1.Queue = SINGLE, **fields: Any) -> v1.SendMessageBackRequest:
    return v1.SendMessageBackRequest(group=group, queue=queue, **fields)


@pytest.fixture
def consumer(client: RpcClient) -> RpcClient:
    """A client that has sent one message."""
    client.send_bodies("single", b"bad", tag="red")
    return client


@pytest.mark.proves("A returned message (CONSUMER_SEND_MSG_BACK)")
def test_a_message_without_further_retries_is_a_dead_letter(consumer: RpcClient) -> None:
    assert consumer.code("SendMessageBack", back(delay_level=-1)) == "OK"
    (message,) = consumer.pull(DEAD, 0).messages
    assert (message.body, message.system_properties.tag) == (b"bad", "red")
    assert (message.system_properties.message_id, message.system_properties.delivery_attempt) == ("m", 2)
    assert dict(message.user_properties) == {}


@pytest.mark.parametrize(("fields", "dead_letters"), [({}, 0), ({"max_reconsume_times": 0}, 1)])
def test_the_consumers_limit_wins_over_the_groups(
    consumer: RpcClient, fields: dict[str, Any], dead_letters: int
) -> None:
    assert consumer.code("SendMessageBack", back(**fields)) == "OK"
    # The first send-back creates the group's retry topic, which is empty until the delay has passed.
    assert consumer.bounds("%RETRY%readers").queues[0].max_offset == 0
    assert len(consumer.bounds("%DLQ%readers").queues) == dead_letters


@pytest.mark.parametrize(
    ("request_", "code", "text"),
    [
        (back(group=" "), "ILLEGAL_CONSUMER_GROUP", "blank"),
        (back(queue=v1.Queue(topic="single")), "BAD_REQUEST", "name of its broker"),
        (back(queue_offset=1), "INTERNAL_SERVER_ERROR", "look message by offset failed, 1"),
    ],
)
def test_a_bad_send_back_is_refused(
    consumer: RpcClient, request_: v1.SendMessageBackRequest, code: str, text: str
) -> None:
    status = consumer.call("SendMessageBack", request_).status
    assert v2.Code.Name(status.code) == code
    assert text in status.message
