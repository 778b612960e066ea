"""Waits that end: when something has happened, or with a failure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

WAIT_S = 60.0
"""Far longer than anything that a test waits for takes."""
_LOOK_S = 0.01


def wait_until(happened: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
    """Returns when it has happened. Fails after ``wait_s`` and says what has not happened."""
    give_up = time.monotonic() + wait_s
    while not happened():
        assert time.monotonic() < give_up, f"not {what} within {wait_s:g} s"
        time.sleep(_LOOK_S)


async def until(happened: Callable[[], bool], what: str, wait_s: float = WAIT_S) -> None:
    """As :func:`wait_until`, while the event loop runs."""
    give_up = time.monotonic() + wait_s
    while not happened():
        assert time.monotonic() < give_up, f"not {what} within {wait_s:g} s"
        await asyncio.sleep(0)
