"""Parked pulls: each is a waiting coroutine, with one timer for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.parking import LONG_POLLING, Arrivals, ParkedPull, ParkedPulls, PollingRules
from rmqpull_broker.core.state.facts import (
    ColumnsStored,
    Fact,
    OffsetsReset,
    QueuePart,
    QueuesTrimmed,
    RowsStored,
    TopicDeleted,
    TopicPut,
)
from rmqpull_broker.core.state.ports import MessageStore
from rmqpull_broker.core.state.stage_facts import StagesCommitted
from rmqpull_broker.server.clock import Clock, Timer

ENDED_IN_A_TURN = 100
"""Parked pulls, or waiting pops, that end in one turn of the event loop when the broker stops."""
Further = AsyncGenerator[Sequence[MessageQueue] | None, None]
"""More queues of a pull, one piece in each turn of the event loop; None if one of them already has something new."""


class PullParker:
    """Parks pulls until messages arrive. All methods belong to the event loop.

    Arguments: the store to read arrived messages from; the clock of deadlines and checks; the rules of parking.
    """

    def __init__(self, store: MessageStore, clock: Clock, rules: PollingRules = LONG_POLLING) -> None:
        self.clock = clock
        self.rules = rules
        self._store = store
        self._parked = ParkedPulls(clock.passing_ms(), rules)
        self._waiting: dict[int, asyncio.Future[bool]] = {}
        self._timer: Timer | None = None
        self._timer_ms = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._parked)

    async def park(self, pull: ParkedPull, further: Further | None = None) -> bool:
        """Parks a pull. Returns True when it must run again: a matching message arrives, its deadline passes, a check
        finds new messages, or the bounds of a queue change. Returns False when the broker stops and the pull would find
        nothing new. A pull whose caller leaves is cancelled and removed.

        ``further`` yields more queues of the pull.
        """
        if self._is_closed:
            return False
        ticket = self._parked.park(pull, self.clock.passing_ms())
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = future
        self._set_timer()
        try:
            if further is not None and not await self._extend(ticket, future, further):
                return True
            return await future
        finally:
            del self._waiting[ticket]
            if not self._waiting:
                self._waiting.clear()  # a dict keeps the memory of removed entries until it is cleared
            self._remove(ticket)

    async def _extend(self, ticket: int, future: asyncio.Future[bool], further: Further) -> bool:
        async with aclosing(further) as pieces:
            async for queues in pieces:
                if future.done():
                    break
                if queues is None:
                    return False
                self._parked.extend(ticket, queues)
        return True

    def _remove(self, ticket: int) -> None:
        if self._parked.remove(ticket):
            asyncio.get_running_loop().call_soon(self._remove, ticket)

    def wake_for(self, facts: Iterable[Fact]) -> None:
        """Wakes the pulls that match new messages, and those of queues that have changed in other ways."""
        for fact in facts:
            if isinstance(fact, RowsStored):
                self._wake_arrived(fact.queue, [Arrivals(fact.rows)])
            elif isinstance(fact, ColumnsStored):
                for part in fact.parts:
                    self._wake_arrived(part.queue, self._read(part))
            elif isinstance(fact, StagesCommitted):
                # Without a look at the rows, of which there may be millions: their pulls look for themselves.
                self.wake_queues(splice.queue for splice in fact.splices)
            elif isinstance(fact, QueuesTrimmed):
                self.wake_queues(queue for queue, _ in fact.min_offsets)
            elif isinstance(fact, OffsetsReset):
                self.wake_queues((queue for queue, _ in fact.offsets), fact.group)
            elif isinstance(fact, TopicPut):
                self.wake_topic(fact.topic.name)
            elif isinstance(fact, TopicDeleted):
                self.wake_topic(fact.topic)

    def _read(self, part: QueuePart) -> Iterator[Arrivals]:
        for batch in self._store.read(part.queue, part.first_offset, part.first_offset + part.row_count):
            yield Arrivals(batch=batch)

    def _wake_arrived(self, queue: MessageQueue, arrived: Iterable[Arrivals]) -> None:
        if not self._parked.has_pulls_of(queue):
            return
        now_ms = self.clock.passing_ms()
        for arrivals in arrived:
            self._wake(self._parked.find_woken(queue, arrivals, now_ms))
        self._set_timer()

    def wake_queues(self, queues: Iterable[MessageQueue], group: str | None = None) -> None:
        """Wakes all pulls of these queues, of one group or of all groups."""
        self._wake(self._parked.list_pulls_of(queues, group))

    def wake_topic(self, topic: str) -> None:
        """Wakes the pulls of a topic's queues after a change of the topic, except those over remoting (rules 3.4)."""
        self._wake(self._parked.list_pulls_of(self._parked.list_queues(topic), with_on_grid=False))

    def close(self) -> None:
        """Ends all parked pulls, some in each turn of the event loop, and parks no more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._end(self._parked.list_all())

    def _end(self, tickets: list[int]) -> None:
        # Ten thousand responses in one turn would block everything else that has to finish.
        self._wake(tickets[-ENDED_IN_A_TURN:], runs_again=False)
        del tickets[-ENDED_IN_A_TURN:]
        if tickets:
            asyncio.get_running_loop().call_soon(self._end, tickets)

    def _wake(self, tickets: Iterable[int], *, runs_again: bool = True) -> None:
        for ticket in tickets:
            future = self._waiting.get(ticket)
            if future is not None and not future.done():
                future.set_result(runs_again)

    def _set_timer(self) -> None:
        due_ms = self._parked.next_due_ms()
        if due_ms is None or self._is_closed or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        self._timer = self.clock.call_at(due_ms, self._expire)

    def _expire(self) -> None:
        self._timer = None
        self._wake(self._parked.take_due(self.clock.passing_ms()))
        self._set_timer()
