"""Retention by the clock: every ten seconds, what is too old or too much is let go (cleanResourceInterval)."""

from __future__ import annotations

import asyncio
import logging

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.server.clock import Clock, Timer
from rmqpull_broker.server.runtime.group_commit import GroupCommit

INTERVAL_MS = 10_000

_logger = logging.getLogger(__name__)


class Cleaning:
    """Belongs to the event loop. Arguments: what lets go of messages, and whose time decides which."""

    def __init__(self, group_commit: GroupCommit, clock: Clock) -> None:
        self._group_commit = group_commit
        self._clock = clock
        self._timer: Timer | None = None
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Looks for the first time when an interval has passed."""
        self._timer = self._clock.call_at(self._clock.passing_ms() + INTERVAL_MS, self._ring)

    def _ring(self) -> None:
        self.start()
        if self._running is None:
            self._running = asyncio.get_running_loop().create_task(self._clean())

    async def _clean(self) -> None:
        try:
            await self._group_commit.expire(self._clock.wall_ms())
        except BrokerError as error:
            _logger.warning("old messages could not be let go: %s", error)
        finally:
            self._running = None

    @property
    def is_busy(self) -> bool:
        """Whether something is let go now."""
        return self._running is not None

    async def stop(self) -> None:
        """Looks no more, and waits for the command that is under way; the next start goes on with the pass."""
        self._group_commit.end_expiry()
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            await self._running
