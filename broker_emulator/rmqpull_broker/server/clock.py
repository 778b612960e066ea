"""The broker's time: that of the system, or one that stands still until a test moves it.

Whatever is timed asks the clock and sets its timers at the clock, so that a manual clock makes an hour of delays take
no time. A clock and its timers belong to the event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    """A callback that waits for its time."""

    def cancel(self) -> None:
        """The callback will not be called; nothing happens when it already was."""


class Clock(Protocol):
    """Two times in milliseconds, and timers on the second."""

    def wall_ms(self) -> int:
        """Time since the epoch, which messages are stamped with. It never steps back: store times must not fall within
        a queue, for they are searched by halving (rules 3.11).
        """

    def passing_ms(self) -> int:
        """Time since whenever, for whoever waits: a wall clock may stand still until it has caught up."""

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Calls back when :meth:`passing_ms` has reached a time; at once, but not within this call, if it has."""


class SystemClock:
    """The system's time, but never before ``latest_ms``, the newest time that the broker has given a message."""

    def __init__(self, latest_ms: int = 0) -> None:
        self._latest_ms = latest_ms

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, never stepping back."""
        self._latest_ms = max(self._latest_ms, time.time_ns() // 1_000_000)
        return self._latest_ms

    def passing_ms(self) -> int:
        """Milliseconds that pass evenly."""
        return time.monotonic_ns() // 1_000_000

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Sets a timer of the running event loop."""
        return asyncio.get_running_loop().call_later(max(0, passing_ms - self.passing_ms()) / 1000, callback)


class _ManualTimer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self._callback = callback
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def fire(self) -> None:
        if not self.is_cancelled:
            self._callback()


class ManualClock:
    """Time that stands still until it is advanced. ``start_ms`` is where its wall time begins, in milliseconds since
    the epoch; what passes is counted from 0.
    """

    def __init__(self, start_ms: int = 0) -> None:
        self._start_ms = start_ms
        self._passed_ms = 0
        self._timers: list[tuple[int, int, _ManualTimer]] = []
        self._order = itertools.count()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._start_ms + self._passed_ms

    def passing_ms(self) -> int:
        """Milliseconds by which the clock was advanced."""
        return self._passed_ms

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Sets a timer that :meth:`advance` fires, also ``advance(0)`` when its time has come already."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (passing_ms, next(self._order), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Lets ``ms`` milliseconds pass and calls back whoever is due, in the order of their times, each at its own;
        timers set meanwhile take part. What they wake runs afterwards, when all of the time has passed.

        Raises ValueError for a time that is negative.
        """
        if ms < 0:
            raise ValueError(f"time does not go back: it was to be advanced by {ms} ms")
        until_ms = self._passed_ms + ms
        while self._timers and self._timers[0][0] <= until_ms:
            due_ms, _, timer = heapq.heappop(self._timers)
            self._passed_ms = max(self._passed_ms, due_ms)
            timer.fire()
        self._passed_ms = until_ms

    def next_due_ms(self) -> int | None:
        """The passing time of the next timer; None when none is set."""
        while self._timers and self._timers[0][2].is_cancelled:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def advance_to(self, wall_ms: int) -> None:
        """Lets time pass until a moment since the epoch; nothing happens when it has passed already."""
        self.advance(max(0, wall_ms - self.wall_ms()))


async def sleep_until(clock: Clock, passing_ms: int) -> None:
    """Returns when a clock's passing time has reached a moment; costs nothing when cancelled."""
    reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(passing_ms, lambda: None if reached.done() else reached.set_result(None))
    try:
        await reached
    finally:
        timer.cancel()
