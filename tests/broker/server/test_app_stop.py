"""How a broker stops: which calls are answered, which are cut off, and that no call blocks it for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import pytest

from rmqpull_broker.server import app
from rmqpull_broker.server.grpc.handlers.columns import pulling as column_pulling
from rmqpull_broker.server.grpc.handlers.v2 import pulling
from rmqpull_broker.server.runtime.service import Service
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1
from tests.harness.server import ServerHarness, run_on_server
from tests.harness.waiting import until

WAIT_MS = 250_000

Endless = Callable[["ServerHarness"], Awaitable["asyncio.Task[list[Any]]"]]


def standard_pull() -> service.PullMessageRequest:
    queue = v2.MessageQueue(topic=v2.Resource(name="orders"), id=0)
    request = service.PullMessageRequest(group=v2.Resource(name="g"), message_queue=queue, batch_size=1)
    request.filter_expression.expression = "*"
    request.long_polling_timeout.FromMilliseconds(WAIT_MS)
    return request


def columnar_pull() -> v1.PullColumnsRequest:
    queue = v1.QueuePull(queue=v1.Queue(topic="orders", broker_name="broker-a"))
    return v1.PullColumnsRequest(group="g", queues=[queue], long_polling_timeout_ms=WAIT_MS)


@pytest.mark.parametrize(
    ("request_", "handlers", "begins", "code"),
    [
        (standard_pull(), pulling, "begin_pull", v2.Code.MESSAGE_NOT_FOUND),
        (columnar_pull(), column_pulling, "begin_column_pull", v2.Code.OK),
    ],
    ids=["standard", "columnar"],
)
def test_a_stopping_broker_answers_a_parked_pull_without_running_it_again(
    monkeypatch: pytest.MonkeyPatch, request_: Any, handlers: Any, begins: str, code: int
) -> None:
    runs: list[object] = []
    begin = getattr(handlers, begins)

    def run(*given: Any, **named: Any) -> Any:
        runs.append(given)
        return begin(*given, **named)

    monkeypatch.setattr(handlers, begins, run)

    async def story(server: ServerHarness) -> None:
        pull = server.call(request_)
        await server.await_parked(1)
        before = len(runs)
        assert await server.app.stop()
        first, *_ = await pull
        assert (first.status.code, len(runs)) == (code, before)

    run_on_server(story)


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    """Starts a pull that nothing ends, and returns when it is parked. The broker does not wait long for it."""
    parked: list[object] = []

    async def park(*_: Any, **__: Any) -> bool:
        parked.append(None)
        return bool(await asyncio.get_running_loop().create_future())

    async def start(server: ServerHarness) -> asyncio.Task[list[Any]]:
        pull = server.call(columnar_pull())
        await until(lambda: bool(parked), "parked")
        return pull

    monkeypatch.setattr(app, "STOP_GRACE_S", 0.01)
    monkeypatch.setattr(Service, "park", park)
    return start


def test_a_call_that_does_not_end_is_cancelled(endless: Endless) -> None:
    async def story(server: ServerHarness) -> None:
        pull = await endless(server)
        assert await server.app.stop()
        with pytest.raises(grpc.RpcError) as ended:
            await pull
        assert ended.value.code() is grpc.StatusCode.UNAVAILABLE

    run_on_server(story)


def test_a_process_that_ends_does_not_cancel_such_calls(endless: Endless) -> None:
    async def story(server: ServerHarness) -> None:
        pull = await endless(server)
        assert not await server.app.stop(cancels=False)
        assert not pull.done()

    run_on_server(story)
