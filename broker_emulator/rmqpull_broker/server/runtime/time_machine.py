"""A manual clock moved so that the broker does at each moment what it would have done then."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from rmqpull_broker.core.errors import BadRequest
from rmqpull_broker.server.clock import Clock, ManualClock

ADVANCE_MS_MAX = 10 * 365 * 86_400_000


class TimeMachine:
    """Advances the broker's clock from one timer to the next. Belongs to the event loop.

    Arguments: the broker's clock, and a coroutine that returns when everything that a timer set off has been done.
    """

    def __init__(self, clock: Clock, settled: Callable[[], Awaitable[None]]) -> None:
        self._clock = clock
        self._settled = settled

    @property
    def is_manual(self) -> bool:
        """Whether the clock can be moved at all."""
        return isinstance(self._clock, ManualClock)

    def now_ms(self) -> int:
        """The broker's time in milliseconds since the epoch."""
        return self._clock.wall_ms()

    async def advance(self, ms: int) -> int:
        """Lets ``ms`` milliseconds pass and gives the time that it is then.

        Whatever falls due in between is done at its own moment and before the next: a message that comes after a second
        is stored with that second. Raises BadRequest for the system's clock, and for a time that is negative or absurd.
        """
        if not isinstance(self._clock, ManualClock):
            raise BadRequest("the broker follows the system's clock: start it with --clock manual to move its time")
        if not 0 <= ms <= ADVANCE_MS_MAX:
            raise BadRequest(f"time cannot be advanced by {ms} ms: expected 0 to {ADVANCE_MS_MAX}")
        until_ms = self._clock.passing_ms() + ms
        await self._settled()
        while (due_ms := self._clock.next_due_ms()) is not None and due_ms <= until_ms:
            self._clock.advance(max(0, due_ms - self._clock.passing_ms()))
            await self._settled()
        self._clock.advance(until_ms - self._clock.passing_ms())
        await self._settled()
        return self._clock.wall_ms()
