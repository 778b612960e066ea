"""Queries with nothing to read: they wait on the broker, send it nothing else meanwhile, and stop at once."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rmqpull_broker.testing import RunningBroker, running_broker
from tests.harness.server_kinds import needs
from tests.harness.servers import EmbeddedServer
from tests.harness.spark_queries import Queries, Topic

pytestmark = needs("manual clock", "counts of requests")
QUEUES = 3


@pytest.fixture
def timeless(kind: str) -> Iterator[RunningBroker]:
    """A broker whose time stands still: it never responds to a parked pull."""
    with running_broker({"idle": QUEUES}, extensions=kind, clock="manual") as broker:
        yield broker


def calls(broker: RunningBroker, *rpcs: str) -> int:
    """Returns how many of these calls the broker has received."""
    return sum(count for (rpc, _), count in dict(broker._server.metrics.calls).items() if rpc in rpcs)


def test_a_query_stops_during_a_parked_pull_and_an_idle_query_sends_nothing_else(
    queries: Queries, timeless: RunningBroker, kind: str
) -> None:
    """Acceptance case 1, with a pull that would last longer than any test."""
    idle = Topic("idle", EmbeddedServer(timeless))
    looks = {"columns": "QueryBounds", "none": "QueryRoute"}[kind]
    parked = {"columns": 1, "none": QUEUES}[kind]
    for rounds in range(1, 4):
        run = queries.start(queries.stream(idle, idleWaitMs="60000", longPollingTimeoutMs="60000"))
        run.wait_until(lambda: len(timeless._server._parking) >= parked, f"{parked} parked")
        before = calls(timeless, looks)
        assert before <= 3 * rounds
        run.query.stop()
        assert not run.query.isActive
        assert run.rows == []
        assert calls(timeless, looks) == before


def test_an_idle_query_sends_one_request_per_wait(queries: Queries, kind: str) -> None:
    rpc = {"columns": "PullColumns", "none": "PullMessage"}[kind]
    with running_broker({"idle": 1}, extensions=kind) as broker:
        idle = Topic("idle", EmbeddedServer(broker))
        run = queries.start(queries.stream(idle, idleWaitMs="300", longPollingTimeoutMs="100"))
        run.wait_until(lambda: calls(broker, rpc) >= 12, "waited")
        looks, waits = calls(broker, "QueryBounds", "QueryRoute"), calls(broker, rpc)
        run.query.stop()
    # Three parked pulls are one wait, and each wait follows a look. The first two calls look without waiting.
    assert looks <= waits // 3 + 3
