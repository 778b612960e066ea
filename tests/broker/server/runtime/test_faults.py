"""Injected faults: what a client sees, and what the broker executes."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from rmqpull_broker.core.admin.fault_rules import FaultAction, FaultRule
from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.clock import ManualClock
from rmqpull_broker.server.fault_names import check_names
from rmqpull_broker.server.runtime import faults as faults_module
from rmqpull_broker.server.runtime.faults import Faults
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server

ORDERS = v2.Resource(name="orders")
QUEUE = v2.MessageQueue(topic=ORDERS, id=1)
ROUTE = service.QueryRouteRequest(topic=ORDERS)
PULL = service.PullMessageRequest(group=v2.Resource(name="g"), message_queue=QUEUE, batch_size=32)
SEND = service.SendMessageRequest(
    messages=[v2.Message(topic=ORDERS, body=b"x", system_properties=v2.SystemProperties(message_id="m"))]
)


def test_the_next_calls_fail_with_a_code_and_a_message() -> None:
    async def story(server: ServerHarness) -> None:
        server.add_fault("QueryRoute", FaultAction.FAIL, times=2, code="TOO_MANY_REQUESTS", message="not today")
        [refused] = await server.call(ROUTE)
        assert (refused.status.code, refused.status.message) == (v2.Code.TOO_MANY_REQUESTS, "not today")
        assert [await server.code(ROUTE) for _ in range(2)] == ["TOO_MANY_REQUESTS", "OK"]
        assert [(report.injected, report.left) for report in server.faults.reports()] == [(2, 0)]

    run_on_server(story)


def test_a_fault_without_a_message_names_its_rule() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("PullMessage", FaultAction.FAIL)
        [refused] = await server.call(PULL)
        assert refused.status.code == v2.Code.INTERNAL_SERVER_ERROR
        assert refused.status.message == f"injected by fault rule {rule_id}"

    run_on_server(story)


def test_a_rule_matches_by_topic_queue_and_client() -> None:
    async def story(server: ServerHarness) -> None:
        other = service.PullMessageRequest(group=PULL.group, message_queue=v2.MessageQueue(topic=ORDERS, id=0))
        server.add_fault("PullMessage", FaultAction.FAIL, times=None, topic="orders", queue_id=1, client_id="unlucky")
        assert await server.code(PULL, "unlucky") == "INTERNAL_SERVER_ERROR"
        assert await server.code(PULL, "lucky") == "MESSAGE_NOT_FOUND"
        assert await server.code(other, "unlucky") == "MESSAGE_NOT_FOUND"

    run_on_server(story)


def test_a_lost_response_does_not_undo_its_command() -> None:
    async def story(server: ServerHarness) -> None:
        server.add_fault("SendMessage", FaultAction.FAIL, after=True, code="PROXY_TIMEOUT")
        assert [await server.code(SEND) for _ in range(2)] == ["PROXY_TIMEOUT", "OK"]
        assert server.metrics.messages_in["orders"] == 2

    run_on_server(story)


def test_a_fault_before_the_command_prevents_it() -> None:
    async def story(server: ServerHarness) -> None:
        server.add_fault("SendMessage", FaultAction.FAIL)
        assert [await server.code(SEND) for _ in range(2)] == ["INTERNAL_SERVER_ERROR", "OK"]
        assert server.metrics.messages_in["orders"] == 1

    run_on_server(story)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("request_", [ROUTE, PULL], ids=["unary", "stream"])
@pytest.mark.proves("DISCONNECT")
def test_a_disconnected_call_ends_with_unavailable(request_: Any, after: bool) -> None:
    async def story(server: ServerHarness) -> None:
        server.add_fault("*", FaultAction.DISCONNECT, after=after)
        with pytest.raises(grpc.aio.AioRpcError, match="cut the connection") as refused:
            await server.call(request_)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        assert await server.code(request_) in ("OK", "MESSAGE_NOT_FOUND")

    run_on_server(story)


def test_a_delayed_call_continues_after_its_delay() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("QueryRoute", FaultAction.DELAY, delay_ms=3_600_000)
        call = server.call(ROUTE)
        await server.await_held(rule_id)
        server.clock.advance(3_599_999)
        assert server.faults.count_waiting(rule_id) == 1
        server.clock.advance(1)
        assert (await call)[0].status.code == v2.Code.OK
        assert server.faults.count_waiting(rule_id) == 0

    run_on_server(story)


def test_a_dropped_call_reaches_its_deadline_and_leaves_nothing_behind() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("QueryRoute", FaultAction.DROP)
        with pytest.raises(grpc.aio.AioRpcError) as dropped:
            await server.call(ROUTE, timeout=0.05)
        assert dropped.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        await server.await_held(rule_id, 0)
        assert server.metrics.calls["QueryRoute", "CANCELLED"] == 1

    run_on_server(story)


def test_releasing_resumes_held_calls_oldest_first() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("QueryRoute", FaultAction.HOLD, times=3)
        calls = []
        for held in range(1, 4):
            calls.append(server.call(ROUTE))
            await server.await_held(rule_id, held)
        server.faults.release(rule_id, 1)
        await calls[0]
        assert not calls[1].done()
        assert not calls[2].done()
        server.faults.release(rule_id)
        await asyncio.gather(*calls)

    run_on_server(story)


def test_removing_a_rule_resumes_its_calls_and_matches_no_more() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("*", FaultAction.HOLD, times=None)
        call = server.call(ROUTE)
        await server.await_held(rule_id)
        server.faults.clear()
        await call
        assert await server.code(ROUTE) == "OK"
        assert server.faults.reports() == []

    run_on_server(story)


def test_release_and_removal_leave_dropped_calls_dropped() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("QueryRoute", FaultAction.DROP)
        call = server.call(ROUTE)
        await server.await_held(rule_id)
        server.faults.remove(rule_id)
        assert await server.code(ROUTE) == "OK"
        assert not call.done()
        server.faults.close()
        with pytest.raises(grpc.aio.AioRpcError, match="the broker is stopping"):
            await call

    run_on_server(story)


def test_a_stopping_broker_disconnects_waiting_calls() -> None:
    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("*", FaultAction.HOLD, times=None)
        call = server.call(PULL)
        await server.await_held(rule_id)
        server.faults.close()
        server.faults.close()
        for late in (call, server.call(ROUTE)):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await late
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE

    run_on_server(story)


def test_the_number_of_waiting_calls_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faults_module, "CALLS_WAITING_MAX", 1)

    async def story(server: ServerHarness) -> None:
        rule_id = server.add_fault("*", FaultAction.HOLD, times=None)
        call = server.call(ROUTE)
        await server.await_held(rule_id)
        assert await server.code(ROUTE) == "TOO_MANY_REQUESTS"
        server.faults.remove(rule_id)
        await call

    run_on_server(story)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        (FaultRule("PullMesage", FaultAction.DROP), "unknown RPC 'PullMesage': use \\* or one of"),
        (FaultRule("*", FaultAction.FAIL, code="BROKEN"), "unknown code 'BROKEN'"),
        (FaultRule("*", FaultAction.FAIL, times=0), "takes 1 call or more"),
    ],
)
def test_a_rule_that_can_never_match_is_refused(rule: FaultRule, sentence: str) -> None:
    faults = Faults(ManualClock(), check_names)
    with pytest.raises(BadRequest, match=sentence):
        faults.add(rule)


def test_an_unknown_rule_is_neither_released_nor_removed() -> None:
    faults = Faults(ManualClock(), check_names)
    for act in (faults.release, faults.remove):
        with pytest.raises(BadRequest, match="no fault rule 1"):
            act(1)
