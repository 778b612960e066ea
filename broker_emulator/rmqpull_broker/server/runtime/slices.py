"""Runs long work in slices of the event loop's time, so that other requests have their turns in between."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

SLICE_S = 0.0015
"""Seconds that one request or connection gets in a turn of the event loop. The last step of a slice may end later."""

T = TypeVar("T")
Clock = Callable[[], float]
"""Reads a time in seconds, counted from any moment."""


class Slice:
    """One slice, which begins now."""

    __slots__ = ("_clock", "_end_s")

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._end_s = clock() + SLICE_S

    def set_aside(self, seconds: float) -> None:
        """Shortens the slice, to leave time for a task that was begun and runs after it."""
        self._end_s -= seconds

    @property
    def is_over(self) -> bool:
        """Whether it is now the turn of others."""
        return self._clock() >= self._end_s


class Slices:
    """Runs long work, see :mod:`rmqpull_broker.core.steps`. Belongs to the event loop.

    Work that takes more than one slice waits for other such work, so that each turn has only one such slice, and the
    parts of only one result are in memory.
    """

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._lock = asyncio.Lock()
        self._pausing = asyncio.Lock()

    def begin(self, steps: Iterator[T | None], take: Callable[[T], object]) -> bool:
        """Runs one slice, and gives ``take`` each part of the result. Returns whether the work is done."""
        slice_ = Slice(self._clock)
        for part in steps:
            if part is not None:
                take(part)
            if slice_.is_over:
                return False
        return True

    async def collect(self, steps: Iterator[T | None]) -> list[T]:
        """Returns the parts of the result. Raises what a step raises."""
        found: list[T] = []
        if not self.begin(steps, found.append):
            await self.finish(steps, found.append)
        return found

    async def finish(self, steps: Iterator[T | None], take: Callable[[T], object]) -> None:
        """Runs what is left, slice by slice."""
        async with self._lock:
            while True:
                if self.begin(steps, take):
                    return
                await asyncio.sleep(0)

    async def pause(self) -> None:
        """Ends a slice of work that also waits for other things, and returns when its next slice may begin.

        A turn has one slice of such work in all, besides one of :meth:`finish`.
        """
        async with self._pausing:
            await asyncio.sleep(0)
