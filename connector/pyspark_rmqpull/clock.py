"""The clock by which a query waits."""

from __future__ import annotations

import time


class Clock:
    """Time that passes, whatever the time of day is set to."""

    def now_ms(self) -> int:
        """Milliseconds since some moment."""
        return time.monotonic_ns() // 1_000_000

    def sleep(self, duration_ms: int) -> None:
        """Returns after so many milliseconds."""
        time.sleep(duration_ms / 1000)
