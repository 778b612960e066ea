"""Pops that wait for messages. Each message that arrives wakes one pop of each group (rules 3.17).

A parked pull has its own offset, so every arrival concerns it. The pops of a group share one offset, and only one of
them gets a message. This module knows no clock and no tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.request import ALL_QUEUES, PopRequest
from rmqpull_broker.core.pulling.parking import Arrivals
from rmqpull_broker.core.shares import ANYBODY, Holder, Shares

WAITING_POPS_MAX = 100_000
"""Waiting pops of a lone connection (maxPopPollingSize); see :mod:`rmqpull_broker.core.shares`."""
WAITING_POPS_OF_GROUP_MAX = 10_000
"""Waiting pops of a group, for one topic on one broker. Apache's broker has popPollingSize 1,024 for each queue."""


class _Place(NamedTuple):
    topic: str
    broker_name: str


class WaitingPops:
    """The waiting pops by topic and group, in order of arrival. Tickets are never reused."""

    def __init__(self) -> None:
        self._pops: dict[int, PopRequest] = {}
        self._holders: dict[int, Holder] = {}
        self._shares = Shares(WAITING_POPS_MAX)
        self._by_place: dict[_Place, dict[str, dict[int, PopRequest]]] = {}
        self._next_ticket = 0

    def __len__(self) -> int:
        return len(self._pops)

    def add(self, request: PopRequest, holder: Holder = ANYBODY) -> int:
        """Adds a pop and returns its ticket. Raises TooManyRequests if too many of its group are waiting already, or if
        the share of its holder is used up."""
        of_group = self._find(_Place(request.topic, request.broker_name), request.group)
        if not self._shares.allows(holder) or len(of_group) >= WAITING_POPS_OF_GROUP_MAX:
            raise TooManyRequests("polling full")
        ticket, self._next_ticket = self._next_ticket, self._next_ticket + 1
        self._pops[ticket] = request
        self._holders[ticket] = holder
        self._shares.take(holder)
        by_group = self._by_place.setdefault(_Place(request.topic, request.broker_name), {})
        by_group.setdefault(request.group, {})[ticket] = request
        return ticket

    def remove(self, ticket: int) -> None:
        """Removes a pop that was woken, or whose caller left. Ignores an unknown ticket."""
        request = self._pops.pop(ticket, None)
        if request is None:
            return
        self._shares.give_back(self._holders.pop(ticket))
        by_group = self._by_place[_Place(request.topic, request.broker_name)]
        del by_group[request.group][ticket]
        if not by_group[request.group]:
            del by_group[request.group]
        if not by_group:
            del self._by_place[_Place(request.topic, request.broker_name)]

    def _find(self, place: _Place, group: str) -> dict[int, PopRequest]:
        return self._by_place.get(place, {}).get(group, {})

    def count(self, topic: str, broker_name: str, group: str, queue_id: int) -> int:
        """Returns how many waiting pops of a group name this queue id; -1 counts those of all queues."""
        of_group = self._find(_Place(topic, broker_name), group)
        return sum(pop.queue_id == queue_id for pop in of_group.values())

    def has_pops_of(self, queue: MessageQueue) -> bool:
        """Whether a pop waits for messages of a queue."""
        return _Place(queue.topic, queue.broker_name) in self._by_place

    def take_woken(self, queue: MessageQueue, arrivals: Arrivals, count: int) -> list[int]:
        """Removes the pops that wake for ``count`` messages of a queue, and returns their tickets.

        In each group, these are the oldest whose filter passes any of the messages.
        """
        place = _Place(queue.topic, queue.broker_name)
        woken = []
        for of_group in self._by_place.get(place, {}).values():
            waits = (ticket for ticket, pop in of_group.items() if pop.queue_id in (ALL_QUEUES, queue.queue_id))
            left, verdicts = count, dict[object, bool]()
            for ticket in waits:
                message_filter = of_group[ticket].message_filter
                if message_filter not in verdicts:
                    verdicts[message_filter] = arrivals.match(message_filter)
                if verdicts[message_filter]:
                    woken.append(ticket)
                    left -= 1
                    if not left:
                        break
        return self._take(woken)

    def take_oldest(self, topic: str, broker_name: str, group: str, queue_id: int = ALL_QUEUES) -> list[int]:
        """Removes the oldest pop of a group that may get a message of a queue, and returns its ticket, if there is one.

        For ALL_QUEUES, pops of single queues that are older than the oldest pop of all queues are taken too.
        """
        taken = []
        for ticket, pop in self._find(_Place(topic, broker_name), group).items():
            if queue_id in (ALL_QUEUES, pop.queue_id) or pop.queue_id == ALL_QUEUES:
                taken.append(ticket)
                if queue_id != ALL_QUEUES or pop.queue_id == ALL_QUEUES:
                    break
        return self._take(taken)

    def take_all_of(self, topics: Iterable[str], group: str | None = None) -> list[int]:
        """Removes all pops of topics, of one group or of all groups, and returns their tickets."""
        names = frozenset(topics)
        return self._take(
            [
                ticket
                for place, by_group in self._by_place.items()
                if place.topic in names
                for name, of_group in by_group.items()
                if group in (None, name)
                for ticket in of_group
            ]
        )

    def _take(self, tickets: Sequence[int]) -> list[int]:
        for ticket in tickets:
            self.remove(ticket)
        return list(tickets)
