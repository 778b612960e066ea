"""A broker that serves in the event loop of the test, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc

from rmqpull_broker.assembly import make_topics, open_broker
from rmqpull_broker.config import BrokerConfig
from rmqpull_broker.config_values import Address, parse_topic
from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule
from rmqpull_broker.server.app import BrokerServer
from rmqpull_broker.server.clock import ManualClock
from rmqpull_proto import rpc
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from tests.harness.waiting import until

METHODS = {
    method.request.DESCRIPTOR.full_name: method
    for service in (rpc.MESSAGING, rpc.COLUMNS)
    for method in service.methods.values()
}


class ServerHarness:
    """A broker with a manual clock, and a client of it."""

    def __init__(self, app: BrokerServer, clock: ManualClock, channel: grpc.aio.Channel, endpoints: str) -> None:
        self.app = app
        self.endpoints = endpoints
        self.faults = app.faults
        self.metrics = app.metrics
        self.clock = clock
        self.channel = channel

    def add_fault(self, name: str, action: FaultAction, **options: Any) -> int:
        return self.faults.add(FaultRule(name, action, **options))

    def call(self, request: Any, client_id: str = "tester", timeout: float | None = 60) -> asyncio.Task[list[Any]]:
        """Starts a call. The task returns the list of responses."""

        async def respond() -> list[Any]:
            method = METHODS[request.DESCRIPTOR.full_name]
            call = self.channel.unary_stream if method.server_streaming else self.channel.unary_unary
            stub: Any = call(method.path, method.request.SerializeToString, method.response.FromString)
            answered = stub(request, timeout=timeout, metadata=(("x-mq-client-id", client_id),))
            return [response async for response in answered] if method.server_streaming else [await answered]

        return asyncio.ensure_future(respond())

    async def code(self, request: Any, client_id: str = "tester") -> str:
        first, *_ = await self.call(request, client_id)
        return v2.Code.Name(first.status.code)

    async def await_held(self, rule_id: int, calls: int = 1) -> None:
        """Returns when a fault rule holds that many calls."""
        await until(lambda: self.faults.count_waiting(rule_id) == calls, f"{calls} calls held")

    async def await_parked(self, pulls: int) -> None:
        """Returns when that many pulls are parked."""
        await until(lambda: len(self.app._parker) == pulls, f"{pulls} pulls parked")


@asynccontextmanager
async def running_server() -> AsyncIterator[ServerHarness]:
    clock = ManualClock(1_700_000_000_000)
    config = BrokerConfig(Address("127.0.0.1", 0), [parse_topic("orders:2")])
    server = open_broker(config, lambda _: clock)
    try:
        port = await server.start(*config.listen, make_topics(config))
        endpoints = f"127.0.0.1:{port}"
        async with grpc.aio.insecure_channel(endpoints, [("grpc.enable_http_proxy", 0)]) as channel:
            yield ServerHarness(server, clock, channel, endpoints)
    finally:
        await server.stop()


def run_on_server(story: Callable[[ServerHarness], Awaitable[None]]) -> None:
    """Runs a test on a new broker with topic ``orders`` of two queues."""

    async def run() -> None:
        async with running_server() as server:
            await story(server)

    asyncio.run(run())
