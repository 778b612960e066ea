"""When delayed messages are due: three numbers for each, however many wait; the messages stay in their queues."""

from __future__ import annotations

import bisect
import hashlib
import heapq
import itertools
import operator
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import StillDelayed
from rmqpull_broker.core.state.pending import DelayedMessage, PendingMessage, StoredAt

_BLOCK_MAX = 1_024
"""Messages that are kept in order together: an insertion moves half as many."""
_TOGETHER = 1_000
"""Messages that become objects at one time."""


def hash_id(msg_id: str) -> int:
    """What is kept of a message id: the same in every process, and a signed number of 64 bits."""
    return int.from_bytes(hashlib.blake2b(msg_id.encode(), digest_size=8).digest(), "little", signed=True)


class _Block:
    """Some messages of one queue, in columns, by due time and then offset."""

    __slots__ = ("dues", "hashes", "offsets")

    def __init__(self, dues: array[int], offsets: array[int], hashes: array[int]) -> None:
        self.dues = dues
        self.offsets = offsets
        self.hashes = hashes

    @property
    def last(self) -> tuple[int, int]:
        return self.dues[-1], self.offsets[-1]

    def find(self, due_ms: int, offset: int) -> int:
        """Where a message is, or would be."""
        low = bisect.bisect_left(self.dues, due_ms)
        return bisect.bisect_left(self.offsets, offset, low, bisect.bisect_right(self.dues, due_ms, low))

    def insert(self, place: int, due_ms: int, offset: int, id_hash: int) -> None:
        self.dues.insert(place, due_ms)
        self.offsets.insert(place, offset)
        self.hashes.insert(place, id_hash)

    def delete(self, place: int) -> None:
        del self.dues[place], self.offsets[place], self.hashes[place]

    def split(self) -> _Block:
        """Cuts the second half off."""
        half = len(self.dues) // 2
        other = _Block(self.dues[half:], self.offsets[half:], self.hashes[half:])
        del self.dues[half:], self.offsets[half:], self.hashes[half:]
        return other


class Timetable:
    """The delayed messages of one queue, by due time and then offset."""

    def __init__(self) -> None:
        self._blocks: list[_Block] = []
        self._lasts: list[tuple[int, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def _find(self, due_ms: int, offset: int) -> tuple[int, int]:
        """Block and place of a message, or where it would be; a block behind the last one may not be there."""
        index = bisect.bisect_left(self._lasts, (due_ms, offset))
        return index, self._blocks[index].find(due_ms, offset) if index < len(self._blocks) else 0

    def _is_at(self, index: int, place: int, due_ms: int, offset: int) -> bool:
        if index == len(self._blocks):
            return False
        block = self._blocks[index]
        return (block.dues[place], block.offsets[place]) == (due_ms, offset)

    def has(self, due_ms: int, offset: int) -> bool:
        """Whether the message waits."""
        return self._is_at(*self._find(due_ms, offset), due_ms, offset)

    def add(self, due_ms: int, offset: int, id_hash: int) -> None:
        """Takes in a message; one that waits already is no error."""
        index, place = self._find(due_ms, offset)
        if self._is_at(index, place, due_ms, offset):
            return
        if index == len(self._blocks):
            if not index or len(self._blocks[-1].dues) == _BLOCK_MAX:
                self._blocks.append(_Block(array("q"), array("q"), array("q")))
                self._lasts.append((due_ms, offset))
            else:
                index, place = index - 1, len(self._blocks[-1].dues)
        block = self._blocks[index]
        block.insert(place, due_ms, offset, id_hash)
        if len(block.dues) > _BLOCK_MAX:
            self._blocks.insert(index + 1, block.split())
            self._lasts.insert(index + 1, self._blocks[index + 1].last)
        self._lasts[index] = block.last
        self._count += 1

    def remove(self, due_ms: int, offset: int) -> None:
        """Forgets a message; one that does not wait is no error."""
        index, place = self._find(due_ms, offset)
        if not self._is_at(index, place, due_ms, offset):
            return
        block = self._blocks[index]
        block.delete(place)
        if block.dues:
            self._lasts[index] = block.last
        else:
            del self._blocks[index], self._lasts[index]
        self._count -= 1

    def dues_of(self, offsets: Iterable[int]) -> list[tuple[int, int]]:
        """(due time, offset) of those of these that wait, found by looking at one after the other."""
        wanted, found = set(offsets), list[tuple[int, int]]()
        for block in self._blocks:
            if wanted.isdisjoint(block.offsets):
                continue
            here = [pair for pair in zip(block.dues, block.offsets, strict=True) if pair[1] in wanted]
            found += here
            if len(found) == len(wanted):
                break
        return found

    def of_hash(self, due_ms: int, id_hash: int) -> list[int]:
        """The offsets of the messages that are due at that time and whose ids have this hash."""
        found = []
        for block in self._blocks[bisect.bisect_left(self._lasts, (due_ms, -1)) :]:
            low = bisect.bisect_left(block.dues, due_ms)
            high = bisect.bisect_right(block.dues, due_ms, low)
            found += [block.offsets[place] for place in range(low, high) if block.hashes[place] == id_hash]
            if high < len(block.dues):
                break
        return found

    def until(self, due_ms: int) -> Iterator[tuple[int, int]]:
        """(due time, offset) of what is due until then, in order."""
        for block in self._blocks:
            high = bisect.bisect_right(block.dues, due_ms)
            yield from zip(block.dues[:high], block.offsets[:high], strict=True)
            if high < len(block.dues):
                break

    def next_due_ms(self) -> int:
        """The earliest due time."""
        return self._blocks[0].dues[0]

    def columns(self) -> tuple[array[int], array[int], array[int]]:
        """Due times, offsets and hashes of all, in order."""
        all_three = array("q"), array("q"), array("q")
        for block in self._blocks:
            for whole, part in zip(all_three, (block.dues, block.offsets, block.hashes), strict=True):
                whole.extend(part)
        return all_three


class DelayedMessages:
    """The delayed messages of all queues, in the order in which they fall due. Part of the broker's state."""

    def __init__(self) -> None:
        self._queues: dict[MessageQueue, Timetable] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def __contains__(self, delayed: DelayedMessage) -> bool:
        queue, offset = delayed.stored_at
        return queue in self._queues and self._queues[queue].has(delayed.due_ms, offset)

    def __iter__(self) -> Iterator[DelayedMessage]:
        for queue, timetable in self._queues.items():
            dues, offsets, _ = timetable.columns()
            for due_ms, offset in zip(dues, offsets, strict=True):
                yield DelayedMessage(StoredAt(queue, offset), due_ms)

    def add(self, waiting: PendingMessage) -> None:
        """Takes in a message that was stored."""
        queue, offset = waiting.stored_at
        self._queues.setdefault(queue, Timetable()).add(waiting.due_ms, offset, hash_id(waiting.msg_id))

    def settle(self, queue: MessageQueue, queue_offsets: Sequence[int], due_ms: Sequence[int] = ()) -> None:
        """Forgets messages that need nothing more, by their due times when these are given. One that is not known is
        no error.
        """
        timetable = self._queues.get(queue)
        if timetable is None:
            return
        pairs = zip(due_ms, queue_offsets, strict=True) if due_ms else timetable.dues_of(queue_offsets)
        for due, offset in pairs:
            timetable.remove(due, offset)
        if not timetable:
            del self._queues[queue]

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets what retention has deleted."""
        for together in self.before(queue, min_offset):
            offsets, dues = (
                [delayed.stored_at.queue_offset for delayed in together],
                [entry.due_ms for entry in together],
            )
            self.settle(queue, offsets, dues)

    def before(self, queue: MessageQueue, min_offset: int) -> Iterator[list[DelayedMessage]]:
        """What waits now in ``queue`` before an offset, in the order in which it was stored, some at a time."""
        if queue not in self._queues:
            return
        dues, offsets, _ = (pa.array(column, pa.int64()) for column in self._queues[queue].columns())
        is_before = pc.less(offsets, min_offset)
        dues, offsets = dues.filter(is_before), offsets.filter(is_before)
        order = pc.sort_indices(offsets)
        for begin in range(0, len(order), _TOGETHER):
            part = order.slice(begin, _TOGETHER)
            pairs = zip(offsets.take(part).to_pylist(), dues.take(part).to_pylist(), strict=True)
            yield [DelayedMessage(StoredAt(queue, offset), due_ms) for offset, due_ms in pairs]

    def find(self, queue: MessageQueue, due_ms: int, msg_id: str) -> list[DelayedMessage]:
        """The messages that are due at that time and probably have that id."""
        offsets = self._queues[queue].of_hash(due_ms, hash_id(msg_id)) if queue in self._queues else []
        return [DelayedMessage(StoredAt(queue, offset), due_ms) for offset in offsets]

    def due(self, now_ms: int, limit: int) -> list[DelayedMessage]:
        """At most ``limit`` messages that are due at ``now_ms``, by their time and then as they were stored."""
        queues = ((queue, timetable.until(now_ms)) for queue, timetable in self._queues.items())
        entries = (
            [DelayedMessage(StoredAt(queue, offset), due_ms) for due_ms, offset in itertools.islice(pairs, limit)]
            for queue, pairs in queues
        )
        return list(itertools.islice(heapq.merge(*entries, key=operator.attrgetter("due_ms")), limit))

    def next_due_ms(self) -> int | None:
        """When :meth:`due` next has something; None while nothing waits."""
        return min((timetable.next_due_ms() for timetable in self._queues.values()), default=None)

    def to_facts(self) -> list[StillDelayed]:
        """What a snapshot says of them."""
        tables = ((queue, timetable.columns()) for queue, timetable in self._queues.items())
        return [StillDelayed(queue, b"".join(map(_to_bytes, columns))) for queue, columns in tables]

    def restore(self, fact: StillDelayed) -> None:
        """Takes in what a snapshot says of a queue."""
        numbers = array("q", fact.numbers)
        if sys.byteorder == "big":
            numbers.byteswap()
        count = len(numbers) // 3
        timetable = self._queues.setdefault(fact.queue, Timetable())
        for place in range(count):
            timetable.add(numbers[place], numbers[count + place], numbers[2 * count + place])


def _to_bytes(column: array[int]) -> bytes:
    if sys.byteorder == "big":
        column.byteswap()
    return column.tobytes()
