"""What each task of a micro-batch reads: ranges from two offsets, given to Spark partitions by queue allocation."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark_rmqpull.planning.allocation import allocate_topics, refuse_unallocated, widest
from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.allocation.strategies import Allocation, balance_backlog
from rmqpull_client.model import MessageQueue, QueueRange


def ranges_between(start: QueueOffsets, end: QueueOffsets) -> dict[MessageQueue, QueueRange]:
    """The range of every queue that ``end`` names, empty ranges included.

    A pure function of the two, for Spark plans the same batch several times (rules 7.3). A queue begins
    where ``end`` says that this batch began on it, else where ``start`` stands.
    """
    return {
        queue: QueueRange(queue, end.starts.get(queue, start.offsets.get(queue, until)), until)
        for queue, until in sorted(end.offsets.items())
    }


def assign_ranges(ranges: Iterable[QueueRange], allocation: Allocation) -> list[tuple[QueueRange, ...]]:
    """The ranges of each Spark partition; a partition without messages makes no task.

    All queues of a topic are allocated, also idle ones, topic by topic, as RocketMQ's consumers do; BACKLOG looks at
    what waits, over all topics. Raises OptionError for a queue with messages that is left to nobody: its offset would
    move on without it.
    """
    planned = {entry.queue: entry for entry in ranges}
    waiting = {queue: entry for queue, entry in planned.items() if entry.size > 0}
    if allocation.strategy is None:
        assigned = balance_backlog(waiting.values(), len(allocation.consumers_of(widest(planned))))
    else:
        shares = allocate_topics(planned, allocation)
        refuse_unallocated(waiting, shares, allocation)
        assigned = [[waiting[queue] for queue in share if queue in waiting] for share in shares]
    return [tuple(mine) for mine in assigned if mine]
