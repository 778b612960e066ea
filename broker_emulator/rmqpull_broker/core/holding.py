"""Parked pulls: who waits for which queues, until when, and what wakes them (rocketmq-semantics 3.4).

Knows neither clock nor tasks: the caller brings the time, gives each pull a ticket, and answers the tickets that come
back.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filtering import TagFilter
from rmqpull_broker.core.model import MessageQueue

PARKED_PULLS_MAX = 100_000


@dataclass(frozen=True)
class ParkedPull:
    """A pull that found nothing at its offsets and waits until ``deadline_ms``."""

    queues: Sequence[MessageQueue]
    tag_filter: TagFilter
    deadline_ms: int


class Holding:
    """The parked pulls by queue. A ticket is a number that is used once."""

    def __init__(self) -> None:
        self._pulls: dict[int, ParkedPull] = {}
        self._by_queue: dict[MessageQueue, dict[int, None]] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._pulls)

    def park(self, pull: ParkedPull) -> int:
        """Parks a pull and gives its ticket. Raises TooManyRequests when too many wait already."""
        if len(self._pulls) >= PARKED_PULLS_MAX:
            raise TooManyRequests(f"{PARKED_PULLS_MAX} pulls are parked already; poll again later")
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        self._pulls[ticket] = pull
        for queue in pull.queues:
            self._by_queue.setdefault(queue, {})[ticket] = None
        heapq.heappush(self._deadlines, (pull.deadline_ms, ticket))
        return ticket

    def remove(self, ticket: int) -> None:
        """Forgets a pull, because it was answered or its caller went away. A ticket that is gone is no error."""
        pull = self._pulls.pop(ticket, None)
        if pull is None:
            return
        for queue in dict.fromkeys(pull.queues):
            waiting = self._by_queue[queue]
            del waiting[ticket]
            if not waiting:
                del self._by_queue[queue]
        # Answered pulls leave the heap when they come up, or when they are most of it.
        if len(self._deadlines) > 2 * len(self._pulls) + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._pulls]
            heapq.heapify(self._deadlines)

    def waits_for(self, queue: MessageQueue) -> bool:
        """Whether any parked pull would be interested in an arrival on ``queue``."""
        return queue in self._by_queue

    def arrived(self, queue: MessageQueue, arrivals: pa.RecordBatch) -> list[int]:
        """Tickets of the pulls that messages arriving on ``queue`` wake: those whose filter one of them passes."""
        verdicts: dict[TagFilter, bool] = {}
        woken = []
        for ticket in self._by_queue.get(queue, ()):
            tag_filter = self._pulls[ticket].tag_filter
            if tag_filter not in verdicts:
                verdicts[tag_filter] = tag_filter.matches_any(arrivals)
            if verdicts[tag_filter]:
                woken.append(ticket)
        return woken

    def expired(self, now_ms: int) -> list[int]:
        """Tickets of the pulls whose time is over."""
        tickets = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, ticket = heapq.heappop(self._deadlines)
            if ticket in self._pulls:
                tickets.append(ticket)
        return tickets

    def next_deadline_ms(self) -> int | None:
        """When :meth:`expired` is next worth asking; None while nothing waits."""
        while self._deadlines and self._deadlines[0][1] not in self._pulls:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def all(self) -> list[int]:
        """Tickets of every parked pull."""
        return list(self._pulls)
