"""Commands that ask a client for an answer, and the answers (rules 5.7, 5.14)."""

from __future__ import annotations

from rmqpull_broker.core.sending.half_messages import TransactionCheck
from rmqpull_broker.server.grpc.wire.codec import message_to
from rmqpull_broker.server.grpc.wire.status import OK
from rmqpull_broker.server.questions import ClientAnswer, PrintThreadStack, VerifyMessage
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as rpc


def command_to(command: PrintThreadStack | VerifyMessage | TransactionCheck) -> rpc.TelemetryCommand:
    """Makes the command that a client gets."""
    match command:
        case PrintThreadStack(nonce):
            return rpc.TelemetryCommand(
                status=OK, print_thread_stack_trace_command=rpc.PrintThreadStackTraceCommand(nonce=nonce)
            )
        case VerifyMessage(nonce, stored, queue):
            verify = rpc.VerifyMessageCommand(nonce=nonce, message=message_to(stored, queue))
            return rpc.TelemetryCommand(status=OK, verify_message_command=verify)
    recover = rpc.RecoverOrphanedTransactionCommand(
        message=message_to(command.stored, command.queue), transaction_id=command.stored.message.msg_id
    )
    return rpc.TelemetryCommand(recover_orphaned_transaction_command=recover)


def answer_from(command: rpc.TelemetryCommand) -> ClientAnswer | None:
    """Reads the answer of a client. Returns None for any other command."""
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
