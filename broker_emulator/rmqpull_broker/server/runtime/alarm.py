"""Work that is done at a time that the clock tells."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rmqpull_broker.server.clock import Clock, Timer


class Alarm:
    """Work that is done at a time, never twice at once; set to several times it rings at the earliest."""

    def __init__(self, clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._work = work
        self._timer: Timer | None = None
        self._time_ms = 0
        self._running: asyncio.Task[None] | None = None

    @property
    def is_ringing(self) -> bool:
        """Whether the work is under way."""
        return self._running is not None

    def set(self, passing_ms: int) -> None:
        """Rings at that time, unless the work is under way then: work sets the next time when it ends."""
        if self._timer is not None:
            if self._time_ms <= passing_ms:
                return
            self._timer.cancel()
        self._time_ms = passing_ms
        self._timer = self._clock.call_at(passing_ms, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self.ring()

    def ring(self) -> None:
        """Rings now, unless the work is under way; a time that was set stays."""
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._work()
        finally:
            self._running = None

    async def cancel(self) -> None:
        """Rings no more, and interrupts the work that is under way."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
