"""Dispatch: finds the handler of a request, and turns its result or its error into a response (rules 4.2.4, 4.2.6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from rmqpull_broker.core.errors import BrokerError, Forbidden
from rmqpull_broker.server.runtime.remoting_calls import Handler, RemotingCall, RemotingService, Reply
from rmqpull_proto.remoting.codes import ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand
from rmqpull_proto.remoting.frames import WireError

Respond = Callable[[RemotingCommand | bytes], None]
"""Sends the response to one request."""

_logger = logging.getLogger(__name__)


class Dispatcher:
    """Runs the handlers of one broker. Belongs to the event loop."""

    def __init__(self, service: RemotingService, handlers: Mapping[int, Handler]) -> None:
        self._service = service
        self._handlers = handlers
        self._tasks: set[asyncio.Task[None]] = set()

    def handle(self, call: RemotingCall, respond: Respond) -> None:
        """Handles a request. Calls ``respond`` once, now or later, unless the request gets no response."""
        reply: Reply | Coroutine[Any, Any, Reply]
        handler = self._handlers.get(call.command.code)
        if handler is None:
            remark = f" request type {call.command.code} not supported"
            reply = call.respond(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        else:
            try:
                reply = handler(self._service, call)
            except Exception as error:  # noqa: BLE001 (the client always gets a response; the log gets the details)
                reply = _refuse(call, error)
        if isinstance(reply, Coroutine):
            task = asyncio.get_running_loop().create_task(self._finish(call, reply, respond))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif reply is not None and not call.command.is_oneway:
            respond(reply)

    async def stop(self, grace_s: float) -> None:
        """Lets the requests in flight end for ``grace_s`` seconds. Then it cancels them."""
        if self._tasks:
            _, left = await asyncio.wait(self._tasks, timeout=grace_s)
            for task in left:
                task.cancel()

    async def _finish(self, call: RemotingCall, work: Coroutine[Any, Any, Reply], respond: Respond) -> None:
        try:
            reply = await work
        except Exception as error:  # noqa: BLE001 (as above)
            reply = _refuse(call, error)
        if reply is not None and not call.command.is_oneway:
            respond(reply)


def _refuse(call: RemotingCall, error: Exception) -> RemotingCommand:
    """Makes the response to a request that failed."""
    if isinstance(error, Forbidden) and error.forbidden_type is not None:
        fields = {"forbiddenType": str(int(error.forbidden_type))}
        return call.respond(fields, code=error.response_code, remark=str(error))
    if isinstance(error, BrokerError):
        return call.respond(code=error.response_code, remark=str(error))
    if isinstance(error, WireError):
        return call.respond(code=ResponseCode.SYSTEM_ERROR, remark=str(error))
    _logger.error("request %d failed", call.command.code, exc_info=error)
    return call.respond(code=ResponseCode.SYSTEM_ERROR, remark="the broker failed; its log says why")
