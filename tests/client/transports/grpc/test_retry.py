"""A request is retried with pauses, until its retries or its deadline are used up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.transports.away import AnsweredServers
from rmqpull_client.transports.grpc import retry
from rmqpull_client.transports.grpc.channel import BrokerChannel
from rmqpull_client.transports.grpc.endpoints import Endpoints
from rmqpull_client.transports.grpc.failures import FailedAttempts
from rmqpull_client.transports.grpc.retry import Cancellation, Cancelled
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from rmqpull_proto.rpc import MESSAGING, Method

ROUTE, PULL = MESSAGING.methods["QueryRoute"], MESSAGING.methods["PullMessage"]
NOBODY, NOBODY_ELSE = "127.0.0.1:1", "127.0.0.1:2"  # ports that no broker gets
LONG_MS = 60_000

Ask = Callable[[BrokerChannel], Any]


def by_call(channel: BrokerChannel) -> Any:
    return channel.call(ROUTE, service.QueryRouteRequest())


def by_start(channel: BrokerChannel) -> Any:
    return channel.start(ROUTE, service.QueryRouteRequest())()


def by_start_stream(channel: BrokerChannel) -> Any:
    return channel.start_stream(PULL, service.PullMessageRequest())()


class CallFailed(grpc.RpcError):
    """The error of a call to an unavailable broker."""

    def __init__(self, code: grpc.StatusCode) -> None:
        self._code = code

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return "no broker there"


class Clock:
    """A clock that only ``sleep`` advances. It records the pauses."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return sum(self.pauses)

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ticking = Clock()
    monkeypatch.setattr(retry, "time", ticking)
    monkeypatch.setattr("random.uniform", lambda least, most: most)
    return ticking


@pytest.fixture(params=["fails at once", "fails after its timeout"])
def unavailable(request: pytest.FixtureRequest, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> BrokerChannel:
    """A channel whose calls fail."""

    def fail(timeout_s: float) -> Any:
        if request.param == "fails at once":
            raise CallFailed(grpc.StatusCode.UNAVAILABLE)
        clock.sleep(timeout_s)
        raise CallFailed(grpc.StatusCode.DEADLINE_EXCEEDED)

    def send(endpoints: Endpoints, address: str, method: Method, message: Any, timeout_s: float) -> Any:
        return (fail(timeout_s) for _ in range(1))  # the error comes with the first response

    monkeypatch.setattr(Endpoints, "send", send)
    return BrokerChannel(Connection(NOBODY, 1000))


@pytest.mark.parametrize("ask", [by_call, by_start, by_start_stream])
def test_all_retries_end_within_the_request_timeout(clock: Clock, unavailable: BrokerChannel, ask: Ask) -> None:
    with pytest.raises(BrokerUnavailable):
        ask(unavailable)
    assert clock.monotonic() <= 1.0


def test_a_response_that_is_fetched_late_is_retried(clock: Clock, unavailable: BrokerChannel) -> None:
    response = unavailable.start(ROUTE, service.QueryRouteRequest())
    clock.sleep(3600)
    with pytest.raises(BrokerUnavailable):
        response()
    assert clock.monotonic() > 3600


def test_a_call_to_a_busy_broker_is_retried(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    responses = [v2.Status(code=v2.Code.TOO_MANY_REQUESTS)] * 2 + [v2.Status(code=v2.Code.OK)]

    def send(*_: Any) -> Any:
        return iter([SimpleNamespace(status=responses.pop(0))])

    monkeypatch.setattr(Endpoints, "send", send)
    assert by_start(BrokerChannel(Connection(NOBODY, 10_000))).status.code == v2.Code.OK
    assert responses == []
    assert len(clock.pauses) == 2


@pytest.mark.parametrize(
    ("retries", "interval_ms", "expected_s"),
    [
        (0, 50, []),
        (1, 50, [0.05]),
        (7, 50, [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]),
        (2, 3_000, [3.0, 3.0]),
    ],
)
@pytest.mark.parametrize("endpoints", [NOBODY, f"{NOBODY};{NOBODY_ELSE}"])
def test_the_pauses_between_retries_double(
    clock: Clock, endpoints: str, retries: int, interval_ms: int, expected_s: list[float]
) -> None:
    connection = Connection(endpoints, LONG_MS, request_retries=retries, request_retry_interval_ms=interval_ms)
    text = f"at {endpoints} in {retries + 1} tr"
    with closing(BrokerChannel(connection)) as channel, pytest.raises(BrokerUnavailable, match=text):
        by_call(channel)
    assert clock.pauses == expected_s


def test_without_request_retries_the_time_is_the_limit(clock: Clock) -> None:
    channel = BrokerChannel(Connection(NOBODY, LONG_MS))
    with closing(channel), pytest.raises(BrokerUnavailable, match="within 60000 ms"):
        by_call(channel)
    assert 58 < sum(clock.pauses) < 60


def test_a_cancelled_request_is_not_sent() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    channel = BrokerChannel(Connection(NOBODY, LONG_MS))
    with closing(channel), pytest.raises(Cancelled):
        channel.start(ROUTE, service.QueryRouteRequest(), cancellation)


def test_a_cancelled_request_is_not_retried() -> None:
    cancellation = Cancellation()
    channel = BrokerChannel(Connection(NOBODY, LONG_MS))
    response = channel.start(ROUTE, service.QueryRouteRequest(), cancellation)
    cancellation.cancel()
    with closing(channel), pytest.raises(Cancelled):
        response()


def test_a_server_that_has_answered_before_is_waited_for_longer(
    clock: Clock, unavailable: BrokerChannel, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = replace(unavailable.connection, server_away_timeout_ms=60_000)
    known = AnsweredServers()
    monkeypatch.setattr(FailedAttempts.__init__, "__defaults__", (known,))
    with pytest.raises(
        BrokerUnavailable, match=r"within 1000 ms .*\(option endpoints\)\. No server has answered there"
    ):
        by_call(BrokerChannel(away))
    assert clock.monotonic() <= 1.0
    known.add(NOBODY)
    begun_s = clock.monotonic()
    with pytest.raises(BrokerUnavailable, match=r"within 60000 ms .*running\. Raise option serverAwayTimeoutMs"):
        by_call(BrokerChannel(away))
    assert 58 < clock.monotonic() - begun_s <= 60
    with pytest.raises(BrokerUnavailable, match="in 3 tries"):
        by_call(BrokerChannel(replace(away, request_retries=2)))
