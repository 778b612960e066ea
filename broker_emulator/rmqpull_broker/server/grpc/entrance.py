"""The one way in and out of all handlers: who calls is found out, faults strike, refusals become answers, and every
call is counted and may be logged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Callable
from operator import methodcaller
from typing import Any
from urllib.parse import unquote

import grpc

from rmqpull_broker.core.admin.fault_rules import NO_FAULTS
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.server.runtime.faults import Disconnected, targets_of
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.wire.status import InjectedFailure, code_name, status_of, stream_error_of
from rmqpull_proto import rpc

Handler = Callable[[Service, Any, Caller], Any]
"""A coroutine function that gives the response, or an asynchronous generator of the responses of a stream."""

Context = grpc.aio.ServicerContext[Any, Any]

_logger = logging.getLogger(__name__)
_access = logging.getLogger(f"{__name__}.access")


def method_handler(service: Service, method: rpc.Method, handler: Handler) -> grpc.RpcMethodHandler[Any, Any]:
    """Wraps the handler of one method for gRPC."""

    async def unary(request: Any, context: Context) -> Any:
        with _Visit(service, method, request, context) as visit:
            try:
                await visit.come_in()
                response = await handler(service, request, visit.caller)
                await visit.go_out()
            except Exception as error:  # noqa: BLE001 (whatever it is, the caller gets an answer and the log the rest)
                response = await visit.refusal(error)
            visit.answered(response)
            return response

    async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
        with _Visit(service, method, request, context) as visit:
            try:
                if method.client_streaming:
                    await context.send_initial_metadata(())  # Rust's client says nothing before it has the headers
                await visit.come_in()
                responses = handler(service, request, visit.caller)
                if visit.loses_answer:
                    responses = _given([response async for response in responses])
                    await visit.go_out()
                async for response in responses:
                    visit.answered(response)
                    yield response
            except Exception as error:  # noqa: BLE001 (as above)
                response = await visit.refusal(error)
                visit.answered(response)
                yield response

    return _MAKERS[method.client_streaming, method.server_streaming](
        stream if method.server_streaming else unary,
        request_deserializer=method.request.FromString,
        response_serializer=methodcaller("SerializeToString"),
    )


_MAKERS: dict[tuple[bool, bool], Callable[..., grpc.RpcMethodHandler[Any, Any]]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


async def _given(responses: list[Any]) -> AsyncIterator[Any]:
    for response in responses:
        yield response


class _Visit:
    """One call from its beginning to its end. Ten thousand of them may be parked: there is nothing here to spare."""

    __slots__ = ("_began_s", "_code", "_context", "_method", "_request", "_service", "_strikes", "caller")

    def __init__(self, service: Service, method: rpc.Method, request: Any, context: Context) -> None:
        self._service = service
        self._method = method
        self._request = None if method.client_streaming else request
        self._context = context
        self._code: int | str | None = None
        self._strikes = NO_FAULTS
        self._began_s = time.perf_counter()
        self.caller = _caller(context)

    def __enter__(self) -> _Visit:
        return self

    def __exit__(self, *_: object) -> None:
        code = "CANCELLED" if self._code is None else self._code
        seconds = time.perf_counter() - self._began_s
        self._service.metrics.answered(self._method.name, code, seconds)
        if _access.isEnabledFor(logging.DEBUG):
            code = code if isinstance(code, str) else code_name(code)
            fields = {**self._fields(), "code": code, "ms": round(seconds * 1000, 3)}
            _access.debug("%s %s", self._method.name, code, extra=fields)

    async def come_in(self) -> None:
        """Lets the faults strike that come before the command."""
        self._strikes = self._service.faults.strikes(self._method.name, self.caller.client_id, self._request)
        if self._strikes.before is not None:
            await self._service.faults.suffer(self._strikes.before)
            self.caller = _caller(self._context)  # time has passed

    @property
    def loses_answer(self) -> bool:
        """Whether a fault will strike when the command is done."""
        return self._strikes.after is not None

    async def go_out(self) -> None:
        """Lets the faults strike that come after the command."""
        if self._strikes.after is not None:
            await self._service.faults.suffer(self._strikes.after)

    def answered(self, response: Any) -> None:
        """Takes down the code of the first response; later ones of a stream carry none."""
        if self._code is None:
            self._code = response.status.code

    async def refusal(self, error: Exception) -> Any:
        """The answer that stands for an error. Does not return when the call is to end without one, as a stream of
        requests always does.
        """
        if isinstance(error, Disconnected):
            self._code = grpc.StatusCode.UNAVAILABLE.name
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        if not isinstance(error, (BrokerError, InjectedFailure)):
            _logger.error("%s failed", self._method.name, exc_info=error, extra=self._fields())
        if self._method.client_streaming:
            code, details = stream_error_of(error)
            self._code = code.name
            await self._context.abort(code, details)
        response: Any = self._method.response
        return response(status=status_of(error))

    def _fields(self) -> dict[str, Any]:
        targets = () if self._request is None else targets_of(self._request)
        topics = ",".join(dict.fromkeys(target.topic for target in targets))
        return {
            "rpc": self._method.name,
            "client_id": self.caller.client_id,
            "peer": self.caller.host,
            "topic": topics,
        }


def _caller(context: Context) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    client_id = metadata.get("x-mq-client-id", "")
    remaining_s: float | None = context.time_remaining()
    # A deadline may lie decades away; as a Python int it cannot overflow (rules 6.3).
    remaining_ms = None if remaining_s is None else int(remaining_s * 1000)
    language, version = (str(metadata.get(f"x-mq-{name}", "")) for name in ("language", "client-version"))
    return Caller(_peer_host(context.peer()), str(client_id), remaining_ms, language, version)


def _peer_host(peer: str) -> str:
    """The address in gRPC's notation of a peer: ``ipv4:127.0.0.1:5``, ``ipv6:%5B::1%5D:5``."""
    address = unquote(peer).partition(":")[2]
    return address.rpartition(":")[0].strip("[]")
