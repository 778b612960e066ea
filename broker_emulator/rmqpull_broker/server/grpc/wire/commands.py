"""Commands that ask a client of ``apache.rocketmq.v2`` for an answer, and the answers (rules 5.7)."""

from __future__ import annotations

from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.server.grpc.wire.codec import message_to
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.questions import ClientAnswer
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


def print_thread_stack_to(nonce: str) -> rpc.TelemetryCommand:
    """Makes the command that asks for the stacks of a client's threads."""
    return rpc.TelemetryCommand(
        status=OK, print_thread_stack_trace_command=rpc.PrintThreadStackTraceCommand(nonce=nonce)
    )


def verify_message_to(nonce: str, stored: StoredMessage, queue: MessageQueue) -> rpc.TelemetryCommand:
    """Makes the command that asks a consumer to consume a message."""
    verify = rpc.VerifyMessageCommand(nonce=nonce, message=message_to(stored, queue))
    return rpc.TelemetryCommand(status=OK, verify_message_command=verify)


def answer_from(command: rpc.TelemetryCommand) -> ClientAnswer | None:
    """Reads the answer of a client. Returns None for a command that is none."""
    known = command.status.code in v2.Code.values()
    code = v2.Code.Name(command.status.code) if known else str(command.status.code)
    match command.WhichOneof("command"):
        case "thread_stack_trace":
            trace = command.thread_stack_trace
            return ClientAnswer(trace.nonce, code, trace.thread_stack_trace)
        case "verify_message_result":
            return ClientAnswer(command.verify_message_result.nonce, code)
        case _:
            return None
