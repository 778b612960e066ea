"""Long work in slices of the event loop's time: other requests have their turns between two slices."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

SLICE_S = 0.0015
"""Seconds of one turn of the event loop for one request or connection. The last step of a slice may end later."""

T = TypeVar("T")
Clock = Callable[[], float]
"""Tells seconds, from any beginning."""


class Slice:
    """One slice, which begins now."""

    __slots__ = ("_clock", "_end_s")

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._end_s = clock() + SLICE_S

    def set_aside(self, seconds: float) -> None:
        """Leaves time for what was begun, and runs when the slice is over."""
        self._end_s -= seconds

    @property
    def is_over(self) -> bool:
        """Whether it is the turn of others."""
        return self._clock() >= self._end_s


class Slices:
    """Runs long work, see :mod:`rmqpull_broker.core.steps`. Belongs to the event loop.

    Work that takes more than one slice waits for other such work, so that a turn has one of their slices, and the parts
    of one result are kept at a time.
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
        """Ends a slice of work that waits in between, and returns when its next one may begin.

        A turn has one slice of such work, whoever it is for, besides one of :meth:`finish`.
        """
        async with self._pausing:
            await asyncio.sleep(0)
