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
from rmqpull_proto.grpc.health.v1.health_pb2 import HealthListRequest, HealthListResponse
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


def watch(server: ServerHarness, name: str = "") -> AsyncIterator[Any]:
    call: Any = server.channel.unary_stream(
        "/grpc.health.v1.Health/Watch",
        health_pb2.HealthCheckRequest.SerializeToString,
        health_pb2.HealthCheckResponse.FromString,
    )
    return aiter_of(call(health_pb2.HealthCheckRequest(service=name)))


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


def test_a_stopping_broker_does_not_wait_for_those_that_watch() -> None:
    async def story(server: ServerHarness) -> None:
        heard = watch(server)
        assert await anext(heard) == SERVING
        stop = asyncio.ensure_future(server.app.stop())
        assert [status async for status in heard] == [NOT_SERVING]
        await stop

    run_on_server(story)


def test_an_unknown_service_can_be_watched() -> None:
    async def story(server: ServerHarness) -> None:
        assert await anext(watch(server, "rmqpull.v2.Nothing")) == health_pb2.HealthCheckResponse.SERVICE_UNKNOWN

    run_on_server(story)


def test_all_services_are_listed() -> None:
    async def story(server: ServerHarness) -> None:
        call: Any = server.channel.unary_unary(
            "/grpc.health.v1.Health/List", HealthListRequest.SerializeToString, HealthListResponse.FromString
        )
        statuses = (await call(HealthListRequest(), timeout=60)).statuses
        assert {name: each.status for name, each in statuses.items()}.items() >= dict.fromkeys(NAMES, SERVING).items()

    run_on_server(story)


@pytest.mark.parametrize("method", ["Check", "Watch"])
@pytest.mark.parametrize(
    "data", [pytest.param(b"\xff\xff", id="no request"), pytest.param(b"\x0a\x80\x80\x10" + b"a" * 262_144, id="large")]
)
def test_bytes_that_are_no_request_are_refused_without_a_traceback(
    method: str, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story(server: ServerHarness) -> None:
        call: Any = server.channel.unary_stream(f"/grpc.health.v1.Health/{method}", bytes, bytes)
        with pytest.raises(grpc.aio.AioRpcError, match=r"not a grpc\.health\.v1\.HealthCheckRequest") as refused:
            await anext(aiter(call(data, timeout=60)))
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT

    run_on_server(story)
    assert caplog.messages == []
