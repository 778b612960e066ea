"""Splits partitions into smaller ones, by messages as Spark's Kafka source does (rules 8.2), and by bytes.

A partition is a sequence of ranges. Its parts, in sequence, have the same messages in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_client.errors import OptionError
from rmqpull_client.model import Part, QueueRange, RangeToCut
from rmqpull_client.transports.port import RangeCutter

Partition = tuple[QueueRange, ...]

PARTITIONS_MAX = 100_000


def split_partitions(
    partitions: Sequence[Partition], partitions_min: int | None, records_max: int | None
) -> list[Partition]:
    """Returns partitions of at most ``records_max`` messages, at least about ``partitions_min`` of them.

    First splits every partition above ``records_max``. If there are still too few, splits the large ones further, in
    proportion to their size. Returns fewer than ``partitions_min`` when there are fewer messages, or by rounding.
    Drops empty ranges. Raises OptionError for a plan of more than 100,000 partitions.
    """
    parts = [part for part in map(_without_empty, partitions) if part]
    if records_max is not None:
        counts = [-(-_size(part) // records_max) for part in parts]
        if sum(counts) > PARTITIONS_MAX:
            raise OptionError(
                f"Option maxRecordsPerPartition is {records_max}, which splits the {sum(map(_size, parts))} messages "
                f"of a micro-batch into {sum(counts)} partitions; the limit is {PARTITIONS_MAX}. Raise "
                "maxRecordsPerPartition, or set maxOffsetsPerTrigger."
            )
        parts = _cut_all(parts, counts)
    if partitions_min is not None and len(parts) < partitions_min:
        parts = _cut_all(parts, _counts_for(partitions_min, list(map(_size, parts))))
    return parts


def split_by_bytes(partitions: Sequence[Partition], bytes_max: int, cutter: RangeCutter) -> list[Partition]:
    """Returns partitions of at most ``bytes_max`` bytes each, or of one larger message.

    Messages that the broker no longer has count no bytes and keep their place in the order. Drops empty ranges.
    Raises OptionError for a plan of more than 100,000 partitions, and whatever a request to the broker raises.
    """
    whole = [part for part in map(_without_empty, partitions) if part]
    wanted = [RangeToCut(*entry, bytes_max, PARTITIONS_MAX + 1) for part in whole for entry in part]
    cuts = iter(cutter.cut_ranges(wanted))
    parts = [packed for part in whole for packed in _pack([(entry, next(cuts)) for entry in part], bytes_max)]
    if len(parts) > PARTITIONS_MAX:
        raise OptionError(
            f"Option maxBytesPerPartition is {bytes_max}, which splits the {sum(map(_size, whole))} messages of a "
            f"micro-batch into more than {PARTITIONS_MAX} partitions, which is the limit. Raise maxBytesPerPartition, "
            "or set maxBytesPerTrigger."
        )
    return parts


def _pack(cut_ranges: Sequence[tuple[QueueRange, Sequence[Part]]], bytes_max: int) -> list[Partition]:
    """Joins consecutive pieces as long as they stay within ``bytes_max``.

    Two pieces of one range never fit together, since each is as long as possible.
    """
    packed: list[list[QueueRange]] = []
    room = -1
    for entry, parts in cut_ranges:
        for piece, byte_count in _pieces(entry, parts):
            if byte_count > room:
                packed.append([])
                room = bytes_max
            packed[-1].append(piece)
            room -= byte_count
    return list(map(tuple, packed))


def _pieces(entry: QueueRange, parts: Sequence[Part]) -> list[tuple[QueueRange, int]]:
    """Returns the pieces of a whole range with their bytes; messages in no part join a piece beside them."""
    edges = [entry.from_offset, *(part.until_offset for part in parts[:-1]), entry.until_offset]
    sizes = [part.byte_count for part in parts] or [0]
    return [
        (QueueRange(entry.queue, begin, end), size)
        for begin, end, size in zip(edges[:-1], edges[1:], sizes, strict=True)
    ]


def _counts_for(partitions_min: int, sizes: Sequence[int]) -> list[int]:
    """Returns into how many parts to split each size.

    Sizes whose share is one part stay whole. The others share the remaining parts, so that many small sizes do not
    crowd out a large one (SPARK-36576).
    """
    total = sum(sizes)
    small = [_share(size, total, partitions_min) == 1 for size in sizes]
    large_total = sum(size for size, is_small in zip(sizes, small, strict=True) if not is_small)
    left = max(partitions_min - sum(small), 1)
    return [1 if is_small else _share(size, large_total, left) for size, is_small in zip(sizes, small, strict=True)]


def _share(size: int, total: int, parts: int) -> int:
    """Returns ``size / total * parts``, rounded half up, at least 1."""
    return max((2 * size * parts + total) // (2 * total), 1)


def _cut_all(partitions: Sequence[Partition], counts: Sequence[int]) -> list[Partition]:
    return [part for whole, count in zip(partitions, counts, strict=True) for part in _cut(whole, count)]


def _cut(partition: Partition, count: int) -> list[Partition]:
    """Returns at most ``count`` parts of equal size; a remainder makes the last ones longer."""
    ranges = list(reversed(partition))
    left = _size(partition)
    parts = []
    for remaining_parts in range(count, 0, -1):
        size = left // remaining_parts
        left -= size
        parts.append(_take(ranges, size))
    return [part for part in parts if part]


def _take(ranges: list[QueueRange], size: int) -> Partition:
    """Removes ``size`` messages from the end of ``ranges``, which are in reverse order, and returns their ranges."""
    taken = []
    while size:
        queue, from_offset, until_offset = ranges.pop()
        middle = min(from_offset + size, until_offset)
        taken.append(QueueRange(queue, from_offset, middle))
        size -= middle - from_offset
        if middle < until_offset:
            ranges.append(QueueRange(queue, middle, until_offset))
    return tuple(taken)


def _without_empty(partition: Partition) -> Partition:
    return tuple(entry for entry in partition if entry.size > 0)


def _size(partition: Partition) -> int:
    return sum(entry.size for entry in partition)
