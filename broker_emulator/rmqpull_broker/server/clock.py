"""The broker's time: the system's, or a manual clock that a test moves.

Everything timed reads this clock and sets its timers by it, so an hour of delays takes no time with a manual clock.
Clocks, their timers and their alarms belong to the event loop.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Protocol

from rmqpull_broker.core.errors import BadRequest

ADVANCE_MS_MAX = 10 * 365 * 86_400_000

_logger = logging.getLogger(__name__)


class Timer(Protocol):
    """A callback that is called once, at its time."""

    def cancel(self) -> None:
        """Prevents the call. Does nothing when the callback was already called."""


class Clock(Protocol):
    """Times in milliseconds, and timers for the time that passes."""

    def wall_ms(self) -> int:
        """Time since the epoch, for stored times and those that clients name. The clock may be set back or ahead."""

    def passing_ms(self) -> int:
        """Time since some fixed moment, for deadlines and timers: it is monotonic, even when the clock is set."""

    def steady_ms(self) -> int:
        """The wall time of the start plus the time passed since, for durations of what is only in memory."""

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Calls back when :meth:`passing_ms` reaches a time; if it already has, soon but not within this call."""


def _call_later(delay_s: float, callback: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(delay_s, callback)


class SystemClock:
    """The system's time.

    Arguments: functions that read the time since the epoch and the monotonic time, in nanoseconds; a function that sets
    a timer some seconds from now, by default in the running event loop.
    """

    def __init__(
        self,
        read_wall_ns: Callable[[], int] = time.time_ns,
        read_passing_ns: Callable[[], int] = time.monotonic_ns,
        call_later: Callable[[float, Callable[[], None]], Timer] = _call_later,
    ) -> None:
        self._read_wall_ns = read_wall_ns
        self._read_passing_ns = read_passing_ns
        self._call_later = call_later
        self._ahead_ms = self.wall_ms() - self.passing_ms()

    def wall_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self._read_wall_ns() // 1_000_000

    def passing_ms(self) -> int:
        """Milliseconds of the system's monotonic clock."""
        return self._read_passing_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds since the epoch, as if the clock had not been set since this object was made."""
        return self._ahead_ms + self.passing_ms()

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Sets a timer."""
        return self._call_later(max(0, passing_ms - self.passing_ms()) / 1000, callback)


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
    """A clock that moves only when it is advanced.

    Its wall time starts at ``start_ms``, in milliseconds since the epoch; its passing time starts at 0.
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

    def steady_ms(self) -> int:
        """Milliseconds since the epoch, which only an advance changes."""
        return self.wall_ms()

    def call_at(self, passing_ms: int, callback: Callable[[], None]) -> Timer:
        """Sets a timer that :meth:`advance` fires; ``advance(0)`` fires those that are due already."""
        timer = _ManualTimer(callback)
        heapq.heappush(self._timers, (passing_ms, next(self._order), timer))
        return timer

    def advance(self, ms: int) -> None:
        """Advances the clock, and fires the due timers in order, each at its own time, including timers that are set
        meanwhile. Tasks that the timers start run only afterwards, at the new time; :class:`ClockMover` waits for them.

        Raises ValueError for a negative time.
        """
        if ms < 0:
            raise ValueError(f"the clock cannot go back: advance by {ms} ms")
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


class ClockMover:
    """Advances the broker's clock from timer to timer, so that the broker does everything at the right time.

    Arguments: the clock, and a coroutine that returns when the broker has done everything that the timers started.
    """

    def __init__(self, clock: Clock, wait_until_idle: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._wait_until_idle = wait_until_idle

    @property
    def is_manual(self) -> bool:
        """Whether the clock can be moved."""
        return isinstance(self._clock, ManualClock)

    def now_ms(self) -> int:
        """The broker's time in milliseconds since the epoch."""
        return self._clock.wall_ms()

    async def advance(self, ms: int) -> int:
        """Advances the clock by ``ms`` milliseconds. Returns the new time.

        Everything that falls due is done at its own time and before the next: a message that is delayed by a second
        gets the store time of that second. Raises BadRequest for the system's clock, and for a time out of range.
        """
        if not isinstance(self._clock, ManualClock):
            raise BadRequest("the broker follows the system's clock: start it with --clock manual to move its time")
        if not 0 <= ms <= ADVANCE_MS_MAX:
            raise BadRequest(f"cannot advance the clock by {ms} ms: give 0 to {ADVANCE_MS_MAX}")
        until_ms = self._clock.passing_ms() + ms
        await self._wait_until_idle()
        while (due_ms := self._clock.next_due_ms()) is not None and due_ms <= until_ms:
            self._clock.advance(max(0, due_ms - self._clock.passing_ms()))
            await self._wait_until_idle()
        self._clock.advance(until_ms - self._clock.passing_ms())
        await self._wait_until_idle()
        return self._clock.wall_ms()


class Alarm:
    """Runs some work at a set time, never twice at once. If several times are set, the earliest applies."""

    def __init__(self, clock: Clock, work: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._work = work
        self._timer: Timer | None = None
        self._time_ms = 0
        self._running: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def is_running(self) -> bool:
        """Whether the work runs now."""
        return self._running is not None

    def set(self, passing_ms: int) -> None:
        """Runs the work at that time, unless it already runs then: work sets its next time when it ends."""
        if self._is_closed:
            return
        if self._timer is not None:
            if self._time_ms <= passing_ms:
                return
            self._timer.cancel()
        self._time_ms = passing_ms
        self._timer = self._clock.call_at(passing_ms, self._fire)

    def _fire(self) -> None:
        self._timer = None
        self.wake()

    def wake(self) -> None:
        """Runs the work now, unless it already runs. A time that was set stays set."""
        if self._running is None and not self._is_closed:
            self._running = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        try:
            await self._work()
        except Exception:
            _logger.exception("a timed task failed")
        finally:
            self._running = None

    async def cancel(self) -> None:
        """Never starts the work again, and interrupts it if it runs."""
        if self._running is not None:
            self._running.cancel()
        await self.finish()

    async def finish(self) -> None:
        """Never starts the work again, and waits for its end if it runs."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            await asyncio.gather(self._running, return_exceptions=True)
