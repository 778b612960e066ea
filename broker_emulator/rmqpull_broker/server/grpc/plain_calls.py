"""Wraps the handlers of gRPC's own services. Like gRPC's implementations, they have no caller, faults or metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

import grpc
from google.protobuf.message import DecodeError, Message

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.server.grpc.bounds import REQUEST_BYTES_MAX
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_proto import rpc

Context = grpc.aio.ServicerContext[Any, Any]

PlainHandler = Callable[[Any, Context], Any]
"""A coroutine function of a request and its context. That of a stream writes its responses to the context."""


def make_plain_handler(
    service: rpc.Service, handlers: Mapping[str, PlainHandler], shares: CallShares
) -> grpc.GenericRpcHandler[Any, Any]:
    """Wraps the handlers of a service, one for each method.

    A handler gets one request after the other, even if the client sends a stream of them. Invalid or too large requests
    end the call with INVALID_ARGUMENT. An endless call ends with RESOURCE_EXHAUSTED if its peer has more calls than
    its share.
    """
    methods = {name: _make_method(service.methods[name], handler, shares) for name, handler in handlers.items()}
    return grpc.method_handlers_generic_handler(service.name, methods)


def _make_method(method: rpc.Method, handler: PlainHandler, shares: CallShares) -> grpc.RpcMethodHandler[Any, Any]:
    async def answer(data: bytes, context: Context) -> Any:
        request = _read(method, data)
        if request is None:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"not a {method.request.DESCRIPTOR.full_name}")
        return await handler(request, context)

    async def answer_all(requests: Any, context: Context) -> None:
        async for data in requests:
            await answer(data, context)

    serialize = methodcaller("SerializeToString")
    if method.client_streaming:
        return grpc.stream_stream_rpc_method_handler(_count(answer_all, shares), response_serializer=serialize)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(_count(answer, shares), response_serializer=serialize)
    return grpc.unary_unary_rpc_method_handler(answer, response_serializer=serialize)


def _count(handler: PlainHandler, shares: CallShares) -> PlainHandler:
    async def handle(asked: Any, context: Context) -> None:
        try:
            with shares.counted(context.peer()):
                await handler(asked, context)
        except TooManyRequests as refusal:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refusal))

    return handle


def _read(method: rpc.Method, data: bytes) -> Message | None:
    """Parses a request. Returns None for invalid bytes, for which gRPC itself would log a traceback."""
    if len(data) > REQUEST_BYTES_MAX:
        return None
    try:
        return method.request.FromString(data)
    except DecodeError:
        return None
