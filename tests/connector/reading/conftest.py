"""What the tests of readers share: see ``stream_query`` for the harness."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pytest

from tests.connector.reading.stream_query import Json, StreamQuery

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient, ManualClock


class StartQuery(Protocol):
    """Starts a query on the fake broker; ``end`` is where an earlier run of it has stopped."""

    def __call__(self, end: Json | None = None, /, **options: str) -> StreamQuery: ...


@pytest.fixture
def start_query(broker: FakeClient, clock: ManualClock) -> StartQuery:
    def start(end: Json | None = None, /, **options: str) -> StreamQuery:
        return StreamQuery(clock, end, **options)

    return start
