"""Messages of system queues that wait: delayed ones for their time, half ones for their producer's word."""

from __future__ import annotations

import bisect
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.facts import StillWaiting
from rmqpull_broker.core.state.ports import MessageStore

DUE_MS = "TIMER_OUT_MS"
"""The system property in which a delayed message carries the time at which it is due."""
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PENDING_MAX = 1_000_000
"""Messages that may wait at one time in all queues of one kind; further ones are refused."""


def read_due_ms(message: Message) -> int:
    """When a delayed message is due, as it was written when it was stored."""
    return int(message.system_properties[DUE_MS])


def find_next_check_ms(properties: BrokerProperties, stored: StoredMessage) -> int:
    """From when on a half message's producer may be asked: when its immunity is over, and after a check at the next
    look (rules 3.15).
    """
    message = stored.message
    if CHECK_TIMES in message.system_properties:
        return stored.store_timestamp_ms + properties.transaction_check_interval
    seconds = message.system_properties.get(IMMUNITY)
    immunity_ms = properties.transaction_time_out if seconds is None else parse_immunity_seconds(seconds) * 1000
    return message.born_timestamp_ms + immunity_ms


def parse_immunity_seconds(text: str) -> int:
    """CHECK_IMMUNITY_TIME_IN_SECONDS; what is no number counts as none."""
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else 0


class StoredAt(NamedTuple):
    """Where a message is stored."""

    queue: MessageQueue
    queue_offset: int


class PendingMessage(NamedTuple):
    """A message that waits: where it is stored, from when on it is due, and its id."""

    stored_at: StoredAt
    due_ms: int
    msg_id: str


class DelayedMessage(NamedTuple):
    """A delayed message: where it waits, and from when on it is due."""

    stored_at: StoredAt
    due_ms: int


_READ_BYTES_MAX = 4 << 20
"""About how many bytes of waiting messages one command reads, but for one message."""
_FIRST_READ = 16
_GAP_MAX = 1_024
_ROW_BYTES = 512


def read_waiting(
    store: MessageStore, places: Sequence[StoredAt], byte_budget: int = _READ_BYTES_MAX
) -> list[StoredMessage]:
    """Waiting messages as they were stored, in the order of ``places``.

    They are the first of these, at least one, as many as fit in about ``byte_budget`` bytes.
    """
    rows: list[StoredMessage] = []
    byte_count, count = 0, _FIRST_READ
    while len(rows) < len(places):
        for row in _read_rows(store, places[len(rows) : len(rows) + count]):
            rows.append(row)
            byte_count += estimate_stored_bytes(row)
            if byte_count >= byte_budget:
                return rows
        count = max(1, (byte_budget - byte_count) * len(rows) // byte_count)
    return rows


def estimate_stored_bytes(stored: StoredMessage) -> int:
    """About how many bytes of the log a message takes."""
    message = stored.message
    named = (*message.properties.items(), *message.system_properties.items())
    return _ROW_BYTES + len(message.body) + sum(len(name) + len(value) for name, value in named)


def _read_rows(store: MessageStore, places: Sequence[StoredAt]) -> list[StoredMessage]:
    """Reads each stretch of a queue once: rows that lie near each other are mostly in one chunk."""
    found: dict[StoredAt, StoredMessage] = {}
    near: list[StoredAt] = []
    for place in (*sorted(places), None):
        if near and (place is None or place.queue != near[0].queue or place.queue_offset - near[-1][1] > _GAP_MAX):
            found.update(zip(near, columns.to_rows(_taken(store, near)), strict=True))
            near = []
        if place is not None:
            near.append(place)
    return [found[place] for place in places]


def _taken(store: MessageStore, places: Sequence[StoredAt]) -> Iterator[pa.RecordBatch]:
    """The rows of places in one queue, which are in order."""
    offsets = [place.queue_offset for place in places]
    begin = offsets[0]
    for rows in store.read(places[0].queue, begin, offsets[-1] + 1):
        end = begin + rows.num_rows
        yield rows.take(pa.array([offset - begin for offset in offsets if begin <= offset < end], pa.int64()))
        begin = end


class PendingMessages:
    """Half messages by their ids, and in the order in which they fall due. Part of the broker's state."""

    def __init__(self) -> None:
        self._waiting: dict[StoredAt, PendingMessage] = {}
        self._by_id: dict[str, dict[StoredAt, None]] = {}
        # Insertion order within one time is the order in which they were stored.
        self._by_due: dict[int, dict[StoredAt, None]] = {}
        self._dues: list[int] = []

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, waiting: PendingMessage) -> bool:
        return waiting.stored_at in self._waiting

    def __iter__(self) -> Iterator[PendingMessage]:
        return iter(self._waiting.values())

    def add(self, waiting: PendingMessage) -> None:
        """Takes in a message that was stored, or a new due time of one that waits already."""
        self._settle(waiting.stored_at)
        self._waiting[waiting.stored_at] = waiting
        self._by_id.setdefault(waiting.msg_id, {})[waiting.stored_at] = None
        if waiting.due_ms not in self._by_due:
            bisect.insort(self._dues, waiting.due_ms)
            self._by_due[waiting.due_ms] = {}
        self._by_due[waiting.due_ms][waiting.stored_at] = None

    def settle(self, queue: MessageQueue, queue_offsets: Iterable[int], due_ms: Sequence[int] = ()) -> None:
        """Forgets messages that need nothing more. One that is not known is no error."""
        for offset in queue_offsets:
            self._settle(StoredAt(queue, offset))

    def _settle(self, place: StoredAt) -> None:
        waiting = self._waiting.pop(place, None)
        if waiting is not None:
            self._forget(waiting)

    def _forget(self, waiting: PendingMessage) -> None:
        alike = self._by_id[waiting.msg_id]
        del alike[waiting.stored_at]
        if not alike:
            del self._by_id[waiting.msg_id]
        together = self._by_due[waiting.due_ms]
        del together[waiting.stored_at]
        if not together:
            del self._by_due[waiting.due_ms]
            self._dues.pop(bisect.bisect_left(self._dues, waiting.due_ms))

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets what retention has deleted."""
        self.settle(queue, [waiting.stored_at.queue_offset for waiting in self._before(queue, min_offset)])

    def before(self, queue: MessageQueue, min_offset: int) -> Iterator[list[PendingMessage]]:
        """What waits in ``queue`` before an offset, in the order in which it was stored."""
        yield self._before(queue, min_offset)

    def _before(self, queue: MessageQueue, min_offset: int) -> list[PendingMessage]:
        found = (entry for place, entry in self._waiting.items() if place.queue == queue)
        return sorted(entry for entry in found if entry.stored_at.queue_offset < min_offset)

    def of_message(self, msg_id: str) -> list[PendingMessage]:
        """The waiting messages with this id, oldest first."""
        return [self._waiting[place] for place in self._by_id.get(msg_id, ())]

    def due(self, now_ms: int, limit: int) -> list[PendingMessage]:
        """At most ``limit`` messages that are due at ``now_ms``, by their time and then as they were stored."""
        times = itertools.takewhile(lambda due_ms: due_ms <= now_ms, self._dues)
        places = itertools.chain.from_iterable(self._by_due[due_ms] for due_ms in times)
        return [self._waiting[place] for place in itertools.islice(places, limit)]

    def next_due_ms(self) -> int | None:
        """When :meth:`due` next has something; None while nothing waits."""
        return self._dues[0] if self._dues else None

    def to_facts(self) -> list[StillWaiting]:
        """What a snapshot says of them."""
        entries: dict[MessageQueue, list[tuple[int, int, str]]] = {}
        for (queue, offset), due_ms, msg_id in self:
            entries.setdefault(queue, []).append((offset, due_ms, msg_id))
        return [StillWaiting(queue, tuple(of_queue)) for queue, of_queue in entries.items()]
