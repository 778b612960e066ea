"""What a broker asks of members that speak ``apache.rocketmq.v2``, for an administrator (rules 3.5.3, 5.7)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.server.remoting.handlers import consumers
from rmqpull_broker.server.remoting.wire.message_ids import make_offset_msg_id
from rmqpull_broker.testing import RunningBroker, running_broker
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc
from rmqpull_proto.remoting.codes import RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from tests.harness.remoting_member import RemotingMember
from tests.harness.rpc_client import Connect, OpenTelemetryStream, RpcStream
from tests.harness.waiting import WAIT_S, wait_until


class StreamOffice:
    """A broker with topic ``orders``, and an administrator who asks while the test plays the consumer."""

    def __init__(self, broker: RunningBroker, admin: RemotingMember, threads: ThreadPoolExecutor) -> None:
        self.broker = broker
        self._admin = admin
        self._threads = threads

    def start(self, code: RequestCode, **fields: Any) -> Future[RemotingCommand]:
        return self._threads.submit(self._admin.call, code, fields)

    def find_physical_offset(self, queue: MessageQueue, offset: int) -> int:
        return self.broker.look(lambda state: state.physical_offsets.find(queue, offset))


@pytest.fixture
def office() -> Iterator[StreamOffice]:
    with (
        running_broker({"orders": 1}, remoting=True, clock="manual") as broker,
        RemotingMember(broker.remoting_addresses[0], "admin") as admin,
        ThreadPoolExecutor(1) as threads,
    ):
        yield StreamOffice(broker, admin, threads)


@pytest.fixture
def bob(office: StreamOffice, connect: Connect, open_telemetry_stream: OpenTelemetryStream) -> RpcStream:
    """The Telemetry stream of a push consumer of ``apache.rocketmq.v2``."""
    return open_telemetry_stream(
        connect(office.broker.endpoints, client_id="bob"), "PUSH_CONSUMER", "orders", group="readers"
    )


def ask_bob(office: StreamOffice, **fields: Any) -> Future[RemotingCommand]:
    return office.start(RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="readers", clientId="bob", **fields)


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        ("OK", (0, None)),
        ("VERIFY_FIFO_MESSAGE_UNSUPPORTED", (16, "forbidden to verify message")),
        ("INTERNAL_ERROR", (1, "verify message failed")),
    ],
)
def test_a_member_with_a_stream_tells_the_stacks_of_its_threads(
    office: StreamOffice, bob: RpcStream, code: str, answer: tuple[int, str | None]
) -> None:
    asked = ask_bob(office, jstackEnable="true")
    command = bob.receive().print_thread_stack_trace_command
    trace = rpc.ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main ...")
    for nonce in ("another", command.nonce, command.nonce):
        trace.nonce = nonce
        bob.send(rpc.TelemetryCommand(status=v2.Status(code=code), thread_stack_trace=trace))
    response = asked.result(WAIT_S)
    assert (response.code, response.remark) == answer
    if code == "OK":
        told = json.loads(bytes(response.body))
        assert (told["jstack"], told["mqTable"], told["subscriptionSet"]) == ("main ...", {}, [])


@pytest.mark.parametrize(
    ("code", "result"),
    [
        ("OK", "CR_SUCCESS"),
        ("FAILED_TO_CONSUME_MESSAGE", "CR_LATER"),
        ("MESSAGE_CORRUPTED", "CR_RETURN_NULL"),
        ("VERIFY_FIFO_MESSAGE_UNSUPPORTED", None),
    ],
)
def test_a_member_with_a_stream_consumes_a_message_whatever_its_offset_is(
    office: StreamOffice, bob: RpcStream, code: str, result: str | None
) -> None:
    (sent,) = office.broker.send("orders", b"body of the message")
    queue = MessageQueue("orders", "broker-a", 0)
    msg_id = make_offset_msg_id("127.0.0.1", 1, office.find_physical_offset(queue, sent.queue_offset))
    asked = office.start(RequestCode.CONSUME_MESSAGE_DIRECTLY, consumerGroup="readers", clientId="bob", msgId=msg_id)
    command = bob.receive().verify_message_command
    assert (command.message.body, command.message.topic.name) == (b"body of the message", "orders")
    verified = rpc.VerifyMessageResult(nonce=command.nonce)
    bob.send(rpc.TelemetryCommand(status=v2.Status(code=code), verify_message_result=verified))
    told = json.loads(bytes(asked.result(WAIT_S).body))
    assert (told.get("consumeResult"), told["remark"]) == (result, "from gRPC client")


@pytest.mark.proves("GET_CONSUMER_RUNNING_INFO (307) of a member of gRPC, without `jstackEnable`")
def test_a_member_whose_stream_is_silent_or_closed_tells_nothing(
    office: StreamOffice, bob: RpcStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Apache's proxy has no question for it.
    assert ask_bob(office).result(WAIT_S).code == ResponseCode.CONSUME_MSG_TIMEOUT
    monkeypatch.setattr(consumers, "FORWARD_TIMEOUT_MS", 10)
    assert ask_bob(office, jstackEnable="true").result(WAIT_S).code == ResponseCode.CONSUME_MSG_TIMEOUT
    bob.cancel()

    def is_closed() -> bool:
        response = ask_bob(office, jstackEnable="true").result(WAIT_S)
        return "the client has no open Telemetry stream" in str(response.remark)

    wait_until(is_closed, "the stream is closed")
