"""Messages of system queues that wait: delayed ones for their time, half ones for their producer's word."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from rmqpull_broker.core import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.ports import MessageStore
from rmqpull_broker.core.properties import BrokerProperties

DUE_MS = "TIMER_OUT_MS"
"""The system property in which a delayed message carries the time at which it is due."""
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PENDING_MAX = 1_000_000
"""Messages that may wait at one time in all queues of one kind; further ones are refused."""


def due_ms_of(message: Message) -> int:
    """When a delayed message is due, as it was written when it was stored."""
    return int(message.system_properties[DUE_MS])


def next_check_ms(properties: BrokerProperties, stored: StoredMessage) -> int:
    """From when on a half message's producer may be asked: when its immunity is over, and after a check at the next
    look (rocketmq-semantics 3.15).
    """
    message = stored.message
    if CHECK_TIMES in message.system_properties:
        return stored.store_timestamp_ms + properties.transaction_check_interval
    seconds = message.system_properties.get(IMMUNITY)
    immunity_ms = properties.transaction_time_out if seconds is None else immunity_seconds(seconds) * 1000
    return message.born_timestamp_ms + immunity_ms


def immunity_seconds(text: str) -> int:
    """CHECK_IMMUNITY_TIME_IN_SECONDS; what is no number counts as none."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


class Place(NamedTuple):
    """Where a message is stored."""

    queue: MessageQueue
    queue_offset: int


class Waiting(NamedTuple):
    """A message that waits: where it is stored, from when on it is due, and its id."""

    place: Place
    due_ms: int
    msg_id: str


def read_waiting(store: MessageStore, places: Sequence[Place]) -> list[StoredMessage]:
    """Waiting messages as they were stored, in the order of ``places``."""
    slices = (store.read(queue, offset, offset + 1) for queue, offset in places)
    return columns.to_rows(itertools.chain.from_iterable(slices))


class PendingMessages:
    """Waiting messages of one kind, in the order in which they fall due. Part of the broker's state."""

    def __init__(self) -> None:
        self._waiting: dict[Place, Waiting] = {}
        self._by_id: dict[str, dict[Place, None]] = {}
        # Insertion order within one time is the order in which they were stored.
        self._by_due: dict[int, dict[Place, None]] = {}
        self._dues: list[int] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, place: Place) -> bool:
        return place in self._waiting

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._waiting.values())

    def add(self, waiting: Waiting) -> None:
        """Takes in a message that was stored, or a new due time of one that waits already."""
        self.settle([waiting.place])
        self._waiting[waiting.place] = waiting
        self._by_id.setdefault(waiting.msg_id, {})[waiting.place] = None
        if waiting.due_ms not in self._by_due:
            bisect.insort(self._dues, waiting.due_ms)
            self._by_due[waiting.due_ms] = {}
        self._by_due[waiting.due_ms][waiting.place] = None

    def settle(self, places: Iterable[Place]) -> None:
        """Forgets messages that need nothing more. One that is not known is no error."""
        for place in places:
            waiting = self._waiting.pop(place, None)
            if waiting is not None:
                self._forget(waiting)

    def _forget(self, waiting: Waiting) -> None:
        alike = self._by_id[waiting.msg_id]
        del alike[waiting.place]
        if not alike:
            del self._by_id[waiting.msg_id]
        together = self._by_due[waiting.due_ms]
        del together[waiting.place]
        if not together:
            del self._by_due[waiting.due_ms]
            self._dues.pop(bisect.bisect_left(self._dues, waiting.due_ms))

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets what retention has deleted."""
        self.settle([place for place in self._waiting if place.queue == queue and place.queue_offset < min_offset])

    def before(self, queue: MessageQueue, min_offset: int) -> list[Waiting]:
        """What waits in ``queue`` before an offset, in the order in which it was stored."""
        found = (entry for place, entry in self._waiting.items() if place.queue == queue)
        return sorted(entry for entry in found if entry.place.queue_offset < min_offset)

    def of_message(self, msg_id: str) -> list[Waiting]:
        """The waiting messages with this id, oldest first."""
        return [self._waiting[place] for place in self._by_id.get(msg_id, ())]

    def due(self, now_ms: int, limit: int) -> list[Waiting]:
        """At most ``limit`` messages that are due at ``now_ms``, by their time and then as they were stored."""
        times = itertools.takewhile(lambda due_ms: due_ms <= now_ms, self._dues)
        places = itertools.chain.from_iterable(self._by_due[due_ms] for due_ms in times)
        return [self._waiting[place] for place in itertools.islice(places, limit)]

    def next_due_ms(self) -> int | None:
        """When :meth:`due` next has something; None while nothing waits."""
        return self._dues[0] if self._dues else None
