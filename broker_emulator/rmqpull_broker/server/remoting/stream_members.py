"""Questions of an administrator to members that speak ``apache.rocketmq.v2``, as Apache's proxy translates them.

Each function returns the client's answer as the response to the administrator. It raises TimeoutError and
ConnectionError.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.questions import PrintThreadStack, VerifyMessage
from rmqpull_broker.server.runtime.service import Service
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

AskMember = Callable[[str, int], Awaitable[RemotingCommand]]
"""Asks a client, given its id, and waits up to that many milliseconds for its answer."""
_NO_RUNNING_INFO: dict[str, Any] = {
    **{name: {} for name in ("mqPopTable", "mqTable", "properties", "statusTable", "userConsumerInfo")},
    "subscriptionSet": [],
}
_RESULTS = {"OK": "CR_SUCCESS", "FAILED_TO_CONSUME_MESSAGE": "CR_LATER", "MESSAGE_CORRUPTED": "CR_RETURN_NULL"}


async def print_thread_stack(clients: Clients, client_id: str, timeout_ms: int) -> RemotingCommand:
    """Asks a client for the stacks of its threads: all that it tells of itself."""
    answer = await clients.questions.ask(lambda nonce: clients.send(client_id, PrintThreadStack(nonce)), timeout_ms)
    match answer.code:
        case "OK":
            return _respond({**_NO_RUNNING_INFO, "jstack": answer.text})
        case "VERIFY_FIFO_MESSAGE_UNSUPPORTED":
            return RemotingCommand(ResponseCode.NO_PERMISSION, remark="forbidden to verify message")
        case _:
            return RemotingCommand(ResponseCode.SYSTEM_ERROR, remark="verify message failed")


def verify_message(service: Service, queue: MessageQueue, queue_offset: int) -> AskMember:
    """Returns a function that lets a client consume the message that is stored there."""

    async def ask(client_id: str, timeout_ms: int) -> RemotingCommand:
        (stored,) = columns.to_rows(service.state.store.read(queue, queue_offset, queue_offset + 1))
        answer = await service.clients.questions.ask(
            lambda nonce: service.clients.send(client_id, VerifyMessage(nonce, stored, queue)), timeout_ms
        )
        result = {"autoCommit": True, "order": False, "remark": "from gRPC client", "spentTimeMills": 0}
        if answer.code in _RESULTS:
            result["consumeResult"] = _RESULTS[answer.code]
        return _respond(result)

    return ask


def _respond(body: dict[str, Any]) -> RemotingCommand:
    return RemotingCommand(ResponseCode.SUCCESS, body=json.dumps(body, separators=(",", ":"), sort_keys=True).encode())
