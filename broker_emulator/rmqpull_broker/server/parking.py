"""Parked pulls as coroutines that wait: no thread, one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from rmqpull_broker.core.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.holding import Holding, ParkedPull
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.ports import MessageStore


class Parking:
    """Lets pulls wait for arrivals. All methods belong to the event loop.

    Arguments: where arrived messages are read, and a clock in milliseconds, since whenever, that never stands still:
    a wall clock that is set back would park everybody until it has caught up.
    """

    def __init__(self, store: MessageStore, clock_ms: Callable[[], int]) -> None:
        self._store = store
        self.clock_ms = clock_ms
        self._holding = Holding()
        self._waiting: dict[int, asyncio.Future[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._holding)

    async def wait(self, pull: ParkedPull) -> None:
        """Returns when a matching message arrives, the deadline passes or the broker stops. Costs nothing when
        cancelled: a pull whose caller went away is forgotten.
        """
        if self._is_closed:
            return
        ticket = self._holding.park(pull)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._set_timer()
        try:
            await future
        finally:
            self._holding.remove(ticket)
            del self._waiting[ticket]

    def kept(self, facts: Iterable[Fact]) -> None:
        """Wakes whom newly stored messages concern."""
        for fact in facts:
            if isinstance(fact, RowsStored):
                self._arrived(fact.queue, fact.rows[0].queue_offset, len(fact.rows))
            elif isinstance(fact, ColumnsStored):
                for part in fact.parts:
                    self._arrived(part.queue, part.first_offset, part.row_count)

    def _arrived(self, queue: MessageQueue, first_offset: int, row_count: int) -> None:
        if not self._holding.waits_for(queue):
            return
        for arrivals in self._store.read(queue, first_offset, first_offset + row_count):
            self._wake(self._holding.arrived(queue, arrivals))

    def close(self) -> None:
        """Answers every parked pull, and from now on parks none."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake(self._holding.all())

    def _wake(self, tickets: Iterable[int]) -> None:
        for ticket in tickets:
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(None)

    def _set_timer(self) -> None:
        deadline_ms = self._holding.next_deadline_ms()
        if deadline_ms is None or self._is_closed:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay_s = max(0, deadline_ms - self.clock_ms()) / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._wake(self._holding.expired(self.clock_ms()))
        self._set_timer()
