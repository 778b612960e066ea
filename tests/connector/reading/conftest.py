"""What the tests of readers share: see ``stream_query`` for the harness."""

from __future__ import annotations

from typing import Protocol

import pytest

from tests.connector.reading.stream_query import Json, StreamQuery
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock


class StartQuery(Protocol):
    """Starts a query on the fake broker; ``end`` is where an earlier run of it has stopped."""

    def __call__(self, end: Json | None = None, /, **options: str) -> StreamQuery: ...


@pytest.fixture
def start_query(broker: FakeBrokerClient, clock: ManualClock) -> StartQuery:
    def start(end: Json | None = None, /, **options: str) -> StreamQuery:
        return StreamQuery(clock, end, **options)

    return start
