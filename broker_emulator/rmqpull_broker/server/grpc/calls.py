"""Wraps the handlers for gRPC. For every call: identifies the caller, injects faults, turns errors into responses, and
counts and logs the call.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from operator import methodcaller
from typing import Any, NamedTuple, cast

import grpc
from google.protobuf.message import DecodeError, Message

from rmqpull_broker.core.admin.fault_rules import NO_FAULTS, InjectedFailure
from rmqpull_broker.core.errors import BadRequest, BrokerError
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.server.grpc.bounds import (
    REQUEST_BYTES_MAX,
    find_batch_field,
    find_contents,
    find_fields_max,
    find_request_bytes_max,
)
from rmqpull_broker.server.grpc.call_shares import CallShares, parse_peer
from rmqpull_broker.server.grpc.received_batch import ReceivedBatch, read_batch
from rmqpull_broker.server.grpc.targets import find_targets, match_faults
from rmqpull_broker.server.grpc.wire.status import find_code_name, make_status, make_stream_error
from rmqpull_broker.server.grpc.wire_fields import check_details, read_in_steps
from rmqpull_broker.server.runtime.faults import Disconnected
from rmqpull_broker.server.runtime.service import Caller, Service
from rmqpull_broker.server.runtime.slices import Slices
from rmqpull_proto import rpc

Handler = Callable[[Service, Any, Caller], Any]
"""A coroutine function that returns the response, or an asynchronous generator of the responses of a stream."""

Context = grpc.aio.ServicerContext[Any, Any]

_logger = logging.getLogger(__name__)
_access = logging.getLogger(f"{__name__}.access")


def make_method_handler(
    service: Service, method: rpc.Method, handler: Handler, shares: CallShares
) -> grpc.RpcMethodHandler[Any, Any]:
    """Wraps the handler of one method for gRPC."""

    async def unary(request: Any, context: Context) -> Any:
        if isinstance(request, LargeRequest):
            request = await request.read(service.slices)
        with _Call(service, method, request, context, shares) as call:
            try:
                await call.enter()
                response = await handler(service, request, call.caller)
                await call.leave()
            except Exception as error:  # noqa: BLE001 (the caller always gets a response; the log gets the details)
                response = await call.refuse(error)
            call.note(response)
            return response

    async def stream(request: Any, context: Context) -> None:
        # Writing responses takes less time than yielding them.
        with _Call(service, method, request, context, shares) as call:
            try:
                if method.client_streaming:
                    await context.send_initial_metadata(())  # Rust's client sends nothing before it has the headers
                    request = _check_all(request)
                await call.enter()
                async with aclosing(handler(service, request, call.caller)) as responses:
                    if call.has_fault_after:
                        collected = [response async for response in responses]
                        await call.leave()
                        responses = _replay(collected)
                    async for response in responses:
                        call.note(response)
                        await context.write(response)
            except grpc.aio.InternalError:  # the caller has left in the middle of a response
                raise asyncio.CancelledError from None
            except Exception as error:  # noqa: BLE001 (as above)
                response = await call.refuse(error)
                call.note(response)
                await context.write(response)

    return _MAKERS[method.client_streaming, method.server_streaming](
        stream if method.server_streaming else unary,
        request_deserializer=_make_reader(method),
        response_serializer=methodcaller("SerializeToString"),
    )


_MAKERS: dict[tuple[bool, bool], Callable[..., grpc.RpcMethodHandler[Any, Any]]] = {
    (False, False): grpc.unary_unary_rpc_method_handler,
    (False, True): grpc.unary_stream_rpc_method_handler,
    (True, True): grpc.stream_stream_rpc_method_handler,
}


class _Unreadable(NamedTuple):
    """Bytes that are not a valid request, and why. gRPC itself would respond with UNKNOWN and log a traceback."""

    reason: str

    def refuse(self) -> None:
        raise BadRequest(self.reason)


class LargeRequest(NamedTuple):
    """The bytes of a request with a long list, which is parsed in slices."""

    data: bytes
    kind: Any
    fields_max: int

    async def read(self, slices: Slices) -> Message | _Unreadable:
        """Parses it in slices."""
        try:
            (message,) = await slices.collect(read_in_steps(self.data, self.kind, self.fields_max))
        except (BadRequest, DecodeError) as error:
            return _Unreadable(str(error))
        return cast("Message", message)


def _make_reader(method: rpc.Method) -> Callable[[bytes], Message | LargeRequest | ReceivedBatch | _Unreadable]:
    """Makes the function that parses the requests of one method, unless they are too large."""
    bytes_max, fields_max = find_request_bytes_max(method.name), find_fields_max(method.name)
    contents, batch_field = find_contents(method.name), find_batch_field(method.name)

    def read(data: bytes) -> Message | LargeRequest | ReceivedBatch | _Unreadable:
        if len(data) > bytes_max:
            return _Unreadable(f"the request has {len(data)} bytes; {method.name} reads at most {bytes_max}")
        try:
            if len(data) > REQUEST_BYTES_MAX:
                if fields_max is not None:
                    return LargeRequest(data, method.request, fields_max)
                if contents is not None:
                    check_details(data, contents)
                if batch_field is not None:
                    return read_batch(data, method.request, batch_field)
            return method.request.FromString(data)
        except (BadRequest, DecodeError) as error:
            return _Unreadable(str(error))

    return read


async def _check_all(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        if isinstance(request, _Unreadable):
            request.refuse()
        yield request


async def _replay(responses: list[Any]) -> AsyncIterator[Any]:
    for response in responses:
        yield response


class _Call:
    """One call from start to end. Small, because ten thousand of them may be parked."""

    __slots__ = (
        *("_began_s", "_code", "_context", "_faults", "_holder", "_method", "_request", "_service", "_shares"),
        *("_unreadable", "caller"),
    )

    def __init__(
        self, service: Service, method: rpc.Method, request: Any, context: Context, shares: CallShares
    ) -> None:
        self._service = service
        self._method = method
        self._unreadable = request if isinstance(request, _Unreadable) else None
        self._request = None if method.client_streaming or self._unreadable is not None else request
        self._context = context
        self._code: int | str | None = None
        self._faults = NO_FAULTS
        self._began_s = time.perf_counter()
        self.caller = _read_caller(context)
        self._shares = shares
        self._holder = find_holder(self.caller.address)

    def __enter__(self) -> _Call:
        self._shares.begin(self._holder)
        return self

    def __exit__(self, *_: object) -> None:
        self._shares.end(self._holder)
        code = "CANCELLED" if self._code is None else self._code
        seconds = time.perf_counter() - self._began_s
        self._service.metrics.count_call(self._method.name, code, seconds)
        if _access.isEnabledFor(logging.DEBUG):
            code = code if isinstance(code, str) else find_code_name(code)
            fields = {**self._fields(), "code": code, "ms": round(seconds * 1000, 3)}
            _access.debug("%s %s", self._method.name, code, extra=fields)

    async def enter(self) -> None:
        """Injects the fault that comes before the command.

        Raises TooManyRequests above the caller's share of the calls, Forbidden for administration by a peer that may
        not administrate, and BadRequest for bytes that are not a valid request.
        """
        self._shares.check(self._holder)
        self._service.access.check_method(self._method.name, self.caller.address)
        self._faults = match_faults(self._service.faults, self._method.name, self.caller.client_id, self._request)
        if self._faults.before is not None:
            await self._service.faults.inject(self._faults.before)
            self.caller = _read_caller(self._context)  # again, because a fault may have taken time from its deadline
        if self._unreadable is not None:
            self._unreadable.refuse()

    @property
    def has_fault_after(self) -> bool:
        """Whether a fault comes after the command."""
        return self._faults.after is not None

    async def leave(self) -> None:
        """Injects the fault that comes after the command."""
        if self._faults.after is not None:
            await self._service.faults.inject(self._faults.after)

    def note(self, response: Any) -> None:
        """Keeps the code of the first response for the metrics; later ones of a stream have none."""
        if self._code is None:
            self._code = response.status.code

    async def refuse(self, error: Exception) -> Any:
        """Returns the response for an error. Aborts the call, and does not return, when the call must end without a
        response, which is always so for a stream of requests.
        """
        if isinstance(error, Disconnected):
            self._code = grpc.StatusCode.UNAVAILABLE.name
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        if not isinstance(error, (BrokerError, InjectedFailure)):
            _logger.error("%s failed", self._method.name, exc_info=error, extra=self._fields())
        if self._method.client_streaming:
            code, details = make_stream_error(error)
            self._code = code.name
            await self._context.abort(code, details)
        response: Any = self._method.response
        return response(status=make_status(error))

    def _fields(self) -> dict[str, Any]:
        targets = () if self._request is None else find_targets(self._request)
        topics = ",".join(dict.fromkeys(target.topic for target in targets))
        return {
            "rpc": self._method.name,
            "client_id": self.caller.client_id,
            "peer": self.caller.address,
            "topic": topics,
        }


def _read_caller(context: Context) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    remaining_s: float | None = context.time_remaining()
    # The deadline may be decades away (60 years for Telemetry of the Java client), too far for 32 bits (rules 6.3).
    remaining_ms = None if remaining_s is None else int(remaining_s * 1000)
    return Caller(
        parse_peer(context.peer()),
        str(metadata.get("x-mq-client-id", "")),
        remaining_ms,
        str(metadata.get("x-mq-language", "")),
        str(metadata.get("x-mq-client-version", "")),
    )
