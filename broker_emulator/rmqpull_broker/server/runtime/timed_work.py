"""What the broker does by the clock: it delivers delayed messages, stores again what was not acknowledged in time,
checks half messages, and applies retention.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import TransactionCheck, check_transactions
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.clock import Alarm, Clock
from rmqpull_broker.server.runtime.group_commit import GroupCommit

RETRY_MS = 100
"""The delay before a retry after a failed delivery, as in Apache's ScheduleMessageService (rules 3.14.1)."""
CLEANING_INTERVAL_MS = 10_000
"""Like cleanResourceInterval of Apache's broker."""

_logger = logging.getLogger(__name__)


class TimedWork:
    """Delivers delayed messages and messages that were not acknowledged, and checks half messages that their producers
    have not ended.

    Belongs to the event loop. Arguments: the state with these messages; the way to change it; the clock; the store host
    of messages; a function that sends a check to a producer; a function that makes the creation id of a topic.
    """

    def __init__(
        self,
        state: BrokerState,
        group_commit: GroupCommit,
        clock: Clock,
        store_host: str,
        send_check: Callable[[TransactionCheck], None],
        make_creation_id: Callable[[], str],
    ) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._store_host = store_host
        self._send_check = send_check
        self._make_creation_id = make_creation_id
        self._deliveries = Alarm(clock, self._deliver)
        self._checks = Alarm(clock, self._check)
        self._revivals = Alarm(clock, self._revive)

    def start(self) -> None:
        """Sets the first alarms. Messages that fell due while the broker was down are delivered at once."""
        self.set_alarms()
        self._set_check()

    def set_alarms(self) -> None:
        """Sets the alarms for the next due messages. Call it when messages were delayed, or delivered to a group that
        has to acknowledge them: one may be due before others.
        """
        _set(self._deliveries, self._state.delayed.next_due_ms(), self._clock)
        _set(self._revivals, self._state.popped.next_due_ms(), self._clock)

    def _set_check(self) -> None:
        self._checks.set(self._clock.passing_ms() + self._state.properties.transaction_check_interval)

    async def _deliver(self) -> None:
        try:
            while self._is_due(self._state.delayed.next_due_ms()):
                await self._deliver_some()
        except BrokerError as error:
            _logger.warning("cannot deliver delayed messages, will retry: %s", error)
            self._deliveries.set(self._clock.passing_ms() + RETRY_MS)
            return
        self.set_alarms()

    def _is_due(self, due_ms: int | None) -> bool:
        return due_ms is not None and due_ms <= self._clock.wall_ms()

    async def _deliver_some(self) -> None:
        now_ms = self._clock.wall_ms()
        delivered = await self._group_commit.execute(lambda draft: deliver_due(draft, now_ms, self._store_host))
        if delivered.dropped:
            _logger.warning("dropped %d delayed messages: their topics were deleted", delivered.dropped)

    async def _revive(self) -> None:
        try:
            while self._is_due(self._state.popped.next_due_ms()):
                await self._revive_some()
        except BrokerError as error:
            _logger.warning("messages that were not acknowledged cannot be stored again, will retry: %s", error)
            self._revivals.set(self._clock.passing_ms() + RETRY_MS)
            return
        self.set_alarms()

    async def _revive_some(self) -> None:
        now_ms = self._clock.wall_ms()
        await self._group_commit.execute(
            lambda draft: revive_due(draft, now_ms, self._store_host, self._make_creation_id)
        )

    async def _check(self) -> None:
        try:
            while self._is_due(self._state.halves.next_due_ms()):
                await self._check_some()
        except BrokerError as error:
            _logger.warning("cannot check half messages: %s", error)
        self._set_check()

    async def _check_some(self) -> None:
        now_ms = self._clock.wall_ms()
        checks = await self._group_commit.execute(lambda draft: check_transactions(draft, now_ms, self._store_host))
        for check in checks:
            self._send_check(check)

    @property
    def is_busy(self) -> bool:
        """Whether messages are delivered, stored again or checked now."""
        return any(alarm.is_running for alarm in (self._deliveries, self._revivals, self._checks))

    async def stop(self) -> None:
        """Stops. The next start delivers what falls due until then."""
        await self._deliveries.cancel()
        await self._revivals.cancel()
        await self._checks.cancel()


def _set(alarm: Alarm, due_ms: int | None, clock: Clock) -> None:
    if due_ms is not None:
        alarm.set(clock.passing_ms() + max(0, due_ms - clock.wall_ms()))


class Cleaner:
    """Applies retention every ten seconds: deletes messages that are too old or too many.

    Belongs to the event loop. Arguments: the group commit, which deletes them; the clock, by which they are old.
    """

    def __init__(self, group_commit: GroupCommit, clock: Clock) -> None:
        self._group_commit = group_commit
        self._clock = clock
        self._alarm = Alarm(clock, self._clean)

    def start(self) -> None:
        """Sets the next pass, one interval from now."""
        self._alarm.set(self._clock.passing_ms() + CLEANING_INTERVAL_MS)

    async def _clean(self) -> None:
        begun_ms = self._clock.passing_ms()
        try:
            await self._group_commit.expire(self._clock.wall_ms())
        except BrokerError as error:
            _logger.warning("cannot delete old messages: %s", error)
        finally:
            # After a pass that takes longer than an interval, the missed passes are skipped.
            missed = (self._clock.passing_ms() - begun_ms) // CLEANING_INTERVAL_MS
            self._alarm.set(begun_ms + (missed + 1) * CLEANING_INTERVAL_MS)

    @property
    def is_busy(self) -> bool:
        """Whether a pass runs now."""
        return self._alarm.is_running

    async def stop(self) -> None:
        """Ends the pass after its current command; the next start continues it."""
        self._group_commit.end_expiry()
        await self._alarm.finish()
