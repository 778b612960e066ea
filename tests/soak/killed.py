"""Processes of the soak that a test kills at a moment of its own."""

from __future__ import annotations

import time
from collections.abc import Callable

from demo.processes import Child
from soak.schedule import Setting
from soak.stage import Query

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


def await_that(happened: Callable[[], bool], what: str, process: Query | Child | None = None) -> None:
    """Returns when it has happened. Fails when it takes too long, or when the process has failed before."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while not happened():
        if isinstance(process, Query):
            process.look()
            assert not process.failures, f"not {what}: {process.failures}"
        elif process is not None:
            assert process.running, f"ended before {what}{process.last_words()}"
        assert time.monotonic() < deadline, f"not {what}"
        time.sleep(0.02)
