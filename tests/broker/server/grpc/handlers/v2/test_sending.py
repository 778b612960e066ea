"""SendMessage over gRPC (rules 5.11)."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue, TopicConfig, TopicType
from rmqpull_broker.server.grpc.handlers.v2.sending import send_message
from rmqpull_broker.server.grpc.wire.proxy_errors import FROM_PROXY
from rmqpull_broker.testing import RunningBroker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.handlers import HandlerHarness
from tests.harness.rpc_client import Connect, RpcClient

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


def make_half_message(topic: str = "orders", recovery_s: int = 0) -> v2.Message:
    sent = message(topic=topic, message_type=v2.MessageType.TRANSACTION)
    sent.system_properties.orphaned_transaction_recovery_duration.seconds = recovery_s
    return sent


def born_at(seconds: int) -> v2.Message:
    sent = message()
    sent.system_properties.born_timestamp.seconds = seconds
    return sent


@pytest.mark.proves("The answer to several messages in one SendMessage")
def test_a_response_has_one_entry_per_message_with_id_and_offset(client: RpcClient) -> None:
    answer = client.send(message(msg_id="a"), message(msg_id="b"))
    assert [(entry.message_id, entry.offset) for entry in answer.entries] == [("a", 0), ("b", 1)]
    assert {entry.status.code for entry in answer.entries} == {v2.Code.OK}
    # Also for ordinary messages (rules 6.2).
    assert [entry.transaction_id for entry in answer.entries] == ["a", "b"]


def test_messages_of_one_request_share_a_queue_and_requests_take_turns(client: RpcClient) -> None:
    for bodies in ([b"1", b"2"], [b"3"], [b"4"]):
        client.send(*[message(body) for body in bodies])
    assert client.pull(QUEUES[0], 0).bodies == [b"1", b"2", b"4"]
    assert client.pull(QUEUES[1], 0).bodies == [b"3"]


def test_the_queue_that_a_producer_asks_for_is_ignored(client: RpcClient) -> None:
    client.send(message(b"first", queue_id=1))
    assert client.pull(QUEUES[0], 0).bodies == [b"first"]


TOO_MANY = {f"k{number}": "v" for number in range(129)}


@pytest.mark.parametrize(
    ("messages", "code", "text"),
    [
        ([], "MESSAGE_CORRUPTED", "no message to send"),
        ([message(topic="")], "ILLEGAL_TOPIC", "The specified topic is blank"),
        ([message(topic="SELF_TEST_TOPIC")], "ILLEGAL_TOPIC", "cannot access system topic"),
        (
            [message(topic="unknown")],
            "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
            f"{FROM_PROXY}TopicMessageType validate failed, the expected type is UNSPECIFIED, but "
            "actual type is NORMAL",
        ),
        ([message(b"", topic="unknown")], "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        (
            [message(topic="%RETRY%unknown")],
            "TOPIC_NOT_FOUND",
            "route info in name server for the topic: %RETRY%unknown\n",
        ),
        ([message(), message(topic="single")], "MESSAGE_CORRUPTED", "topic in message is not same"),
        ([message(b"")], "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ([message(bytes(4_194_305))], "MESSAGE_BODY_TOO_LARGE", "message body cannot exceed the max 4194304"),
        ([with_properties(**TOO_MANY)], "MESSAGE_PROPERTIES_TOO_LARGE", "too many user properties, max is 128"),
        ([with_properties(UNIQ_KEY="x")], "ILLEGAL_MESSAGE_PROPERTY_KEY", "property is used by system: UNIQ_KEY"),
        (
            [with_properties(k="a\nb")],
            "ILLEGAL_MESSAGE_PROPERTY_KEY",
            "the value of property cannot contain control character",
        ),
        (
            [with_properties(**{"k\n": "b"})],
            "ILLEGAL_MESSAGE_PROPERTY_KEY",
            "the key of property cannot contain control character",
        ),
        ([message(trace_context="t" * 32_768)], "INTERNAL_SERVER_ERROR", "msg properties length limit 32KB."),
        ([message(tag=" ")], "ILLEGAL_MESSAGE_TAG", "tag cannot be the char sequence of whitespace"),
        ([message(tag="a|b")], "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
        ([message(keys=["ok", " "])], "ILLEGAL_MESSAGE_KEY", "key cannot be the char sequence of whitespace"),
        ([with_properties(k="v" * 16_384)], "MESSAGE_PROPERTIES_TOO_LARGE", "the total size of user property"),
        ([message(msg_id="")], "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ([message(message_group=" ")], "ILLEGAL_MESSAGE_GROUP", "whitespace"),
        ([message(message_group="g" * 64)], "ILLEGAL_MESSAGE_GROUP", "max size 64"),
        ([message(message_group="g")], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is FIFO"),
        ([with_properties(__SHARDINGKEY="g")], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is FIFO"),
        # Each message passes all checks before the next one.
        ([message(b""), message(topic="single")], "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ([message(tag="|"), message(b"")], "ILLEGAL_MESSAGE_TAG", "tag cannot contain '|'"),
        ([message(topic="single"), message(b""), message()], "MESSAGE_CORRUPTED", "topic in message is not same"),
        ([message(msg_id=""), born_at(1 << 62)], "ILLEGAL_MESSAGE_ID", "message id cannot be empty"),
        ([message(message_group="g"), message(b"")], "MESSAGE_BODY_EMPTY", "message body cannot be empty"),
        ([message(), message(message_group="g")], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is FIFO"),
        ([delayed_until(0)], "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE", "but actual type is DELAY"),
        (
            [message(message_type=v2.MessageType.TRANSACTION)],
            "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE",
            "but actual type is TRANSACTION",
        ),
        (
            [make_half_message(recovery_s=3_601)],
            "BAD_REQUEST",
            "the max transaction recovery time of message is too large",
        ),
        ([delayed_until(1 << 33)], "ILLEGAL_DELIVERY_TIME", "the max delay time of message is too large"),
        ([born_at(1 << 62)], "BAD_REQUEST", "Timestamp is not valid"),
    ],
)
@pytest.mark.proves("Messages of several types in one SendMessage")
def test_a_bad_message_is_refused(client: RpcClient, messages: list[v2.Message], code: str, text: str) -> None:
    answer = client.call("SendMessage", service.SendMessageRequest(messages=messages))
    assert v2.Code.Name(answer.status.code) == code
    assert text in answer.status.message
    assert not answer.entries


@pytest.mark.parametrize("number", [7, 0x101], ids=["of nobody", "of rmqpull.v1 alone"])
def test_an_unknown_encoding_is_none(client: RpcClient, number: int) -> None:
    client.send(message(body_encoding=number))
    (pulled,) = client.pull(QUEUES[0], 0).messages
    assert pulled.system_properties.body_encoding == v2.Encoding.IDENTITY


def test_one_bad_message_refuses_the_whole_request(client: RpcClient) -> None:
    request = service.SendMessageRequest(messages=[message(b"good"), message(b"")])
    assert client.code("SendMessage", request) == "MESSAGE_BODY_EMPTY"
    assert client.send(message()).entries[0].offset == 0


def test_the_largest_body_is_accepted(client: RpcClient) -> None:
    body = bytes(4_194_304)
    client.send(message(body))
    assert client.pull(QUEUES[0], 0).bodies == [body]


def test_a_caller_without_a_client_id_is_refused(broker: RunningBroker, connect: Connect) -> None:
    request = service.SendMessageRequest(messages=[message()])
    assert connect(broker.endpoints, client_id="").code("SendMessage", request) == "CLIENT_ID_REQUIRED"


NOW_S = 1_000
"""The time of the manual clock."""


async def answered(handlers: HandlerHarness, topic_type: TopicType, sent: v2.Message) -> Any:
    """The entry of a send to the topic ``orders`` of that type."""
    topic = TopicConfig("orders", 1, 1, topic_type, "id")
    await handlers.group_commit.execute(lambda draft: create_topic(draft, topic))
    request = service.SendMessageRequest(messages=[sent])
    (entry,) = (await send_message(handlers.service, request, handlers.caller())).entries
    return entry


@pytest.mark.parametrize(
    ("seconds", "handle"),
    [(NOW_S, ""), (NOW_S + 60, "v1 orders broker-a 1059001 m"), (NOW_S + 86_400, "v1 orders broker-a 87399001 m")],
)
def test_a_delayed_message_gets_a_recall_handle(seconds: int, handle: str) -> None:
    handlers = HandlerHarness()
    entry = asyncio.run(answered(handlers, TopicType.DELAY, delayed_until(seconds)))
    assert (entry.message_id, entry.offset) == ("m", 0)
    assert base64.urlsafe_b64decode(entry.recall_handle).decode() == handle
    assert len(handlers.state.delayed) == (seconds > NOW_S)


def test_a_half_message_has_its_topic_as_producer_group_and_an_immunity_time() -> None:
    handlers = HandlerHarness()
    entry = asyncio.run(answered(handlers, TopicType.TRANSACTION, make_half_message(recovery_s=3_600)))
    assert (entry.transaction_id, entry.recall_handle) == ("m", "")
    (waiting,) = handlers.state.halves
    assert waiting.due_ms == (NOW_S + 3_600) * 1_000
    (row,) = columns.to_rows(handlers.state.store.read(waiting.stored_at.queue, 0, 1))
    assert row.message.system_properties == {
        "__BORNHOST": "127.0.0.1:5555",
        "BORN_TIMESTAMP": str(NOW_S * 1_000),
        "PGROUP": "orders",
        "__transactionId__": "m",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "3600",
        "TRAN_MSG": "true",
        "REAL_TOPIC": "orders",
        "REAL_QID": "0",
    }


def test_a_retry_has_the_number_of_deliveries() -> None:
    handlers = HandlerHarness()
    topic = TopicConfig("%RETRY%readers", 1, 1)
    again = message(topic=topic.name, delivery_attempt=17)

    async def story() -> None:
        await handlers.group_commit.execute(lambda draft: create_topic(draft, topic))
        await send_message(handlers.service, service.SendMessageRequest(messages=[again]), handlers.caller())

    asyncio.run(story())
    (row,) = columns.to_rows(handlers.state.store.read(MessageQueue("%DLQ%readers", "broker-a", 0), 0, 1))
    assert row.reconsume_times == 17
