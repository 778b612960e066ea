"""How far a micro-batch goes: limits of a trigger shared among queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_client.model import MessageQueue, Part, QueueRange, RangeToCut
from rmqpull_client.transports.port import RangeCutter

INT64_MAX = (1 << 63) - 1


@dataclass(frozen=True)
class Limits:
    """What options say of the size of a micro-batch: messages, bytes, ms; None where they say nothing."""

    rows_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 0
    bytes_max: int | None = None

    @property
    def is_limited(self) -> bool:
        """Whether a micro-batch may take less than everything."""
        return (self.rows_max, self.rows_min, self.bytes_max) != (None, None, None)


class Admitted(NamedTuple):
    """The end of each queue, and the queues that were passed over for want of room, the most urgent first."""

    ends: dict[MessageQueue, int]
    passed_over: tuple[MessageQueue, ...] = ()


def waiting_rows(starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int]) -> int:
    """How many messages there are between the two."""
    return sum(max(end - starts[queue], 0) for queue, end in ends.items())


def limit_rows(
    starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], rows_max: int
) -> dict[MessageQueue, int]:
    """The end of each queue when about ``rows_max`` rows are admitted over all of them.

    Each queue gets its share of the limit in proportion to what waits in it, at least one row so that none starves
    (``KafkaMicroBatchStream.rateLimit``, rules 8.4). Rounding makes the sum approximate; integers do not
    overflow here.
    """
    waiting = {queue: end - starts[queue] for queue, end in ends.items() if end > starts[queue]}
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(ends)
    admitted = {queue: max(1, rows_max * size // total) for queue, size in waiting.items()}
    return {queue: min(end, starts[queue] + admitted.get(queue, 0)) for queue, end in ends.items()}


def limit_bytes(
    starts: Mapping[MessageQueue, int],
    ends: Mapping[MessageQueue, int],
    bytes_max: int,
    cutter: RangeCutter,
    passed_over: Sequence[MessageQueue] = (),
) -> Admitted:
    """The end of each queue when at most ``bytes_max`` bytes are admitted over all of them.

    First each queue gets room for one message, as long as there is room; those passed over last time come first, so
    that none starves. What is left they share in proportion to the bytes that wait in them, and what the shares leave
    goes to the one that has most. A message above the limit goes alone, when its queue comes first. A queue of which
    the broker knows nothing any more is admitted as it is: who reads it finds out what became of it.
    """
    waiting = [QueueRange(queue, starts[queue], end) for queue, end in sorted(ends.items()) if end > starts[queue]]
    firsts, wholes = _first_messages_and_all(waiting, cutter)
    if sum(whole.byte_count for whole in wholes.values()) <= bytes_max:
        return Admitted(dict(ends))
    urgent = [queue for queue in passed_over if queue in firsts]
    order = [*urgent, *(queue for queue in firsts if queue not in urgent)]
    begun, left = _begin(order, firsts, bytes_max)
    reached = {queue: firsts[queue].until_offset for queue in begun}
    rests = {
        queue: _Rest(ends[queue], wholes[queue].byte_count - firsts[queue].byte_count)
        for queue in begun
        if reached[queue] < ends[queue]
    }
    if left > 0:
        reached |= _share_all(reached, rests, left, cutter)
    held = {entry.queue: entry.from_offset for entry in waiting}
    return Admitted({**ends, **held, **reached}, tuple(queue for queue in order if queue not in reached))


def _first_messages_and_all(
    waiting: Sequence[QueueRange], cutter: RangeCutter
) -> tuple[dict[MessageQueue, Part], dict[MessageQueue, Part]]:
    """The first message of each queue, and everything that waits in it."""
    wanted = [RangeToCut(*entry, byte_max=byte_max, parts_max=1) for byte_max in (0, INT64_MAX) for entry in waiting]
    parts = cutter.cut_ranges(wanted) if wanted else []
    found = [next(iter(cut), Part(entry.until_offset, 0)) for entry, cut in zip(wanted, parts, strict=True)]
    queues = [entry.queue for entry in waiting]
    return dict(zip(queues, found, strict=False)), dict(zip(queues, found[len(waiting) :], strict=True))


class _Rest(NamedTuple):
    """What a queue has beside its first message: until where, and about how many bytes."""

    until_offset: int
    byte_count: int


def _begin(
    order: Sequence[MessageQueue], firsts: Mapping[MessageQueue, Part], bytes_max: int
) -> tuple[list[MessageQueue], int]:
    """The queues whose first message has room, and how much is left: nothing beside a message above the limit."""
    begun, left = [], bytes_max
    for queue in order:
        size = firsts[queue].byte_count
        if size <= left:
            begun.append(queue)
            left -= size
        elif not begun:
            return [queue], 0
    return begun, left


def _share_all(
    begun: Mapping[MessageQueue, int], rests: Mapping[MessageQueue, _Rest], left: int, cutter: RangeCutter
) -> dict[MessageQueue, int]:
    """How far queues come with ``left`` bytes: each by its share, and the longest by what the shares leave."""
    reached, left = _share(begun, rests, left, cutter)
    unfinished = {queue: rest for queue, rest in rests.items() if reached.get(queue, begun[queue]) < rest.until_offset}
    if unfinished and left > 0:
        longest = max(unfinished, key=lambda queue: unfinished[queue].byte_count)
        reached |= _share({**begun, **reached}, {longest: unfinished[longest]}, left, cutter)[0]
    return reached


def _share(
    begun: Mapping[MessageQueue, int], rests: Mapping[MessageQueue, _Rest], left: int, cutter: RangeCutter
) -> tuple[dict[MessageQueue, int], int]:
    """How far the queues of ``rests`` come by their shares of ``left`` bytes, and what is left of these."""
    total = sum(rest.byte_count for rest in rests.values())
    wanted = [
        RangeToCut(queue, begun[queue], end, byte_max=left * size // max(total, 1), parts_max=1)
        for queue, (end, size) in rests.items()
    ]
    parts = cutter.cut_ranges(wanted) if wanted else []
    taken = {
        asked.queue: cut[0]
        for asked, cut in zip(wanted, parts, strict=True)
        if cut and cut[0].byte_count <= asked.byte_max
    }
    reached = {queue: part.until_offset for queue, part in taken.items()}
    return reached, left - sum(part.byte_count for part in taken.values())
