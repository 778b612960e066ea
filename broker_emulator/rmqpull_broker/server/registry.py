"""Which handler serves which RPC, and the one way in and out of all of them.

A method without a handler is answered UNIMPLEMENTED by gRPC itself.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import unquote

import grpc

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.server.handlers import (
    commit_offsets,
    describe_server,
    get_offset,
    publish_columns,
    pull_columns,
    pull_message,
    query_bounds,
    query_offset,
    query_route,
    report_rows_lost,
    send_message,
    update_offset,
)
from rmqpull_broker.server.service import Caller, Service
from rmqpull_broker.server.status import status_of
from rmqpull_proto import rpc

_logger = logging.getLogger(__name__)

Handler = Callable[[Service, Any, Caller], Any]

MESSAGING_HANDLERS: Mapping[str, Handler] = {
    "QueryRoute": query_route.answer,
    "SendMessage": send_message.answer,
    "PullMessage": pull_message.answer,
    "UpdateOffset": update_offset.answer,
    "GetOffset": get_offset.answer,
    "QueryOffset": query_offset.answer,
}

COLUMN_HANDLERS: Mapping[str, Handler] = {
    "DescribeServer": describe_server.answer,
    "PublishColumns": publish_columns.answer,
    "PullColumns": pull_columns.answer,
    "QueryBounds": query_bounds.answer,
    "CommitOffsets": commit_offsets.answer,
    "ReportRowsLost": report_rows_lost.answer,
}


def generic_handlers(service: Service, *, with_columns: bool) -> list[grpc.GenericRpcHandler[Any, Any]]:
    """What a gRPC server registers: the standard service, and ours when it is asked for."""
    handlers = [_generic_handler(service, rpc.MESSAGING, MESSAGING_HANDLERS)]
    if with_columns:
        handlers.append(_generic_handler(service, rpc.COLUMNS, COLUMN_HANDLERS))
    return handlers


def _generic_handler(
    service: Service, described: rpc.Service, handlers: Mapping[str, Handler]
) -> grpc.GenericRpcHandler[Any, Any]:
    methods = {name: _method_handler(service, described.methods[name], handler) for name, handler in handlers.items()}
    return grpc.method_handlers_generic_handler(described.name, methods)


def _method_handler(service: Service, method: rpc.Method, handler: Handler) -> grpc.RpcMethodHandler[Any, Any]:
    async def unary(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await handler(service, request, _caller(context))
        except Exception as error:  # noqa: BLE001 (whatever it is, the caller gets an answer and the log the rest)
            return _refusal(method, error)

    async def stream(request: Any, context: grpc.aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for response in handler(service, request, _caller(context)):
                yield response
        except Exception as error:  # noqa: BLE001 (as above)
            yield _refusal(method, error)

    make = grpc.unary_stream_rpc_method_handler if method.server_streaming else grpc.unary_unary_rpc_method_handler
    return make(
        stream if method.server_streaming else unary,
        request_deserializer=method.request.FromString,
        response_serializer=method.response.SerializeToString,
    )


def _refusal(method: rpc.Method, error: Exception) -> Any:
    if not isinstance(error, BrokerError):
        _logger.error("%s failed", method.name, exc_info=error)
    response: Any = method.response
    return response(status=status_of(error))


def _caller(context: grpc.aio.ServicerContext[Any, Any]) -> Caller:
    metadata = dict(context.invocation_metadata() or ())
    client_id = metadata.get("x-mq-client-id", "")
    remaining_s: float | None = context.time_remaining()
    # A deadline may lie decades away; as a Python int it cannot overflow (rocketmq-semantics 6.3).
    remaining_ms = None if remaining_s is None else int(remaining_s * 1000)
    return Caller(_peer_host(context.peer()), str(client_id), remaining_ms)


def _peer_host(peer: str) -> str:
    """The address in gRPC's notation of a peer: ``ipv4:127.0.0.1:5``, ``ipv6:%5B::1%5D:5``."""
    address = unquote(peer).partition(":")[2]
    return address.rpartition(":")[0].strip("[]")
