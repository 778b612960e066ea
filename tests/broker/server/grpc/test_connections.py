"""The options of connections: which calls are accepted, and which must not be cut off."""

from __future__ import annotations

import asyncio

from rmqpull_broker.core.pulling.parking import PARKED_PULLS_MAX
from rmqpull_broker.server.grpc.connections import CALLS_MAX, OPTIONS, PENDING_CALLS_MAX, STREAMS_PER_CONNECTION_MAX
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as service
from tests.harness.server import ServerHarness, run_on_server

BURST = 4_000
"""More than the 3,000 pending calls above which gRPC by default cancels all others."""


def test_each_option_occurs_once() -> None:
    names = [name for name, _ in OPTIONS]
    assert len(names) == len(set(names))


def test_the_limit_of_calls_is_above_the_limit_of_parked_pulls() -> None:
    assert CALLS_MAX > PARKED_PULLS_MAX
    assert STREAMS_PER_CONNECTION_MAX <= PENDING_CALLS_MAX < CALLS_MAX


def test_a_connection_in_use_is_not_closed() -> None:
    options = dict(OPTIONS)
    # An age limit would cut off parked pulls and Telemetry; so would a limit to pings on silent streams.
    assert "grpc.max_connection_age_ms" not in options
    assert options["grpc.http2.max_pings_without_data"] == 0
    assert options["grpc.keepalive_time_ms"] < options["grpc.max_connection_idle_ms"]


def test_every_call_of_a_burst_is_answered() -> None:
    route = service.QueryRouteRequest(topic=v2.Resource(name="orders"))

    async def story(server: ServerHarness) -> None:
        answers = await asyncio.gather(*(server.call(route) for _ in range(BURST)))
        assert {answer.status.code for [answer] in answers} == {v2.Code.OK}

    run_on_server(story)
