"""Queries with nothing to read: they wait on the broker, send it nothing else meanwhile, and stop at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.server_kinds import COLUMNS, REMOTING, REQUESTS, STANDARD, needs
from tests.harness.servers import EmbeddedServer
from tests.harness.spark_queries import Queries, Topic

pytestmark = needs("manual clock", "counts of requests")
QUEUES = 3
LOOKS = REQUESTS["look for topics"] | {REMOTING: "GET_MAX_OFFSET"}
"""What a look at the queues asks for. Over the remoting protocol routes are asked for by time, and the bounds of each
queue by a request."""


@pytest.fixture
def timeless(kind: str) -> Iterator[RunningBroker]:
    """A broker whose clock is stopped: it never responds to a parked pull."""
    with start(kind, QUEUES, clock="manual") as broker:
        yield broker


def start(kind: str, queues: int, **settings: Any) -> AbstractContextManager[RunningBroker]:
    """A broker of this kind with the topic "idle"."""
    extensions, remoting = (STANDARD, True) if kind == REMOTING else (kind, False)
    return running_broker({"idle": queues}, extensions=extensions, remoting=remoting, **settings)


def calls(broker: RunningBroker, *rpcs: str) -> int:
    """Returns how many of these calls the broker has received."""
    return sum(count for (rpc, _), count in dict(broker._server.metrics.calls).items() if rpc in rpcs)


def test_a_query_stops_during_a_parked_pull_and_an_idle_query_sends_nothing_else(
    queries: Queries, timeless: RunningBroker, kind: str
) -> None:
    """Acceptance case 1, with a pull that would last longer than any test."""
    idle = Topic("idle", EmbeddedServer(timeless))
    looks, per_look = LOOKS[kind], QUEUES if kind == REMOTING else 1
    parked = 1 if kind == COLUMNS else QUEUES
    for rounds in range(1, 4):
        run = queries.start(queries.stream(idle, idleWaitMs="60000", longPollingTimeoutMs="60000"))
        run.wait_until(lambda: len(timeless._server._parker) >= parked, f"{parked} parked")
        before = calls(timeless, looks)
        assert before <= 3 * rounds * per_look
        run.query.stop()
        assert not run.query.isActive
        assert run.rows == []
        assert calls(timeless, looks) == before


def test_an_idle_query_sends_one_request_per_wait(queries: Queries, kind: str) -> None:
    """A wait over gRPC is three parked pulls after a look. Over the remoting protocol, a pull stays parked for several
    waits, and each look is a request for the bounds. The first two calls look without waiting.
    """
    pull, look = REQUESTS["pull"][kind], LOOKS[kind]
    counted, other, per_wait = (look, pull, 1) if kind == REMOTING else (pull, look, 3)
    with start(kind, 1) as broker:
        idle = Topic("idle", EmbeddedServer(broker))
        run = queries.start(queries.stream(idle, idleWaitMs="300", longPollingTimeoutMs="100"))
        run.wait_until(lambda: calls(broker, counted) >= 12, "waited")
        others, waits = calls(broker, other), calls(broker, counted)
        run.query.stop()
    assert others <= waits // per_wait + 3
