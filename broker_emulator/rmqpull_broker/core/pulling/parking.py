"""Parked pulls: who waits for which queues, until when, and what wakes them (rules 3.4, 6.1).

Knows neither clock nor tasks: the caller brings the time, gives each pull a ticket, and answers the tickets that come
back.

A pull is parked at the end of its queues. So whatever arrives on one of them puts it behind, and it is answered at
once when the arrival passes its filter, or else at the next check: checks come every 5 s, counted from the beginning,
and answer every pull that is behind, whose reader thereby learns how far it need not look again.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filters.message_filter import MessageFilter
from rmqpull_broker.core.model import MessageQueue

PARKED_PULLS_MAX = 100_000

_LONG_CHECK_MS = 5_000


@dataclass(frozen=True)
class PollingRules:
    """Two of Apache's broker properties. Without long polling no arrival wakes a pull: checks come every
    ``short_polling_time_mills``, and a pull is held that long whatever it asked for.
    """

    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000

    @property
    def check_ms(self) -> int:
        """Milliseconds between two checks."""
        return _LONG_CHECK_MS if self.long_polling_enable else self.short_polling_time_mills

    def timeout_ms(self, asked_ms: int) -> int:
        """How long a pull is held that asks to be held for ``asked_ms``."""
        return asked_ms if self.long_polling_enable else self.short_polling_time_mills


LONG_POLLING = PollingRules()


@dataclass(frozen=True, slots=True)
class ParkedPull:
    """A pull that found nothing at its offsets and waits until ``deadline_ms``.

    Apache looks at time-outs during checks alone; ``on_grid`` says that this pull wants it so: it is answered at the
    first check that finds its deadline passed, and never before the next one (rules 6.1). ``group`` is
    the consumer group that pulls.
    """

    queues: Sequence[MessageQueue]
    message_filter: MessageFilter
    deadline_ms: int
    on_grid: bool = False
    group: str = ""


class _Waiting:
    """The pulls that wait for one queue with one filter. Those below ``behind`` are behind the queue's end."""

    __slots__ = ("behind", "tickets")

    def __init__(self) -> None:
        self.tickets: dict[int, None] = {}
        self.behind = 0


class ParkedPulls:
    """The parked pulls by queue and filter: however many wait, an arrival is judged once for each different filter.

    A ticket is a number that is used once, and rises. ``start_ms`` is the time from which checks are counted.
    """

    def __init__(self, start_ms: int = 0, rules: PollingRules = LONG_POLLING) -> None:
        self.rules = rules
        self._start_ms = start_ms
        self._pulls: dict[int, ParkedPull] = {}
        self._by_queue: dict[MessageQueue, dict[MessageFilter, _Waiting]] = {}
        # Where somebody is behind, and when they are told.
        self._passed_over: dict[tuple[MessageQueue, MessageFilter], None] = {}
        self._check_at_ms = 0
        self._deadlines: list[tuple[int, int]] = []
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._pulls)

    def park(self, pull: ParkedPull, now_ms: int) -> int:
        """Parks a pull and gives its ticket. Raises TooManyRequests when too many wait already."""
        if len(self._pulls) >= PARKED_PULLS_MAX:
            raise TooManyRequests(f"{PARKED_PULLS_MAX} pulls are parked already; poll again later")
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        self._pulls[ticket] = pull
        for queue in pull.queues:
            by_filter = self._by_queue.setdefault(queue, {})
            by_filter.setdefault(pull.message_filter, _Waiting()).tickets[ticket] = None
        due_ms = max(self._check_after(pull.deadline_ms - 1), self._check_after(now_ms))
        heapq.heappush(self._deadlines, (due_ms if pull.on_grid else pull.deadline_ms, ticket))
        return ticket

    def _check_after(self, now_ms: int) -> int:
        """When the first check comes that is later than ``now_ms``."""
        check_ms = self.rules.check_ms
        return self._start_ms + ((now_ms - self._start_ms) // check_ms + 1) * check_ms

    def remove(self, ticket: int) -> None:
        """Forgets a pull, because it was answered or its caller went away. A ticket that is gone is no error."""
        pull = self._pulls.pop(ticket, None)
        if pull is None:
            return
        for queue in dict.fromkeys(pull.queues):
            by_filter = self._by_queue[queue]
            del by_filter[pull.message_filter].tickets[ticket]
            if not by_filter[pull.message_filter].tickets:
                del by_filter[pull.message_filter]
                self._passed_over.pop((queue, pull.message_filter), None)
            if not by_filter:
                del self._by_queue[queue]
        # Answered pulls leave the heap when they come up, or when they are most of it.
        if len(self._deadlines) > 2 * len(self._pulls) + 64:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._pulls]
            heapq.heapify(self._deadlines)

    def waits_for(self, queue: MessageQueue) -> bool:
        """Whether any parked pull would be interested in an arrival on ``queue``."""
        return queue in self._by_queue

    def arrived(self, queue: MessageQueue, arrivals: pa.RecordBatch, now_ms: int) -> list[int]:
        """Tickets of the pulls that messages arriving on ``queue`` wake: those whose filter one of them passes."""
        woken: list[int] = []
        for message_filter, waiting in self._by_queue.get(queue, {}).items():
            if self.rules.long_polling_enable and message_filter.matches_any(arrivals):
                woken += waiting.tickets
            else:
                waiting.behind = self._next_ticket
                if not self._passed_over:
                    self._check_at_ms = self._check_after(now_ms)
                self._passed_over[queue, message_filter] = None
        return woken

    def changed(self, queues: Iterable[MessageQueue], group: str | None = None) -> list[int]:
        """Tickets of the pulls, of ``group`` alone when it is named, that wait for a queue whose bounds changed, that
        is gone, or that the group was reset on.
        """
        return [
            ticket
            for queue in queues
            for waiting in self._by_queue.get(queue, {}).values()
            for ticket in waiting.tickets
            if group is None or self._pulls[ticket].group == group
        ]

    def queues_of(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that somebody waits for."""
        return [queue for queue in self._by_queue if queue.topic == topic]

    def due(self, now_ms: int) -> list[int]:
        """Tickets of the pulls whose time is over, and at a check also of those that are behind."""
        tickets = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, ticket = heapq.heappop(self._deadlines)
            if ticket in self._pulls:
                tickets.append(ticket)
        if self._passed_over and self._check_at_ms <= now_ms:
            for queue, message_filter in self._passed_over:
                waiting = self._by_queue[queue][message_filter]
                tickets += [ticket for ticket in waiting.tickets if ticket < waiting.behind]
            self._passed_over.clear()
        return tickets

    def next_due_ms(self) -> int | None:
        """When :meth:`due` is next worth asking; None while nothing waits."""
        while self._deadlines and self._deadlines[0][1] not in self._pulls:
            heapq.heappop(self._deadlines)
        if not self._deadlines:
            return None
        deadline_ms = self._deadlines[0][0]
        return min(deadline_ms, self._check_at_ms) if self._passed_over else deadline_ms

    def all(self) -> list[int]:
        """Tickets of every parked pull."""
        return list(self._pulls)
