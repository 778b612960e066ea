"""Delayed messages: the due times, four numbers for each message.

The messages themselves wait in system queues, which ``sending.delays`` chooses, so the commit log keeps them. A
snapshot has these numbers as facts of the kind ``StillDelayed``.
"""

from __future__ import annotations

import bisect
import hashlib
import heapq
import itertools
import operator
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import StillDelayed
from rmqpull_broker.core.state.lengths import NO_LENGTH, UNKNOWN_LENGTH
from rmqpull_broker.core.state.waiting_messages import DelayedMessage, PendingMessage, StoredAt

ReadLengths = Callable[[MessageQueue, Sequence[int]], dict[int, int]]
"""Reads how long messages of a queue wait, given their offsets."""
_BLOCK_MAX = 1_024
"""The most messages of a block. An insertion moves half of them on average."""
_OBJECTS_MAX = 1_000
"""Messages for which objects are made at a time."""


def hash_id(msg_id: str) -> int:
    """Returns a signed 64-bit hash of a message id, the same in every process."""
    return int.from_bytes(hashlib.blake2b(msg_id.encode(), digest_size=8).digest(), "little", signed=True)


class _Block:
    """Some messages of one queue in columns, sorted by due time and then offset."""

    __slots__ = ("due_times", "hashes", "lengths", "offsets")

    def __init__(self, due_times: array[int], offsets: array[int], hashes: array[int], lengths: array[int]) -> None:
        self.due_times = due_times
        self.offsets = offsets
        self.hashes = hashes
        self.lengths = lengths

    @property
    def last(self) -> tuple[int, int]:
        return self.due_times[-1], self.offsets[-1]

    def find(self, due_ms: int, offset: int) -> int:
        """Returns the index of a message, or the index at which to insert it."""
        low = bisect.bisect_left(self.due_times, due_ms)
        return bisect.bisect_left(self.offsets, offset, low, bisect.bisect_right(self.due_times, due_ms, low))

    def insert(self, index: int, *entry: int) -> None:
        for column, number in zip(self.columns, entry, strict=True):
            column.insert(index, number)

    def delete(self, index: int) -> None:
        for column in self.columns:
            del column[index]

    @property
    def columns(self) -> tuple[array[int], array[int], array[int], array[int]]:
        return self.due_times, self.offsets, self.hashes, self.lengths

    def split(self) -> _Block:
        """Removes the second half of the block and returns it."""
        half = len(self.due_times) // 2
        other = _Block(*(column[half:] for column in self.columns))
        for column in self.columns:
            del column[half:]
        return other


class Timetable:
    """The delayed messages of one queue, sorted by due time and then offset."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lasts: list[tuple[int, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def _find(self, due_ms: int, offset: int) -> tuple[int, int]:
        """Returns the block of a message and its index in the block, existing or not. The block may not exist yet."""
        number = bisect.bisect_left(self._lasts, (due_ms, offset))
        return number, self._blocks[number].find(due_ms, offset) if number < len(self._blocks) else 0

    def _is_at(self, number: int, index: int, due_ms: int, offset: int) -> bool:
        if number == len(self._blocks):
            return False
        block = self._blocks[number]
        return (block.due_times[index], block.offsets[index]) == (due_ms, offset)

    def has(self, due_ms: int, offset: int) -> bool:
        """Whether the message waits."""
        return self._is_at(*self._find(due_ms, offset), due_ms, offset)

    def add(self, due_ms: int, offset: int, id_hash: int, length_ms: int = NO_LENGTH) -> None:
        """Adds a message. Ignores one that is already waiting."""
        number, index = self._find(due_ms, offset)
        if self._is_at(number, index, due_ms, offset):
            return
        if number == len(self._blocks):
            if not number or len(self._blocks[-1].due_times) == _BLOCK_MAX:
                self._blocks.append(_Block(*_make_columns()))
                self._lasts.append((due_ms, offset))
            else:
                number, index = number - 1, len(self._blocks[-1].due_times)
        block = self._blocks[number]
        block.insert(index, due_ms, offset, id_hash, length_ms)
        if len(block.due_times) > _BLOCK_MAX:
            self._blocks.insert(number + 1, block.split())
            self._lasts.insert(number + 1, self._blocks[number + 1].last)
        self._lasts[number] = block.last
        self._count += 1

    def remove(self, due_ms: int, offset: int) -> bool:
        """Removes a message. Returns False if it does not wait until that time."""
        number, index = self._find(due_ms, offset)
        if not self._is_at(number, index, due_ms, offset):
            return False
        block = self._blocks[number]
        block.delete(index)
        if block.due_times:
            self._lasts[number] = block.last
        else:
            del self._blocks[number], self._lasts[number]
        self._count -= 1
        return True

    def find_due_times(self, offsets: Iterable[int]) -> list[tuple[int, int]]:
        """Returns (due time, offset) of those of these messages that wait. Visits every message of the queue."""
        wanted, found = set(offsets), list[tuple[int, int]]()
        for block in self._blocks:
            if wanted.isdisjoint(block.offsets):
                continue
            found += [pair for pair in zip(block.due_times, block.offsets, strict=True) if pair[1] in wanted]
            if len(found) == len(wanted):
                break
        return found

    def find_by_hash(self, due_ms: int, id_hash: int) -> list[int]:
        """Returns the offsets of the messages that are due at that time and whose ids have this hash."""
        found = []
        for block in self._blocks[bisect.bisect_left(self._lasts, (due_ms, -1)) :]:
            low = bisect.bisect_left(block.due_times, due_ms)
            high = bisect.bisect_right(block.due_times, due_ms, low)
            found += [block.offsets[index] for index in range(low, high) if block.hashes[index] == id_hash]
            if high < len(block.due_times):
                break
        return found

    def list_until(self, due_ms: int) -> Iterator[tuple[int, int]]:
        """Yields (due time, offset) of the messages that are due until then, in order."""
        for block in self._blocks:
            high = bisect.bisect_right(block.due_times, due_ms)
            yield from zip(block.due_times[:high], block.offsets[:high], strict=True)
            if high < len(block.due_times):
                break

    def next_due_ms(self) -> int:
        """Returns the earliest due time."""
        return self._blocks[0].due_times[0]

    def to_columns(self) -> tuple[array[int], array[int], array[int], array[int]]:
        """Returns the due times, offsets, hashes and lengths of all messages, in order."""
        columns = _make_columns()
        for block in self._blocks:
            for whole, part in zip(columns, block.columns, strict=True):
                whole.extend(part)
        return columns


def _make_columns() -> tuple[array[int], array[int], array[int], array[int]]:
    return array("q"), array("q"), array("q"), array("q")


class DelayedMessages:
    """The delayed messages of all queues, in the order in which they are due. Part of the broker's state."""

    def __init__(self) -> None:
        self._queues: dict[MessageQueue, Timetable] = {}
        self.newest_begin_ms = 0
        """When the last delay that has a length began, or later."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __contains__(self, delayed: DelayedMessage) -> bool:
        queue, offset = delayed.stored_at
        return queue in self._queues and self._queues[queue].has(delayed.due_ms, offset)

    def __iter__(self) -> Iterator[DelayedMessage]:
        for queue, timetable in self._queues.items():
            due_times, offsets, _, _ = timetable.to_columns()
            for due_ms, offset in zip(due_times, offsets, strict=True):
                yield DelayedMessage(StoredAt(queue, offset), due_ms)

    def add(self, message: PendingMessage) -> None:
        """Adds a stored message."""
        queue, offset = message.stored_at
        timetable = self._queues.setdefault(queue, Timetable())
        timetable.add(message.due_ms, offset, hash_id(message.msg_id), message.length_ms)
        self.newest_begin_ms = max(self.newest_begin_ms, message.begin_ms)

    def read_clock(self, time_ms: int, read_lengths: ReadLengths) -> None:
        """Counts from ``time_ms`` all delays that have begun after it and have a length."""
        for queue, timetable in list(self._queues.items()):
            entries = list(zip(*timetable.to_columns(), strict=True))
            unknown = [offset for due, offset, _, length in entries if length == UNKNOWN_LENGTH and due > time_ms]
            known = read_lengths(queue, unknown) if unknown else {}
            entries = [(due, offset, id_hash, known.get(offset, length)) for due, offset, id_hash, length in entries]
            if unknown or any(due - time_ms > length >= 0 for due, _, _, length in entries):
                self._queues[queue] = changed = Timetable()
                for due, offset, id_hash, length in entries:
                    changed.add(due if length < 0 else min(due, time_ms + length), offset, id_hash, length)
        self.newest_begin_ms = min(self.newest_begin_ms, time_ms)

    def remove(self, queue: MessageQueue, queue_offsets: Sequence[int], due_ms: Sequence[int] = ()) -> None:
        """Removes messages that no longer wait, by their due times if these are given. Ignores unknown ones.

        If the due time of a message has changed since, it is found by its offset.
        """
        timetable = self._queues.get(queue)
        if timetable is None:
            return
        given = zip(due_ms, queue_offsets, strict=True) if due_ms else ()
        left = {*queue_offsets}.difference([offset for due, offset in given if timetable.remove(due, offset)])
        if left:
            for due, offset in timetable.find_due_times(left):
                timetable.remove(due, offset)
        if not timetable:
            del self._queues[queue]

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Removes the messages that retention has deleted."""
        for messages in self.list_before(queue, min_offset):
            offsets = [message.stored_at.queue_offset for message in messages]
            self.remove(queue, offsets, [message.due_ms for message in messages])

    def list_before(self, queue: MessageQueue, min_offset: int) -> Iterator[list[DelayedMessage]]:
        """Yields the messages of ``queue`` that wait now before an offset, in offset order, in small lists."""
        if queue not in self._queues:
            return
        due_times, offsets, *_ = (pa.array(column, pa.int64()) for column in self._queues[queue].to_columns())
        is_before = pc.less(offsets, min_offset)
        due_times, offsets = due_times.filter(is_before), offsets.filter(is_before)
        order = pc.sort_indices(offsets)
        for begin in range(0, len(order), _OBJECTS_MAX):
            part = order.slice(begin, _OBJECTS_MAX)
            pairs = zip(offsets.take(part).to_pylist(), due_times.take(part).to_pylist(), strict=True)
            yield [DelayedMessage(StoredAt(queue, offset), due_ms) for offset, due_ms in pairs]

    def find(self, queue: MessageQueue, due_ms: int, msg_id: str) -> list[DelayedMessage]:
        """Returns the messages that are due at that time and whose ids have the same hash."""
        offsets = self._queues[queue].find_by_hash(due_ms, hash_id(msg_id)) if queue in self._queues else []
        return [DelayedMessage(StoredAt(queue, offset), due_ms) for offset in offsets]

    def list_due(self, now_ms: int, limit: int) -> list[DelayedMessage]:
        """Returns at most ``limit`` messages that are due at ``now_ms``, by due time and then in stored order."""
        queues = ((queue, timetable.list_until(now_ms)) for queue, timetable in self._queues.items())
        entries = (
            [DelayedMessage(StoredAt(queue, offset), due_ms) for due_ms, offset in itertools.islice(pairs, limit)]
            for queue, pairs in queues
        )
        return list(itertools.islice(heapq.merge(*entries, key=operator.attrgetter("due_ms")), limit))

    def next_due_ms(self) -> int | None:
        """Returns the earliest due time; None while no message waits."""
        return min((timetable.next_due_ms() for timetable in self._queues.values()), default=None)

    def to_facts(self) -> list[StillDelayed]:
        """Returns the facts with which a snapshot describes the messages."""
        tables = ((queue, timetable.to_columns()) for queue, timetable in self._queues.items())
        return [StillDelayed(queue, b"".join(map(_to_bytes, columns))) for queue, columns in tables]

    def restore(self, fact: StillDelayed) -> None:
        """Adds the messages of a queue that a snapshot describes."""
        numbers = array("q", fact.numbers)
        if sys.byteorder == "big":
            numbers.byteswap()
        count = len(numbers) // (4 if fact.has_lengths else 3)
        if not fact.has_lengths:
            numbers.extend([UNKNOWN_LENGTH] * count)
        timetable = self._queues.setdefault(fact.queue, Timetable())
        due_times, offsets, hashes, lengths = (numbers[count * at : count * (at + 1)] for at in range(4))
        for due, offset, id_hash, length in zip(due_times, offsets, hashes, lengths, strict=True):
            timetable.add(due, offset, id_hash, length)
            if length >= 0:
                self.newest_begin_ms = max(self.newest_begin_ms, due - length)


def _to_bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
