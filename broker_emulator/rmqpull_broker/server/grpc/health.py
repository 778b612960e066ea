"""grpc.health.v1: whether the broker serves, as a whole (the empty name) and service by service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

SERVICE_NAME: str = health.SERVICE_NAME


class Health:
    """What orchestrators ask. Serves from its registration on, but not from a write that failed to one that did not."""

    def __init__(self, server: grpc.aio.Server, services: Sequence[str]) -> None:
        self._servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # newer than the stubs
        self._services = ("", *services)
        self._is_serving = True
        self._change = asyncio.get_running_loop().create_task(self._tell(is_serving=True))
        health_pb2_grpc.add_HealthServicer_to_server(self._servicer, server)

    def report(self, *, is_serving: bool) -> None:
        """Takes down how it is; watchers hear of it when it changes."""
        if is_serving != self._is_serving:
            self._is_serving = is_serving
            self._change = asyncio.get_running_loop().create_task(self._tell(is_serving, self._change))

    async def _tell(self, is_serving: bool, before: asyncio.Task[None] | None = None) -> None:
        if before is not None:
            await before
        kinds = health_pb2.HealthCheckResponse
        for service in self._services:
            await self._servicer.set(service, kinds.SERVING if is_serving else kinds.NOT_SERVING)

    async def close(self) -> None:
        """Says from now on that nothing is served."""
        await self._change
        await self._servicer.enter_graceful_shutdown()
