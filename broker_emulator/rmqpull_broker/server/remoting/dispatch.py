"""Dispatch: finds the handler of a request, injects faults, sends the response, and counts and logs the request."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any
from weakref import WeakMethod

from rmqpull_broker.core.admin.fault_rules import CallFaults, Fault
from rmqpull_broker.core.errors import Forbidden
from rmqpull_broker.core.pulling.parking import PARKED_PULLS_OF_ALL_MAX
from rmqpull_broker.core.shares import Holder, Shares, find_holder
from rmqpull_broker.server.peers import Peer
from rmqpull_broker.server.remoting.bounds import find_body_bytes_max
from rmqpull_broker.server.remoting.calls import Handler, RemotingCall, RemotingService, Reply
from rmqpull_broker.server.remoting.refusals import refuse
from rmqpull_broker.server.remoting.targets import find_group, find_targets
from rmqpull_broker.server.remoting.timed_steps import TimedSteps
from rmqpull_broker.server.runtime.faults import Disconnected
from rmqpull_broker.server.runtime.noted_time import NOTE_TIME
from rmqpull_proto.remoting.codes import V4_5_0, V5_3_1, LanguageCode, RequestCode, ResponseCode
from rmqpull_proto.remoting.command import RemotingCommand

REQUESTS_MAX = PARKED_PULLS_OF_ALL_MAX + 20_000
"""Requests of a lone connection that wait for the commit log, for a message or for a fault rule. See
:mod:`rmqpull_broker.core.shares`."""

NOT_ON_VIP = frozenset(
    {
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.PEEK_MESSAGE,
        RequestCode.NOTIFICATION,
        RequestCode.POLLING_INFO,
    }
)
"""Requests that Apache's broker does not serve on its VIP channel (rules 4.12)."""

Respond = Callable[[RemotingCommand | bytes], None]
"""Sends the response to one request."""

_REQUESTS: Mapping[int, str] = {int(code): code.name for code in RequestCode}
_RESPONSES: Mapping[int, str] = {int(code): code.name for code in ResponseCode}
_UNKNOWN = "UNKNOWN"
"""The name of all requests with unknown codes: metrics must not grow with what clients send."""
_ENDED = "CANCELLED"
_NO_RESPONSE = "NO_RESPONSE"
_OVERLOAD = "[OVERLOAD]system busy, start flow control for a while"

_logger = logging.getLogger(__name__)
_access = logging.getLogger(f"{__name__}.access")


class Dispatcher:
    """Runs the handlers of one broker. Belongs to the event loop.

    A request that can be answered at once needs no task and no coroutine.
    """

    def __init__(self, service: RemotingService, handlers: Mapping[int, Handler], *, has_vip: bool = False) -> None:
        self._service = service
        self._handlers = handlers
        self._access = service.access
        self._faults = service.faults
        self._metrics = service.metrics
        self._tasks: set[asyncio.Task[None]] = set()
        self._shares = Shares(REQUESTS_MAX)
        self._is_stopping = False
        self._have_ended = asyncio.Event()
        self._watches_for_vip = not has_vip

    def handle(self, call: RemotingCall, respond: Respond) -> bool:
        """Handles a request. Calls ``respond`` once, now or later, unless the request gets no response.

        Returns whether there is a task, whose first step is due in the next turn of the event loop.
        """
        began_s = time.perf_counter()
        reply = self._run(call)
        if isinstance(reply, Coroutine):
            task = asyncio.get_running_loop().create_task(self._finish(call, reply, respond, began_s))
            self._tasks.add(task)
            holder = find_holder(call.peer.remote_address)
            self._shares.take(holder)
            task.add_done_callback(partial(self._forget, holder, call.peer))
            return True
        self._end(call, reply, respond, began_s)
        return False

    def _forget(self, holder: Holder, peer: Peer, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._tasks:
            self._tasks.clear()  # a set keeps the memory of removed entries until it is cleared
        self._shares.give_back(holder)
        peer.note_end()
        if self._is_stopping and not self._tasks:
            self._have_ended.set()

    async def stop(self, grace_s: float, *, cancels: bool = True) -> bool:
        """Lets requests in flight end for ``grace_s`` seconds, then ``cancels`` them. New ones may get GO_AWAY.

        Returns whether all have ended.
        """
        self._is_stopping = True
        if self._tasks:
            with contextlib.suppress(TimeoutError, asyncio.TimeoutError):
                await asyncio.wait_for(self._have_ended.wait(), grace_s)
        if not cancels:
            return not self._tasks
        for task in self._tasks:
            task.cancel()
        return True

    def _run(self, call: RemotingCall) -> Reply | Coroutine[Any, Any, Reply]:
        """Runs the handler as far as it gets without waiting."""
        code = call.command.code
        if self._watches_for_vip and call.command.version <= V4_5_0 and call.command.language == LanguageCode.JAVA:
            self._warn_of_vip(call)
        handler = self._handlers.get(code)
        if handler is None or (call.site.is_vip and code in NOT_ON_VIP):
            remark = f" request type {code} not supported"
            return call.respond(code=ResponseCode.REQUEST_CODE_NOT_SUPPORTED, remark=remark)
        bytes_max = find_body_bytes_max(code)
        if len(call.command.body) > bytes_max:
            remark = f"the body has {len(call.command.body)} bytes, more than the max {bytes_max} of this request"
            return call.respond(code=ResponseCode.SYSTEM_ERROR, remark=remark)
        # As Apache's servers, which answer only requests that they have taken before they stop (rules 4.12).
        if self._is_stopping and call.command.version > V5_3_1:
            return call.respond(code=ResponseCode.GO_AWAY, remark="please go away")
        if self._shares.is_half_used and not self._shares.allows(find_holder(call.peer.remote_address)):
            return call.respond(code=ResponseCode.SYSTEM_BUSY, remark=_OVERLOAD)
        try:
            self._access.check_request(code, call.peer.remote_address)
        except Forbidden as refusal:
            return self._refuse(call, refusal)
        if self._faults.is_armed:
            found = self._faults.match(_name(code), self._find_client_id(call), find_targets(call), find_group(call))
            if found.before is not None or found.after is not None:
                return self._run_with_faults(handler, call, found)
        try:
            return handler(self._service, call)
        except Exception as error:  # noqa: BLE001 (the client always gets a response; the log gets the details)
            return self._refuse(call, error)

    def _warn_of_vip(self, call: RemotingCall) -> None:
        """Logs once what an old Java client needs, because the client only reports that it cannot reach the broker."""
        self._watches_for_vip = False
        _logger.warning(
            "a Java client of 4.5.0 or older has connected from %s: it sends to the port two below a broker's (VIP "
            "channel), on which this broker does not listen; start it with --remoting-vip (in Python: "
            "remoting_vip=True), or set vipChannelEnabled=false in the client",
            call.peer.remote_address,
        )

    async def _run_with_faults(self, handler: Handler, call: RemotingCall, faults: CallFaults) -> Reply:
        """Injects one fault before the handler, and one after it unless the request is refused."""
        await self._inject(call, faults.before)
        reply = handler(self._service, call)
        if isinstance(reply, Coroutine):
            reply = await reply
        await self._inject(call, faults.after)
        return reply

    async def _inject(self, call: RemotingCall, fault: Fault | None) -> None:
        if fault is not None:
            with call.peer.ending_with_connection():
                await self._faults.inject(fault)

    async def _finish(
        self, call: RemotingCall, work: Coroutine[Any, Any, Reply], respond: Respond, began_s: float
    ) -> None:
        NOTE_TIME.set(WeakMethod(call.peer.note_step))
        try:
            reply = await TimedSteps(work, call.peer.note_step)
        except asyncio.CancelledError:
            self._count(call, _ENDED, began_s)
            raise
        except Disconnected as ended:
            _logger.info("the connection of %s is closed: %s", call.peer.remote_address, ended)
            call.peer.close()
            self._count(call, _ENDED, began_s)
            return
        except Exception as error:  # noqa: BLE001 (as above)
            reply = self._refuse(call, error)
        self._end(call, reply, respond, began_s)

    def _end(self, call: RemotingCall, reply: Reply, respond: Respond, began_s: float) -> None:
        """Sends the response, if there is one, and counts the request."""
        if reply is None:
            self._count(call, _NO_RESPONSE, began_s)
            return
        code = ResponseCode.SUCCESS if isinstance(reply, bytes) else reply.code
        if not call.command.is_oneway:
            respond(reply)
        self._count(call, _RESPONSES.get(code) or str(code), began_s)

    def _count(self, call: RemotingCall, code: str, began_s: float) -> None:
        seconds, name = time.perf_counter() - began_s, _name(call.command.code)
        self._metrics.count_call(name, code, seconds)
        if _access.isEnabledFor(logging.DEBUG):
            _access.debug(
                "%s %s", name, code, extra={**self._fields(call), "code": code, "ms": round(seconds * 1e3, 3)}
            )

    def _refuse(self, call: RemotingCall, error: Exception) -> RemotingCommand:
        response = refuse(call, error)
        if response is None:
            _logger.error("%s failed", _name(call.command.code), exc_info=error, extra=self._fields(call))
            response = call.respond(code=ResponseCode.SYSTEM_ERROR, remark="the broker failed; its log says why")
        return response

    def _fields(self, call: RemotingCall) -> dict[str, Any]:
        topics = dict.fromkeys(target.topic for target in find_targets(call))
        return {
            "rpc": _name(call.command.code),
            "client_id": self._find_client_id(call),
            "peer": call.peer.remote_address,
            "topic": ",".join(topics),
        }

    def _find_client_id(self, call: RemotingCall) -> str:
        """Returns the client id of a connection that has sent a heartbeat; an empty text for others."""
        return self._service.clients.peers.find_client_id(call.peer.channel_id)


def _name(code: int) -> str:
    return _REQUESTS.get(code, _UNKNOWN)
