"""Parked pulls as coroutines that wait: no thread, one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.parking import LONG_POLLING, ParkedPull, ParkedPulls, PollingRules
from rmqpull_broker.core.state.facts import (
    ColumnsStored,
    Fact,
    OffsetsReset,
    QueuesTrimmed,
    RowsStored,
    TopicDeleted,
    TopicPut,
)
from rmqpull_broker.core.state.ports import MessageStore
from rmqpull_broker.server.clock import Clock, Timer

RELEASED_IN_A_TURN = 100
"""Parked pulls that are answered in one turn of the event loop when the broker stops."""


class Parking:
    """Lets pulls wait for arrivals. All methods belong to the event loop.

    Arguments: where arrived messages are read, the clock that deadlines and checks follow, and the rules of holding.
    """

    def __init__(self, store: MessageStore, clock: Clock, rules: PollingRules = LONG_POLLING) -> None:
        self.clock = clock
        self.rules = rules
        self._store = store
        self._holding = ParkedPulls(clock.passing_ms(), rules)
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._holding)

    async def wait(self, pull: ParkedPull) -> bool:
        """Returns True when the pull is to be run again: a matching message arrives, the deadline passes, a check finds
        it behind, or a queue's bounds change. Returns False when the broker stops, which changes nothing that the pull
        could find. Costs nothing when cancelled: a pull whose caller went away is forgotten.
        """
        if self._is_closed:
            return False
        ticket = self._holding.park(pull, self.clock.passing_ms())
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._set_timer()
        try:
            return await future
        finally:
            self._holding.remove(ticket)
            del self._waiting[ticket]

    def kept(self, facts: Iterable[Fact]) -> None:
        """Wakes whom newly stored messages concern, and who waits for a queue that changed in another way."""
        for fact in facts:
            if isinstance(fact, RowsStored):
                self._arrived(fact.queue, fact.rows[0].queue_offset, len(fact.rows))
            elif isinstance(fact, ColumnsStored):
                for part in fact.parts:
                    self._arrived(part.queue, part.first_offset, part.row_count)
            elif isinstance(fact, QueuesTrimmed):
                self.changed(queue for queue, _ in fact.min_offsets)
            elif isinstance(fact, OffsetsReset):
                self.changed((queue for queue, _ in fact.offsets), fact.group)
            elif isinstance(fact, TopicPut):
                self.topic_changed(fact.topic.name)
            elif isinstance(fact, TopicDeleted):
                self.topic_changed(fact.topic)

    def _arrived(self, queue: MessageQueue, first_offset: int, row_count: int) -> None:
        if not self._holding.waits_for(queue):
            return
        now_ms = self.clock.passing_ms()
        for arrivals in self._store.read(queue, first_offset, first_offset + row_count):
            self._wake(self._holding.arrived(queue, arrivals, now_ms))
        self._set_timer()

    def changed(self, queues: Iterable[MessageQueue], group: str | None = None) -> None:
        """Wakes who waits for one of these queues, in one group or in all; what they find is their business."""
        self._wake(self._holding.changed(queues, group))

    def topic_changed(self, topic: str) -> None:
        """Wakes who waits for any queue of a topic."""
        self.changed(self._holding.queues_of(topic))

    def close(self) -> None:
        """Answers every parked pull, some in each turn of the event loop, and from now on parks none."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._release(self._holding.all())

    def _release(self, tickets: list[int]) -> None:
        """In one turn, ten thousand answers would keep the loop from everything else that is to be finished."""
        self._wake(tickets[-RELEASED_IN_A_TURN:], runs_again=False)
        del tickets[-RELEASED_IN_A_TURN:]
        if tickets:
            asyncio.get_running_loop().call_soon(self._release, tickets)

    def _wake(self, tickets: Iterable[int], *, runs_again: bool = True) -> None:
        for ticket in tickets:
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(runs_again)

    def _set_timer(self) -> None:
        due_ms = self._holding.next_due_ms()
        if due_ms is None or self._is_closed or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self.clock.call_at(due_ms, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._wake(self._holding.due(self.clock.passing_ms()))
        self._set_timer()
