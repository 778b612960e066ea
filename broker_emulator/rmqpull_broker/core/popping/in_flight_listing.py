"""Lists messages in flight for people, together with the stored messages (rules 3.17)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.core.model import StoredMessage
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.in_flight import InFlight
from rmqpull_broker.core.state.names import is_among
from rmqpull_broker.core.state.queue_table import GroupQueue
from rmqpull_broker.core.state.waiting_messages import StoredAt, read_waiting

LISTED_MAX = 1_000
"""Messages that one listing returns; fewer if they are large, because it reads a few megabytes at most."""


@dataclass(frozen=True)
class InFlightQuery:
    """Which messages to list. Empty collections and None stand for all.

    A topic includes the retries of its messages.
    """

    groups: Collection[str] = ()
    topics: Collection[str] = ()
    broker_name: str | None = None
    queue_id: int | None = None

    def matches(self, key: GroupQueue) -> bool:
        """Whether to list the messages of a queue that are in flight for a group."""
        group, queue = key
        return (
            (not self.groups or group in self.groups)
            and self.broker_name in (None, queue.broker_name)
            and self.queue_id in (None, queue.queue_id)
            and is_among(queue.topic, group, self.topics)
        )


class ListedMessage(NamedTuple):
    """One message in flight, the stored message, and the number of its deliveries to the group."""

    in_flight: InFlight
    stored: StoredMessage
    attempt: int


class Listing(NamedTuple):
    """The first messages that match a query, and how many match."""

    messages: Sequence[ListedMessage]
    total: int


def list_in_flight(state: BrokerState, query: InFlightQuery, limit: int = LISTED_MAX) -> Listing:
    """Lists messages in flight by group and queue, those of a queue by the time of their delivery."""
    keys = [key for key in state.popped.list_queues() if query.matches(key)]
    flights = (flight for key in keys for flight in state.popped.list_in_flight(*key))
    first = list(itertools.islice(flights, max(0, min(limit, LISTED_MAX))))
    return Listing(list(_read(state, first)), sum(state.popped.count(*key) for key in keys))


def _read(state: BrokerState, flights: Sequence[InFlight]) -> Iterator[ListedMessage]:
    """Yields as many messages as one command may read, at least one."""
    rows = read_waiting(state.store, [StoredAt(each.queue, each.queue_offset) for each in flights]) if flights else ()
    for each, stored in zip(flights, rows, strict=False):
        yield ListedMessage(each, stored, _count_attempts(state, each, stored))


def _count_attempts(state: BrokerState, flight: InFlight, stored: StoredMessage) -> int:
    """Counts the deliveries of a message: those before it was stored again as a retry, and ordered ones."""
    batch = state.popped.find_in_order(flight.group, flight.queue)
    in_order = 0
    if batch is not None and batch.pop_time_ms == flight.pop_time_ms:
        in_order = dict(zip(batch.offsets, batch.consumed_times, strict=False)).get(flight.queue_offset, 0)
    return stored.reconsume_times + in_order + 1
