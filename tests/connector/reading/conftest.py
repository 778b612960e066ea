"""Fixtures of the tests of readers."""

from __future__ import annotations

import pytest

from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock
from tests.harness.stream_query import Json, StartQuery, StreamQuery


@pytest.fixture
def start_query(broker: FakeBrokerClient, clock: ManualClock) -> StartQuery:
    def start(end: Json | None = None, /, **options: str) -> StreamQuery:
        return StreamQuery(clock, end, **options)

    return start
