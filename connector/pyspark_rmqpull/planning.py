"""What each task of a micro-batch reads: ranges from two offsets, given to Spark partitions by queue allocation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

from pyspark_rmqpull.allocation import allocate_averagely, consumer_ids
from pyspark_rmqpull.model import MessageQueue, QueueRange
from pyspark_rmqpull.offsets import QueueOffsets


def ranges_between(start: QueueOffsets, end: QueueOffsets) -> dict[MessageQueue, QueueRange]:
    """The range of every queue that ``end`` names, empty ranges included.

    A pure function of the two, for Spark plans the same batch several times (connectors § 3.4 no. 10). A queue begins
    where ``end`` says that this batch began on it, else where ``start`` stands.
    """
    return {
        queue: QueueRange(queue, end.starts.get(queue, start.offsets.get(queue, until)), until)
        for queue, until in sorted(end.offsets.items())
    }


def assign_ranges(ranges: Iterable[QueueRange], partition_count: int | None) -> list[tuple[QueueRange, ...]]:
    """The ranges of each Spark partition; a partition without messages makes no task.

    All queues of a topic are allocated, also idle ones, topic by topic, as RocketMQ's consumers do. ``partition_count``
    is the number of consumers; None means one for each queue of the widest topic.
    """
    topics = [list(group) for _, group in groupby(sorted(ranges), key=attrgetter("queue.topic"))]
    if not topics:
        return []
    consumers = consumer_ids(partition_count or max(map(len, topics)))
    assigned = [_of_consumer(consumer, topics, consumers) for consumer in consumers]
    return [mine for mine in assigned if mine]


def _of_consumer(
    consumer: str, topics: Sequence[Sequence[QueueRange]], consumers: Sequence[str]
) -> tuple[QueueRange, ...]:
    mine: list[QueueRange] = []
    for topic in topics:
        queues = set(allocate_averagely(consumer, [entry.queue for entry in topic], consumers))
        mine += [entry for entry in topic if entry.queue in queues and entry.from_offset < entry.until_offset]
    return tuple(mine)
