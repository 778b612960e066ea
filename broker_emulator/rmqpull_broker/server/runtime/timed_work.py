"""What the broker does by the clock: it delivers delayed messages and asks after half messages that nobody ended."""

from __future__ import annotations

import logging
from collections.abc import Callable

from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.transactions import TransactionCheck, check_transactions
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.server.clock import Clock
from rmqpull_broker.server.runtime.alarm import Alarm
from rmqpull_broker.server.runtime.group_commit import GroupCommit

RETRY_MS = 100
"""After a delivery that failed: as long as Apache's ScheduleMessageService waits (rules 3.14.1)."""

_logger = logging.getLogger(__name__)


class TimedWork:
    """Belongs to the event loop.

    Arguments: the state whose messages wait; the way to change it; the clock; the address that stored messages carry;
    who asks the producers of unresolved half messages.
    """

    def __init__(
        self,
        state: BrokerState,
        group_commit: GroupCommit,
        clock: Clock,
        store_host: str,
        ask: Callable[[TransactionCheck], None],
    ) -> None:
        self._state = state
        self._group_commit = group_commit
        self._clock = clock
        self._store_host = store_host
        self._ask = ask
        self._deliveries = Alarm(clock, self._deliver)
        self._checks = Alarm(clock, self._check)

    def start(self) -> None:
        """Sets the first alarms; what fell due while the broker was down is delivered at once."""
        self.delayed()
        self._set_check()

    def delayed(self) -> None:
        """To be called when a message was delayed: it may be due before all others."""
        due_ms = self._state.delayed.next_due_ms()
        if due_ms is not None:
            self._deliveries.set(self._clock.passing_ms() + max(0, due_ms - self._clock.wall_ms()))

    def _set_check(self) -> None:
        self._checks.set(self._clock.passing_ms() + self._state.properties.transaction_check_interval)

    async def _deliver(self) -> None:
        try:
            while self._is_due(self._state.delayed.next_due_ms()):
                await self._deliver_some()
        except BrokerError as error:
            _logger.warning("delayed messages could not be delivered and are tried again: %s", error)
            self._deliveries.set(self._clock.passing_ms() + RETRY_MS)
            return
        self.delayed()

    def _is_due(self, due_ms: int | None) -> bool:
        return due_ms is not None and due_ms <= self._clock.wall_ms()

    async def _deliver_some(self) -> None:
        now_ms = self._clock.wall_ms()
        delivered = await self._group_commit.execute(lambda draft: deliver_due(draft, now_ms, self._store_host))
        if delivered.dropped:
            _logger.warning("%d delayed messages were dropped: their topics are gone", delivered.dropped)

    async def _check(self) -> None:
        try:
            while self._is_due(self._state.halves.next_due_ms()):
                await self._check_some()
        except BrokerError as error:
            _logger.warning("half messages could not be checked: %s", error)
        self._set_check()

    async def _check_some(self) -> None:
        now_ms = self._clock.wall_ms()
        checks = await self._group_commit.execute(lambda draft: check_transactions(draft, now_ms, self._store_host))
        for check in checks:
            self._ask(check)

    @property
    def is_busy(self) -> bool:
        """Whether something is delivered or checked now."""
        return self._deliveries.is_ringing or self._checks.is_ringing

    async def stop(self) -> None:
        """Ends all of it; what is due comes when the broker is back."""
        await self._deliveries.cancel()
        await self._checks.cancel()
