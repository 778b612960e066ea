"""The service grpc.health.v1."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import grpc

from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.plain_calls import Context, PlainHandler, make_plain_handler
from rmqpull_proto.grpc.health.v1 import health_pb2
from rmqpull_proto.rpc import describe_service

HEALTH = describe_service(health_pb2.DESCRIPTOR.services_by_name["Health"])

_Status = health_pb2.HealthCheckResponse


class Health:
    """Reports to orchestrators whether the broker serves, as a whole (the empty name) and for each of its services.

    The status is SERVING from the registration on, except between a failed write to the commit log and the next
    successful one.
    """

    def __init__(self, server: grpc.aio.Server, services: Sequence[str], shares: CallShares) -> None:
        self._services = ("", *services)
        self._is_serving = True
        self._is_closed = False
        self._changed = asyncio.Event()
        """Set at the next change, which replaces it by a new event."""
        handlers: dict[str, PlainHandler] = {"Check": self._check, "List": self._list, "Watch": self._watch}
        server.add_generic_rpc_handlers([make_plain_handler(HEALTH, handlers, shares)])

    def report(self, *, is_serving: bool) -> None:
        """Sets the status, and notifies watchers if it has changed."""
        if is_serving != self._is_serving and not self._is_closed:
            self._is_serving = is_serving
            self._notify()

    def close(self) -> None:
        """Reports NOT_SERVING for good, and ends the calls of watchers."""
        self._is_serving = False
        self._is_closed = True
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _find_status(self, service: str) -> health_pb2.HealthCheckResponse.ServingStatus:
        if service not in self._services:
            return _Status.SERVICE_UNKNOWN
        return _Status.SERVING if self._is_serving else _Status.NOT_SERVING

    async def _check(self, request: health_pb2.HealthCheckRequest, context: Context) -> Any:
        status = self._find_status(request.service)
        if status == _Status.SERVICE_UNKNOWN:
            await context.abort(grpc.StatusCode.NOT_FOUND, "the broker does not serve this service")
        return _Status(status=status)

    async def _list(self, _: health_pb2.HealthListRequest, __: Context) -> Any:
        statuses: Mapping[str, Any] = {name: _Status(status=self._find_status(name)) for name in self._services}
        return health_pb2.HealthListResponse(statuses=statuses)

    async def _watch(self, request: health_pb2.HealthCheckRequest, context: Context) -> None:
        told = None
        while True:
            changed, is_closed = self._changed, self._is_closed
            status = self._find_status(request.service)
            if status != told:
                await context.write(_Status(status=status))
                told = status
            if is_closed:
                return
            await changed.wait()
