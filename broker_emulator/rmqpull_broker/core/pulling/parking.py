"""Parked pulls: which pulls wait on which queues, until when, and what wakes them (rules 3.4, 6.1).

This module knows no clock and no tasks. The caller passes the time, gets a ticket for each parked pull, and runs again
the pulls whose tickets are returned.

A pull parks at the end of its queues, so it is behind as soon as a message arrives on one of them. When its filter
matches the message, the pull wakes at once. Otherwise it wakes at the next check, so that its client learns the offset
after these messages. There is a check every 5 s from the start of the broker.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filters.budget import ArrivalBudget
from rmqpull_broker.core.filters.message_filter import MessageFilter, TagFilter
from rmqpull_broker.core.messages.columns import from_rows
from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.shares import ANYBODY, Holder, Shares, find_most

PARKED_PULLS_MAX = 100_000
"""Parked pulls of a lone connection; see :mod:`rmqpull_broker.core.shares`."""
PARKED_PULLS_OF_ALL_MAX = find_most(PARKED_PULLS_MAX)
QUEUES_OF_A_PULL = 4
"""A pull that waits on more queues counts as several."""

_LONG_CHECK_MS = 5_000


@dataclass(frozen=True)
class PollingRules:
    """Two properties of Apache's broker.

    Without long polling, no arrival wakes a pull. There is a check every ``short_polling_time_mills``, and every pull
    parks that long, whatever it requests.
    """

    long_polling_enable: bool = True
    short_polling_time_mills: int = 1_000

    @property
    def check_ms(self) -> int:
        """Milliseconds between two checks."""
        return _LONG_CHECK_MS if self.long_polling_enable else self.short_polling_time_mills

    def timeout_ms(self, asked_ms: int) -> int:
        """Returns how long a pull that requests ``asked_ms`` parks."""
        return asked_ms if self.long_polling_enable else self.short_polling_time_mills


LONG_POLLING = PollingRules()


@dataclass(frozen=True, slots=True)
class ParkedPull:
    """A pull of a consumer group that found nothing at its offsets and waits until ``deadline_ms``.

    Apache's broker looks at timeouts only during checks and when a message arrives. ``on_grid`` is the same here: the
    pull wakes at the first check after its deadline, which is never before the next check, or at the first arrival
    after its deadline (rules 6.1). A change of its topic does not wake it.
    """

    queues: Sequence[MessageQueue]
    message_filter: MessageFilter
    deadline_ms: int
    on_grid: bool = False
    group: str = ""
    holder: Holder = ANYBODY


class Arrivals:
    """Messages that arrive on a queue: rows, which become columns if a filter needs them, or columns."""

    def __init__(self, rows: Sequence[StoredMessage] = (), batch: pa.RecordBatch | None = None) -> None:
        self._rows = rows
        self._batch = batch

    def __len__(self) -> int:
        return len(self._rows) if self._batch is None else int(self._batch.num_rows)

    def match(self, message_filter: MessageFilter) -> bool:
        """Whether any of the messages passes a filter."""
        if self._rows and isinstance(message_filter, TagFilter):
            return message_filter.matches_any_row(self._rows)
        if self._batch is None:
            self._batch = from_rows(self._rows)
        return message_filter.matches_any(self._batch)


class _SameFilter:
    """The pulls of one queue with the same filter, each with a number that grows with every pull that joins a queue.

    Those with numbers below ``behind`` are behind the queue's end.
    """

    __slots__ = ("behind", "first_deadline_ms", "tickets")

    def __init__(self) -> None:
        self.tickets: dict[int, int] = {}
        self.behind = 0
        self.first_deadline_ms = math.inf
        """No pull on the grid has an earlier deadline, so an arrival before it need not visit the pulls."""


def _count_as_pulls(queues: Sequence[MessageQueue]) -> int:
    return -(-len(queues) // QUEUES_OF_A_PULL)


class ParkedPulls:
    """The parked pulls by queue and filter. An arrival is matched once for each different filter, not for each pull.

    Tickets are ascending numbers that are never reused. Checks are counted from ``start_ms``.
    """

    def __init__(self, start_ms: int = 0, rules: PollingRules = LONG_POLLING) -> None:
        self.rules = rules
        self._start_ms = start_ms
        self._pulls: dict[int, ParkedPull] = {}
        self._further: dict[int, list[Sequence[MessageQueue]]] = {}
        self._shares = Shares(PARKED_PULLS_MAX)
        self._by_queue: dict[MessageQueue, dict[MessageFilter, _SameFilter]] = {}
        # Queues and filters with pulls that are behind, and the time of the check that wakes them.
        self._behind: dict[tuple[MessageQueue, MessageFilter], None] = {}
        self._check_at_ms = 0
        self._deadlines: list[tuple[int, int]] = []
        self._next_ticket = 0
        self._next_place = 0

    def __len__(self) -> int:
        return len(self._pulls)

    def park(self, pull: ParkedPull, now_ms: int) -> int:
        """Parks a pull and returns its ticket. Raises TooManyRequests when the share of its holder is used up."""
        self._take_share(pull.holder, pull.queues)
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        self._pulls[ticket] = pull
        self._add(ticket, pull, pull.queues)
        due_ms = max(self._find_check_after(pull.deadline_ms - 1), self._find_check_after(now_ms))
        heapq.heappush(self._deadlines, (due_ms if pull.on_grid else pull.deadline_ms, ticket))
        return ticket

    def extend(self, ticket: int, queues: Sequence[MessageQueue]) -> None:
        """Lets a parked pull also wait on more queues. Raises TooManyRequests."""
        pull = self._pulls[ticket]
        self._take_share(pull.holder, queues)
        self._further.setdefault(ticket, []).append(queues)
        self._add(ticket, pull, queues)

    def _take_share(self, holder: Holder, queues: Sequence[MessageQueue]) -> None:
        count = _count_as_pulls(queues)
        if not self._shares.allows(holder, count):
            raise TooManyRequests(f"too many pulls are parked: {self._shares.describe(holder)}; pull again later")
        self._shares.take(holder, count)

    def _add(self, ticket: int, pull: ParkedPull, queues: Sequence[MessageQueue]) -> None:
        self._next_place += 1
        for queue in queues:
            by_filter = self._by_queue.setdefault(queue, {})
            pulls = by_filter.setdefault(pull.message_filter, _SameFilter())
            pulls.tickets.setdefault(ticket, self._next_place)
            if pull.on_grid:
                pulls.first_deadline_ms = min(pulls.first_deadline_ms, pull.deadline_ms)

    def _find_check_after(self, now_ms: int) -> int:
        """Returns the time of the first check that is later than ``now_ms``."""
        check_ms = self.rules.check_ms
        return self._start_ms + ((now_ms - self._start_ms) // check_ms + 1) * check_ms

    def remove(self, ticket: int) -> bool:
        """Removes a pull that woke or whose caller left: some of its queues at a time, the last ones first.

        Returns whether queues are left; then call it again. Ignores an unknown ticket.
        """
        pull = self._pulls.get(ticket)
        if pull is None:
            return False
        if further := self._further.get(ticket):
            self._drop(ticket, pull, further.pop())
            return True
        self._further.pop(ticket, None)
        del self._pulls[ticket]
        self._drop(ticket, pull, pull.queues)
        # Removed pulls leave the heap when they reach its top, when they make up most of it, or when no pull is left.
        if len(self._deadlines) > 2 * len(self._pulls) + 64 or not self._pulls:
            self._deadlines = [entry for entry in self._deadlines if entry[1] in self._pulls]
            heapq.heapify(self._deadlines)
        if not self._pulls:
            self._pulls.clear()  # a dict keeps the memory of removed entries until it is cleared
        return False

    def _drop(self, ticket: int, pull: ParkedPull, queues: Sequence[MessageQueue]) -> None:
        self._shares.give_back(pull.holder, _count_as_pulls(queues))
        for queue in queues:
            by_filter = self._by_queue.get(queue, {})
            pulls = by_filter.get(pull.message_filter)
            if pulls is None or ticket not in pulls.tickets:
                continue  # a queue that the pull names twice
            del pulls.tickets[ticket]
            if not pulls.tickets:
                del by_filter[pull.message_filter]
                self._behind.pop((queue, pull.message_filter), None)
            if not by_filter:
                del self._by_queue[queue]

    def has_pulls_of(self, queue: MessageQueue) -> bool:
        """Whether a pull of this queue is parked."""
        return queue in self._by_queue

    def find_woken(self, queue: MessageQueue, arrivals: Arrivals, now_ms: int) -> list[int]:
        """Returns the tickets of the pulls to wake for messages arriving on ``queue``: those whose filter passes one,
        those that are overdue, and those that the budget does not allow to check. The others are behind now."""
        woken: list[int] = []
        budget = ArrivalBudget()
        for message_filter, pulls in self._by_queue.get(queue, {}).items():
            if self.rules.long_polling_enable and (
                not budget.take(message_filter, len(arrivals)) or arrivals.match(message_filter)
            ):
                woken += pulls.tickets
            else:
                if self.rules.long_polling_enable and pulls.first_deadline_ms <= now_ms:
                    woken += self._take_overdue(pulls, now_ms)
                pulls.behind = self._next_place + 1
                if not self._behind:
                    self._check_at_ms = self._find_check_after(now_ms)
                self._behind[queue, message_filter] = None
        return woken

    def _take_overdue(self, pulls: _SameFilter, now_ms: int) -> list[int]:
        """Returns the tickets of the pulls on the grid whose deadline has passed."""
        deadlines = {ticket: self._pulls[ticket].deadline_ms for ticket in pulls.tickets if self._pulls[ticket].on_grid}
        over = [ticket for ticket, deadline_ms in deadlines.items() if deadline_ms <= now_ms]
        left = (deadline_ms for deadline_ms in deadlines.values() if deadline_ms > now_ms)
        pulls.first_deadline_ms = min(left, default=math.inf)
        return over

    def list_pulls_of(
        self, queues: Iterable[MessageQueue], group: str | None = None, *, with_on_grid: bool = True
    ) -> list[int]:
        """Returns the tickets of all pulls of these queues, of one group or of all groups, the newest first.

        Only one pull gets a reset. After a rebalance, the newest one is that of the consumer that now has the queue.
        """
        found = (
            ticket
            for queue in queues
            for pulls in self._by_queue.get(queue, {}).values()
            for ticket in pulls.tickets
            if (group is None or self._pulls[ticket].group == group)
            and (with_on_grid or not self._pulls[ticket].on_grid)
        )
        return sorted(found, reverse=True)

    def list_queues(self, topic: str) -> list[MessageQueue]:
        """Returns the queues of a topic that have parked pulls."""
        return [queue for queue in self._by_queue if queue.topic == topic]

    def take_due(self, now_ms: int) -> list[int]:
        """Returns the tickets of the pulls whose deadline has passed, and at a check also of those that are behind."""
        tickets = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, ticket = heapq.heappop(self._deadlines)
            if ticket in self._pulls:
                tickets.append(ticket)
        if self._behind and self._check_at_ms <= now_ms:
            for queue, message_filter in self._behind:
                pulls = self._by_queue[queue][message_filter]
                tickets += [ticket for ticket, place in pulls.tickets.items() if place < pulls.behind]
            self._behind.clear()
        return tickets

    def next_due_ms(self) -> int | None:
        """Returns when to call :meth:`take_due` next; None while no pull is parked."""
        while self._deadlines and self._deadlines[0][1] not in self._pulls:
            heapq.heappop(self._deadlines)
        if not self._deadlines:
            return None
        deadline_ms = self._deadlines[0][0]
        return min(deadline_ms, self._check_at_ms) if self._behind else deadline_ms

    def list_all(self) -> list[int]:
        """Returns the tickets of all parked pulls."""
        return list(self._pulls)
