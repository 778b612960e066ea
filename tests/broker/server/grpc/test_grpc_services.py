"""grpc.health.v1: when the broker reports SERVING."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NoReturn

import grpc
import pytest
from grpc_health.v1 import health_pb2

from rmqpull_broker.store.memory_storage import MemoryStorage
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
NAMES = ["", "apache.rocketmq.v2.MessagingService", "rmqpull.v1.ColumnService"]
SEND = service.SendMessageRequest(
    messages=[
        v2.Message(topic=v2.Resource(name="orders"), body=b"x", system_properties=v2.SystemProperties(message_id="m"))
    ]
)


async def check(server: ServerHarness, name: str = "") -> int:
    call: Any = server.channel.unary_unary(
        "/grpc.health.v1.Health/Check",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    answer = await call(health_pb2.HealthCheckRequest(service=name), timeout=60)
    return int(answer.status)


def watch(server: ServerHarness) -> AsyncIterator[Any]:
    call: Any = server.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return aiter_of(call(health_pb2.HealthCheckRequest()))


async def aiter_of(call: Any) -> AsyncIterator[Any]:
    async for answer in call:
        yield answer.status


@pytest.mark.parametrize("name", NAMES)
def test_a_broker_that_is_ready_serves(name: str) -> None:
    async def story(server: ServerHarness) -> None:
        assert await check(server, name) == SERVING

    run_on_server(story)


def test_an_unknown_service_is_not_found() -> None:
    async def story(server: ServerHarness) -> None:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await check(server, "rmqpull.v2.Nothing")
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND

    run_on_server(story)


def test_a_failing_commit_log_is_reported_until_it_works_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> NoReturn:
        raise OSError("no space left on device")

    async def story(server: ServerHarness) -> None:
        heard = watch(server)
        assert await anext(heard) == SERVING
        with monkeypatch.context() as broken:
            broken.setattr(MemoryStorage, "append", fail)
            assert await server.code(SEND) == "INTERNAL_SERVER_ERROR"
        assert await anext(heard) == NOT_SERVING
        assert [await check(server, name) for name in NAMES] == [NOT_SERVING] * 3
        assert await server.code(SEND) == "OK"
        assert await anext(heard) == SERVING

    run_on_server(story)


def test_a_stopping_broker_reports_it_first() -> None:
    async def story(server: ServerHarness) -> None:
        heard = watch(server)
        assert await anext(heard) == SERVING
        stop = asyncio.ensure_future(server.app.stop())
        assert await anext(heard) == NOT_SERVING
        await stop

    run_on_server(story)
