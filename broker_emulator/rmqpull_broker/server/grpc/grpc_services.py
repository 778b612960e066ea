"""The services of gRPC itself: grpc.health.v1 and grpc.reflection.v1alpha."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, cast

import grpc
from google.protobuf.descriptor_pool import Default, DescriptorPool
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_proto.pool import POOL

HEALTH: str = health.SERVICE_NAME
REFLECTION: str = reflection.SERVICE_NAME

Context = grpc.aio.ServicerContext[Any, Any]


class Health:
    """Tells orchestrators whether the broker serves, as a whole (the empty name) and for each of its services.

    It serves after its registration, except between a failed write to the commit log and the next one that succeeds.
    """

    def __init__(self, server: grpc.aio.Server, services: Sequence[str], shares: CallShares) -> None:
        self._servicer = _CountedHealth(shares)
        self._services = ("", *services)
        self._is_serving = True
        self._change = asyncio.get_running_loop().create_task(self._publish(is_serving=True))
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def report(self, *, is_serving: bool) -> None:
        """Changes the status, and notifies watchers when it differs."""
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            self._change = asyncio.get_running_loop().create_task(self._publish(is_serving, self._change))

    async def _publish(self, is_serving: bool, before: asyncio.Task[None] | None = None) -> None:
        if before is not None:
            await before
        kinds = health_pb2.HealthCheckResponse
        for service in self._services:
            await self._servicer.set(service, kinds.SERVING if is_serving else kinds.NOT_SERVING)

    async def close(self) -> None:
        """Reports NOT_SERVING for good."""
        await self._change
        await self._servicer.enter_graceful_shutdown()


class _CountedHealth(health.aio.HealthServicer):  # type: ignore[misc, name-defined]  # newer than the stubs
    """Counts who watches: a watch has no end."""

    def __init__(self, shares: CallShares) -> None:
        super().__init__()
        self._shares = shares

    async def Watch(self, request: Any, context: Context) -> None:
        async with _counted(self._shares, context):
            await super().Watch(request, context)


class _CountedReflection(reflection.aio.ReflectionServicer):  # type: ignore[misc, name-defined]  # newer than the stubs
    """Counts who asks: a client may ask for ever."""

    def __init__(self, services: Sequence[str], shares: CallShares) -> None:
        super().__init__(services, pool=cast(DescriptorPool, _BothPools()))
        self._shares = shares

    async def ServerReflectionInfo(self, requests: AsyncIterator[Any], context: Context) -> AsyncIterator[Any]:
        async with _counted(self._shares, context):
            async for response in super().ServerReflectionInfo(requests, context):
                yield response


@asynccontextmanager
async def _counted(shares: CallShares, context: Context) -> AsyncIterator[None]:
    """Counts a call, or ends it with RESOURCE_EXHAUSTED."""
    try:
        with shares.counted(context.peer()):
            yield
    except TooManyRequests as refusal:
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, str(refusal))


class _BothPools:
    """Looks descriptors up for reflection: in the broker's pool first, then in protobuf's default one.

    The broker's messages are in ``rmqpull_proto.pool``, those of health and reflection in the default pool. Another
    library may have put other versions of the broker's messages into the default pool; those must not be shown.
    """

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def find(*arguments: Any) -> Any:
            try:
                return getattr(POOL, method)(*arguments)
            except KeyError:
                return getattr(Default(), method)(*arguments)

        return find


def enable_reflection(server: grpc.aio.Server, services: Sequence[str], shares: CallShares) -> None:
    """Describes the services to tools such as grpcurl that have no protos; adds reflection's own to their names."""
    servicer = _CountedReflection((*services, REFLECTION), shares)
    reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, server)
