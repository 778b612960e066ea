"""The clock that a query waits by. Tests pass one of their own."""

from __future__ import annotations

import time


class Clock:
    """A monotonic clock: it does not follow changes of the system's time."""

    def now_ms(self) -> int:
        """The current time in milliseconds, counted from an arbitrary point."""
        return time.monotonic_ns() // 1_000_000

    def sleep(self, duration_ms: int) -> None:
        """Sleeps for this time."""
        time.sleep(duration_ms / 1000)
