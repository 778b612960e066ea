"""A name server and a broker with routes between them, and channels to them, for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from rmqpull_client.connection import Connection
from rmqpull_client.transports.remoting.network.channel import RemotingChannel
from tests.harness.scripted_remoting import RouteScript, ScriptedServer, make_route

Open = Callable[..., RemotingChannel]


@pytest.fixture
def broker() -> Iterator[ScriptedServer]:
    with ScriptedServer(lambda request: request.make_response(0, {"offset": "7"})) as server:
        yield server


@pytest.fixture
def routes(broker: ScriptedServer) -> RouteScript:
    route = make_route({"broker-a": {0: broker.address}})
    return RouteScript(
        {"orders": route, "shop%orders": route, "TBW102": route, "DefaultCluster": route, "broker-a": route}
    )


@pytest.fixture
def name_server(routes: RouteScript) -> Iterator[ScriptedServer]:
    with ScriptedServer(routes) as server:
        yield server


@pytest.fixture
def now_s() -> list[float]:
    """How far the clock of the routes is ahead, in a list of one."""
    return [0.0]


@pytest.fixture
def connect(name_server: ScriptedServer, now_s: list[float]) -> Iterator[Open]:
    with ExitStack() as stack:

        def open_channel(
            clock: Callable[[], float] = lambda: time.monotonic() + now_s[0],
            sleep: Callable[[float], None] = time.sleep,
            **settings: object,
        ) -> RemotingChannel:
            connection = Connection(**{"name_servers": name_server.address, **settings})  # type: ignore[arg-type]
            channel = RemotingChannel(connection, clock, sleep)
            stack.callback(channel.close)
            return channel

        yield open_channel
