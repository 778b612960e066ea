"""Notices when the system's clock is set, and makes sure that no delay or invisible time ends later because of it."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.clock import Alarm, Clock
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.times import format_length, format_time

LOOK_INTERVAL_MS = 1_000
STEP_MS = 1_000
"""Smaller steps are not reported."""
DOWN_MS_MAX = 3_600_000
"""A broker that starts this long after its clock was found to have been set back ignores what the clock said then."""

_logger = logging.getLogger(__name__)


class ClockWatch:
    """Looks at the system's clock every second, and whenever something has begun later than now.

    Belongs to the event loop. Arguments: the state; the way to change it; the clock; a callback for when the clock was
    set, because timers must be set again.
    """

    def __init__(
        self, state: BrokerState, group_commit: GroupCommit, clock: Clock, on_step: Callable[[], None]
    ) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._on_step = on_step
        self._alarm = Alarm(clock, self._look)
        self._ahead_ms = 0

    async def start(self) -> None:
        """Compares the clock with the data, and begins to watch it. Call it before anything is timed."""
        state, store, now_ms = self._state, self._state.store, self._clock.wall_ms()
        self._ahead_ms = now_ms - self._clock.passing_ms()
        if now_ms - store.last_read_ms > DOWN_MS_MAX:
            store.trust_store_times(now_ms)
        newest_ms = state.find_newest_message_ms()
        if newest_ms - now_ms >= STEP_MS:
            _logger.warning(
                "the newest message is from the future: its store time is %s, and the clock says %s. Messages in its "
                "queue get that time until the clock has reached it, so offsets by time and event times are wrong "
                "there. docs/durability.md (Messages from the future) says how to repair the directory",
                format_time(newest_ms),
                format_time(now_ms),
            )
        if max(store.newest_written_ms, state.newest_begin_ms, state.halves.newest_begin_ms) > now_ms:
            await self._read_clock()
        self._set_alarm()

    def _set_alarm(self) -> None:
        self._alarm.set(self._clock.passing_ms() + LOOK_INTERVAL_MS)

    def check_begins(self) -> None:
        """Looks at once if something has begun later than now. Call it when facts were stored."""
        if self._state.newest_begin_ms > self._clock.wall_ms():
            self._alarm.wake()

    async def _look(self) -> None:
        try:
            step_ms = self._find_step_ms()
            if step_ms <= -STEP_MS or self._state.newest_begin_ms > self._clock.wall_ms():
                await self._read_clock()
            if abs(step_ms) >= STEP_MS:
                self._on_step()
        finally:
            self._set_alarm()

    def _find_step_ms(self) -> int:
        """Returns by how much the clock was set ahead since the last look; negative if it was set back."""
        now_ms = self._clock.wall_ms()
        ahead_ms = now_ms - self._clock.passing_ms()
        step_ms, self._ahead_ms = ahead_ms - self._ahead_ms, ahead_ms
        if step_ms >= STEP_MS:
            _logger.warning(
                "the clock was set ahead by %s and says %s: messages due by then are delivered at once",
                format_length(step_ms),
                format_time(now_ms),
            )
            self._state.store.trust_store_times(now_ms)
        elif step_ms <= -STEP_MS:
            _logger.warning(
                "the clock was set back by %s and says %s: delays and invisible times end no later than their full "
                "length from now; queues with newer messages keep the store time of their last message until then",
                format_length(-step_ms),
                format_time(now_ms),
            )
        return step_ms

    async def _read_clock(self) -> None:
        try:
            await self._group_commit.read_clock(self._clock.wall_ms())
        except BrokerError as error:
            _logger.warning("cannot store the time of the clock, will retry: %s", error)

    @property
    def is_busy(self) -> bool:
        """Whether it looks now."""
        return self._alarm.is_running

    async def stop(self) -> None:
        """Stops watching. Stores what the clock says if the age of messages depends on it."""
        await self._alarm.finish()
        if self._state.store.has_reads:
            await self._read_clock()
