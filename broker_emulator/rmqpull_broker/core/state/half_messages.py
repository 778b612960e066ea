"""Half messages that wait for COMMIT or ROLLBACK, and when the broker asks their producers (rules 3.15)."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence

from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.facts import StillWaiting
from rmqpull_broker.core.state.lengths import UNKNOWN_LENGTH, find_check_length_ms
from rmqpull_broker.core.state.waiting_messages import PendingMessage, StoredAt
from rmqpull_proto.remoting import properties as names


def find_next_check_ms(properties: BrokerProperties, stored: StoredMessage) -> int:
    """Returns the earliest time of a half message's next check (rules 3.15).

    The first check comes when the immunity has passed, each further one after ``transactionCheckInterval``.
    """
    message = stored.message
    if names.TRANSACTION_CHECK_TIMES in message.system_properties:
        return stored.store_timestamp_ms + find_check_length_ms(properties, message)
    return message.born_timestamp_ms + find_check_length_ms(properties, message)


def keep_due_times(
    queue: MessageQueue, rows: Sequence[StoredMessage], due_times: Iterable[int], lengths: Iterable[int]
) -> StillWaiting:
    """Returns the fact that half messages stored now have other due times than their rows imply."""
    pairs = zip(rows, due_times, lengths, strict=True)
    return StillWaiting(queue, tuple((row.queue_offset, due, row.message.msg_id, length) for row, due, length in pairs))


class HalfMessages:
    """Half messages by id and by due time. Part of the broker's state."""

    def __init__(self) -> None:
        self._messages: dict[StoredAt, PendingMessage] = {}
        self._by_id: dict[str, dict[StoredAt, None]] = {}
        # Messages with the same due time are in the order in which they were stored.
        self._by_due: dict[int, dict[StoredAt, None]] = {}
        self._due_times: list[int] = []
        self.newest_begin_ms = 0
        """When the last of all messages began to wait, or later."""

    def __len__(self) -> int:
        return len(self._messages)

    def __contains__(self, message: PendingMessage) -> bool:
        return message.stored_at in self._messages

    def __iter__(self) -> Iterator[PendingMessage]:
        return iter(self._messages.values())

    def add(self, message: PendingMessage) -> None:
        """Adds a stored message, or changes the due time of one that is already waiting and keeps its age."""
        known = self._messages.get(message.stored_at)
        if known is not None:
            self._remove_due(known)
        self._messages[message.stored_at] = message
        self.newest_begin_ms = max(self.newest_begin_ms, message.begin_ms)
        self._by_id.setdefault(message.msg_id, {})[message.stored_at] = None
        if message.due_ms not in self._by_due:
            bisect.insort(self._due_times, message.due_ms)
            self._by_due[message.due_ms] = {}
        self._by_due[message.due_ms][message.stored_at] = None

    def remove(self, queue: MessageQueue, queue_offsets: Iterable[int], due_ms: Sequence[int] = ()) -> None:
        """Removes messages that no longer wait. Ignores unknown ones."""
        for offset in queue_offsets:
            self._remove(StoredAt(queue, offset))

    def _remove(self, stored_at: StoredAt) -> None:
        message = self._messages.pop(stored_at, None)
        if message is None:
            return
        same_id = self._by_id[message.msg_id]
        del same_id[stored_at]
        if not same_id:
            del self._by_id[message.msg_id]
        self._remove_due(message)

    def _remove_due(self, message: PendingMessage) -> None:
        same_due = self._by_due[message.due_ms]
        del same_due[message.stored_at]
        if not same_due:
            del self._by_due[message.due_ms]
            self._due_times.pop(bisect.bisect_left(self._due_times, message.due_ms))

    def read_clock(self, time_ms: int, read_lengths: Callable[[MessageQueue, Sequence[int]], dict[int, int]]) -> None:
        """Counts from ``time_ms`` all waits that began after it. Reads lengths that older releases did not keep."""
        for message in [message for message in self if message.due_ms > time_ms]:
            (queue, offset), length_ms = message.stored_at, message.length_ms
            if length_ms == UNKNOWN_LENGTH:
                length_ms = read_lengths(queue, [offset])[offset]
            self.add(message._replace(due_ms=min(message.due_ms, time_ms + length_ms), length_ms=length_ms))
        self.newest_begin_ms = min(self.newest_begin_ms, time_ms)

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Removes the messages that retention has deleted."""
        self.remove(queue, [message.stored_at.queue_offset for message in self._find_before(queue, min_offset)])

    def list_before(self, queue: MessageQueue, min_offset: int) -> Iterator[list[PendingMessage]]:
        """Yields the messages of ``queue`` that wait before an offset, in offset order, in one list."""
        yield self._find_before(queue, min_offset)

    def _find_before(self, queue: MessageQueue, min_offset: int) -> list[PendingMessage]:
        found = (message for stored_at, message in self._messages.items() if stored_at.queue == queue)
        return sorted(message for message in found if message.stored_at.queue_offset < min_offset)

    def find_by_id(self, msg_id: str) -> list[PendingMessage]:
        """Returns the waiting messages with this id, oldest first."""
        return [self._messages[stored_at] for stored_at in self._by_id.get(msg_id, ())]

    def list_due(self, now_ms: int, limit: int) -> list[PendingMessage]:
        """Returns at most ``limit`` messages that are due at ``now_ms``, by due time and then in stored order."""
        times = itertools.takewhile(lambda due_ms: due_ms <= now_ms, self._due_times)
        due = itertools.chain.from_iterable(self._by_due[due_ms] for due_ms in times)
        return [self._messages[stored_at] for stored_at in itertools.islice(due, limit)]

    def next_due_ms(self) -> int | None:
        """Returns the earliest due time; None while no message waits."""
        return self._due_times[0] if self._due_times else None

    def to_facts(self) -> list[StillWaiting]:
        """Returns the facts with which a snapshot describes the messages."""
        entries: dict[MessageQueue, list[tuple[int, int, str, int]]] = {}
        for (queue, offset), due_ms, msg_id, length_ms in self:
            entries.setdefault(queue, []).append((offset, due_ms, msg_id, length_ms))
        return [StillWaiting(queue, tuple(of_queue)) for queue, of_queue in entries.items()]
