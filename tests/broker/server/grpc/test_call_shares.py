"""The shares of the concurrent calls: whoever has most of them leaves some for others."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

from rmqpull_broker.core.admin.fault_rules import FaultAction
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.pulling.parking import PARKED_PULLS_OF_ALL_MAX
from rmqpull_broker.core.shares import find_holder
from rmqpull_broker.server import app
from rmqpull_broker.server.grpc.call_shares import CallShares
from rmqpull_broker.server.grpc.connections import CALLS_MAX, CALLS_OF_ALL_MAX
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server

ROUTE = service.QueryRouteRequest(topic=v2.Resource(name="orders"))
OF_ONE = 32
OF_ITS_OWN = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))
"""Options of a channel with a connection of its own."""


ENDLESS: dict[str, tuple[Any, Any]] = {
    "/grpc.health.v1.Health/Watch": (health_pb2.HealthCheckRequest(), health_pb2.HealthCheckResponse),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": (
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionResponse,
    ),
}
"""Calls of gRPC's own services that have no end."""


async def begin(channel: grpc.aio.Channel, path: str) -> Any:
    """Begins a call that has no end, and returns its first response."""
    request, response = ENDLESS[path]
    start = channel.unary_stream if path.endswith("Watch") else channel.stream_stream
    stub: Any = start(path, type(request).SerializeToString, response.FromString)
    if path.endswith("Watch"):
        return await stub(request).read()
    call = stub()
    await call.write(request)
    return await call.read()


def test_an_address_that_has_most_calls_leaves_some_for_others() -> None:
    shares = CallShares(160)
    greedy = [find_holder(f"10.0.0.1:{port}") for port in range(177)]
    for holder in greedy:
        shares.begin(holder)
        shares.check(holder)
    with (
        pytest.raises(TooManyRequests, match="too many calls are in flight: 178 of at most 180 in all, 1 by this"),
        shares.counted("ipv4:10.0.0.1:5000"),
    ):
        pass
    with shares.counted("ipv4:10.0.0.2:5"):
        for holder in greedy[:2]:
            shares.end(holder)
        with shares.counted("ipv4:10.0.0.1:5000"):
            pass


def test_shares_bite_before_grpc_refuses_all() -> None:
    assert CALLS_OF_ALL_MAX > CallShares(CALLS_MAX)._shares.most > PARKED_PULLS_OF_ALL_MAX


def test_who_has_most_calls_is_refused_and_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls of every kind, streams without an end included, until they have ended."""
    monkeypatch.setattr(app, "CALLS_MAX", OF_ONE)

    async def story(server: ServerHarness) -> None:
        held = server.add_fault("QueryRoute", FaultAction.HOLD, client_id="greedy", times=None)
        calls = [server.call(ROUTE, "greedy") for _ in range(OF_ONE)]
        await server.await_held(held, OF_ONE)
        assert await server.code(ROUTE) == "TOO_MANY_REQUESTS"
        for path in ENDLESS:
            with pytest.raises(grpc.RpcError) as refused:
                await begin(server.channel, path)
            assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        async with grpc.aio.insecure_channel(server.endpoints, OF_ITS_OWN) as channel:
            for path in ENDLESS:
                assert isinstance(await begin(channel, path), ENDLESS[path][1])
        server.faults.release(held)
        await asyncio.gather(*calls)
        assert await server.code(ROUTE) == "OK"

    run_on_server(story)
