"""How the queues of a query become Spark partitions: queue allocation, and the ranges that each partition reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter

from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.planning.topics import list_queues
from rmqpull_client.allocation.strategies import Allocation, balance_backlog
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue, QueueRange, TopicBounds


def plan_ranges(start: QueueOffsets, end: QueueOffsets) -> dict[MessageQueue, QueueRange]:
    """Returns the range of every queue that ``end`` names, including empty ranges.

    Depends on nothing but its arguments, since Spark plans the same batch several times (rules 7.3). A queue starts
    where ``end`` says that this batch starts it, or else at its offset in ``start``.
    """
    return {
        queue: QueueRange(queue, end.starts.get(queue, start.offsets.get(queue, until)), until)
        for queue, until in sorted(end.offsets.items())
    }


def assign_ranges(ranges: Iterable[QueueRange], allocation: Allocation) -> list[tuple[QueueRange, ...]]:
    """Returns the ranges of each Spark partition, without partitions that have no messages.

    Allocates all queues of a topic, including idle ones, topic by topic, as RocketMQ's consumers do. BACKLOG balances
    the messages to read over all topics instead. Raises OptionError when a queue with messages gets no partition: the
    query's offset would pass messages that nobody read.
    """
    planned = {entry.queue: entry for entry in ranges}
    unread = {queue: entry for queue, entry in planned.items() if entry.size > 0}
    if allocation.strategy is None:
        assigned = balance_backlog(unread.values(), len(allocation.list_consumers(_count_widest(planned))))
    else:
        shares = allocate_topics(planned, allocation)
        _refuse_unallocated(unread, shares, allocation)
        assigned = [[unread[queue] for queue in share if queue in unread] for share in shares]
    return [tuple(mine) for mine in assigned if mine]


def allocate_topics(queues: Iterable[MessageQueue], allocation: Allocation) -> list[list[MessageQueue]]:
    """Returns the queues of each consumer, allocated topic by topic. Raises OptionError if the strategy refuses them.

    Not for BACKLOG, which allocates ranges and not queues.
    """
    assert allocation.strategy is not None
    ordered = sorted(queues)
    consumers = allocation.list_consumers(_count_widest(ordered))
    mine: dict[str, list[MessageQueue]] = {consumer: [] for consumer in consumers}
    for topic, topic_queues in groupby(ordered, key=attrgetter("topic")):
        try:
            shares = allocation.strategy.allocate_all(list(topic_queues), consumers)
        except ValueError as error:
            raise OptionError(f"allocateStrategy {allocation.name} cannot allocate topic {topic}: {error}.") from None
        for consumer, share in shares.items():
            mine[consumer] += [queue for queue in share if queue.topic == topic]
    return list(mine.values())


def keep_allocated(
    topics: Mapping[str, TopicBounds], finished: Iterable[MessageQueue], allocation: Allocation
) -> dict[str, TopicBounds]:
    """Returns the topics with only those queues that some consumer gets: as in RocketMQ, nobody reads the others.

    ``finished`` are the queues that the query has read before. Raises OptionError when one of them would not be read
    any more, when no queue remains, and when the strategy refuses the queues.
    """
    existing = list_queues(topics).keys()
    if allocation.strategy is None or not existing:
        return dict(topics)
    shares = allocate_topics(existing, allocation)
    _refuse_unallocated(set(finished) & existing, shares, allocation)
    read = set(chain.from_iterable(shares)) & existing
    if not read:
        raise OptionError(
            f"allocateStrategy {allocation.name} gives no queue of {', '.join(map(str, sorted(existing)))} to any "
            "partition, so nothing would be read. Change its parameters."
        )
    return {
        name: replace(topic, queues={queue: bounds for queue, bounds in topic.queues.items() if queue in read})
        for name, topic in topics.items()
    }


def _count_widest(queues: Iterable[MessageQueue]) -> int:
    """Returns the number of queues of the topic that has the most; 1 when there are none."""
    return max(Counter(queue.topic for queue in queues).values(), default=1)


def _refuse_unallocated(
    queues: Iterable[MessageQueue], shares: Sequence[Sequence[MessageQueue]], allocation: Allocation
) -> None:
    """Raises OptionError when no consumer gets one of these queues, which the query has read before."""
    missing = sorted(set(queues) - set(chain.from_iterable(shares)))
    if missing:
        raise OptionError(
            f"The query already reads {', '.join(map(str, missing))}, but allocateStrategy {allocation.name} no longer "
            "gives them to any partition. Add these queues to its parameters, or start the query with a new checkpoint."
        )
