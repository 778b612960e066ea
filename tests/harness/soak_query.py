"""A query of the soak that a test kills at a moment of its own."""

from __future__ import annotations

from collections.abc import Callable

from soak.plan import Setting
from soak.query import Query
from tests.harness.waiting import wait_until

WAIT_SECONDS_MAX = 240.0
SETTING = Setting(
    extensions="columns,admin,stages",
    brokers=("broker-a",),
    topics=(("orders", 2),),
    by_pattern=False,
    filter_type="TAG",
    filter_expression="*",
    available_now=True,
    trigger_ms=0,
    large_body_bytes=0,
    max_offsets=10,
)


def wait_for_query(happened: Callable[[], bool], what: str, query: Query) -> None:
    """Returns when it has happened. Fails when it takes too long, or when the query has failed before."""

    def has_happened() -> bool:
        query.look()
        assert not query.failures, f"not {what}: {query.failures}"
        return happened()

    wait_until(has_happened, what, WAIT_SECONDS_MAX)
