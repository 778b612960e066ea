"""SendMessage over gRPC (rocketmq-semantics 5.11)."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any

import pytest

from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service

if TYPE_CHECKING:
    from tests.broker.conftest import Client, Connect, Serve

QUEUES = [v2.MessageQueue(topic=v2.Resource(name="orders"), id=queue_id) for queue_id in (0, 1)]


def message(body: bytes = b"hello", topic: str = "orders", msg_id: str = "m", **system: Any) -> v2.Message:
    properties = v2.SystemProperties(message_id=msg_id, **system)
    return v2.Message(topic=v2.Resource(name=topic), body=body, system_properties=properties)


def with_properties(**properties: str) -> v2.Message:
    sent = message()
    sent.user_properties.update(properties)
    return sent


def delayed_until(seconds: int) -> v2.Message:
    sent = message()
    sent.system_properties.delivery_timestamp.FromSeconds(seconds)
    return sent


def half(topic: str = "orders", recovery_s: int = 0) -> v2.Message:
    sent = message(topic=topic, message_type=v2.MessageType.TRANSACTION)
    sent.system_properties.orphaned_transaction_recovery_duration.seconds = recovery_s
    return sent


def born_at(seconds: int) -> v2.Message:
    sent = message()
    sent.system_properties.born_timestamp.seconds = seconds
    return sent


def test_an_answer_has_one_entry_per_message_with_id_and_offset(client: Client) -> None:
    answer = client.send(message(msg_id="a"), message(msg_id="b"))
    assert [(entry.message_id, entry.offset) for entry in answer.entries] == [("a", 0), ("b", 1)]
    assert {entry.status.code for entry in answer.entries} == {v2.Code.OK}
    # Also for ordinary messages (rocketmq-semantics 6.2).
    assert [entry.transaction_id for entry in answer.entries] == ["a", "b"]


def test_messages_of_one_request_share_a_queue_and_requests_take_turns(client: Client) -> None:
    for bodies in ([b"1", b"2"], [b"3"], [b"4"]):
        client.send(*[message(body) for body in bodies])
    assert client.pull(QUEUES[0], 0).bodies == [b"1", b"2", b"4"]
    assert client.pull(QUEUES[1], 0).bodies == [b"3"]


def test_the_queue_that_a_producer_asks_for_is_ignored(client: Client) -> None:
    client.send(message(b"first", queue_id=1))
    assert client.pull(QUEUES[0], 0).bodies == [b"first"]


TOO_MANY = {f"k{number}": "v" for number in range(129)}


@pytest.mark.parametrize(
    ("messages", "code", "text"),
    [
        ([], "MESSAGE_CORRUPTED", "no message to send"),
        ([message(topic="")], "ILLEGAL_TOPIC", "The specified topic is blank."),
        ([message(topic="SELF_TEST_TOPIC")], "ILLEGAL_TOPIC", "cannot access system topic"),
        ([message(topic="unknown")], "TOPIC_NOT_FOUND", "unknown"),
        ([message(), message(topic="single")], "MESSAGE_CORRUPTED", "topic in message is not same"),
        ([message(b"")], "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ([message(bytes(4_194_305))], "MESSAGE_BODY_TOO_LARGE", "message body cannot exceed the max 4194304"),
        ([with_properties(**TOO_MANY)], "MESSAGE_PROPERTIES_TOO_LARGE", "too many user properties, max is 128"),
        ([with_properties(UNIQ_KEY="x")], "ILLEGAL_MESSAGE_PROPERTY_KEY", "property is used by system: UNIQ_KEY"),
        ([with_properties(k="a\nb")], "ILLEGAL_MESSAGE_PROPERTY_KEY", "control character"),
        ([message(tag=" ")], "ILLEGAL_MESSAGE_TAG", "tag cannot be the blank string"),
        ([message(tag="a|b")], "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
        ([message(keys=["ok", " "])], "ILLEGAL_MESSAGE_KEY", "key cannot be the blank string"),
        ([with_properties(k="v" * 16_384)], "MESSAGE_PROPERTIES_TOO_LARGE", "the total size of user property"),
        ([message(msg_id="")], "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ([message(message_group=" ")], "ILLEGAL_MESSAGE_GROUP", "blank"),
        ([message(message_group="g" * 64)], "ILLEGAL_MESSAGE_GROUP", "max length"),
        ([message(message_group="g")], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is FIFO"),
        ([delayed_until(0)], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is DELAY"),
        (
            [message(message_type=v2.MessageType.TRANSACTION)],
            "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
            "but actual type is TRANSACTION",
        ),
        ([message(body_encoding=7)], "MESSAGE_CORRUPTED", "unknown body encoding 7"),
        # What only rmqpull.v1 can say.
        ([message(body_encoding=0x101)], "MESSAGE_CORRUPTED", "unknown body encoding 257"),
        ([half(recovery_s=3_601)], "BAD_REQUEST", "the max transaction recovery time of message is too large"),
        ([delayed_until(1 << 33)], "ILLEGAL_DELIVERY_TIME", "the max delay time of message is too large"),
        ([born_at(1 << 62)], "BAD_REQUEST", "Timestamp is not valid"),
    ],
)
def test_a_bad_message_is_refused_by_rule(client: Client, messages: list[v2.Message], code: str, text: str) -> None:
    answer = client.call("SendMessage", service.SendMessageRequest(messages=messages))
    assert v2.Code.Name(answer.status.code) == code
    assert text in answer.status.message
    assert not answer.entries


def test_one_bad_message_keeps_the_whole_request_out(client: Client) -> None:
    request = service.SendMessageRequest(messages=[message(b"good"), message(b"")])
    assert client.code("SendMessage", request) == "MESSAGE_BODY_EMPTY"
    assert client.send(message()).entries[0].offset == 0


def test_the_largest_legal_body_is_taken(client: Client) -> None:
    body = bytes(4_194_304)
    client.send(message(body))
    assert client.pull(QUEUES[0], 0).bodies == [body]


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    request = service.SendMessageRequest(messages=[message()])
    assert connect(broker.endpoints, client_id="").code("SendMessage", request) == "CLIENT_ID_REQUIRED"


def test_delayed_and_half_messages_are_taken_and_wait_out_of_sight(serve: Serve, connect: Connect) -> None:
    broker = serve("--topic", "later:1:DELAY", "--topic", "halves:1:TRANSACTION")
    client = connect(broker.endpoints)
    soon = message(topic="later", msg_id="soon")
    soon.system_properties.delivery_timestamp.FromMilliseconds((time.time_ns() // 1_000_000) + 80_000_000)
    (entry,) = client.send(soon).entries
    version, topic, broker_name, time_ms, msg_id = base64.urlsafe_b64decode(entry.recall_handle).decode().split(" ")
    assert (version, topic, broker_name, msg_id, entry.offset) == ("v1", "later", "broker-a", "soon", 0)
    assert int(time_ms) % 1_000 == 1
    (entry,) = client.send(half("halves")).entries
    assert (entry.transaction_id, entry.recall_handle) == ("m", "")
    for name in ("later", "halves"):
        assert client.bounds(name).queues[0].max_offset == 0


def test_a_message_whose_delivery_time_has_passed_is_there_at_once(serve: Serve, connect: Connect) -> None:
    client = connect(serve("--topic", "later:1:DELAY").endpoints)
    passed = message(topic="later")
    passed.system_properties.delivery_timestamp.FromSeconds(1)
    assert client.send(passed).entries[0].recall_handle == ""
    (pulled,) = client.pull(v2.MessageQueue(topic=v2.Resource(name="later")), 0).messages
    assert pulled.system_properties.message_type == v2.MessageType.DELAY
