"""Allocation over all topics of a query, and what becomes of queues that no consumer gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby
from operator import attrgetter

from rmqpull_client.allocation.strategies import Allocation
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue, TopicBounds


def widest(queues: Iterable[MessageQueue]) -> int:
    """How many queues the topic with the most of them has; 1 when there is none."""
    return max(Counter(queue.topic for queue in queues).values(), default=1)


def allocate_topics(queues: Iterable[MessageQueue], allocation: Allocation) -> list[list[MessageQueue]]:
    """The queues of each consumer, topic by topic. Raises OptionError for what the strategy refuses.

    BACKLOG allocates ranges, not queues, and must not be asked.
    """
    assert allocation.strategy is not None
    ordered = sorted(queues)
    consumers = allocation.consumers_of(widest(ordered))
    mine: dict[str, list[MessageQueue]] = {consumer: [] for consumer in consumers}
    for topic, group in groupby(ordered, key=attrgetter("topic")):
        try:
            shares = allocation.strategy.allocate_all(list(group), consumers)
        except ValueError as error:
            raise OptionError(f"allocateStrategy {allocation.name} cannot allocate topic {topic}: {error}.") from None
        for consumer, share in shares.items():
            mine[consumer] += [queue for queue in share if queue.topic == topic]
    return list(mine.values())


def allocated(
    topics: Mapping[str, TopicBounds], finished: Iterable[MessageQueue], allocation: Allocation
) -> dict[str, TopicBounds]:
    """The topics with those queues only that some consumer gets: as in RocketMQ, nobody reads the others.

    ``finished`` are the queues that the query has read before. Raises OptionError when one of them would be read no
    more, when no queue is left at all, and for what the strategy refuses.
    """
    existing = [queue for topic in topics.values() for queue in topic.queues]
    if allocation.strategy is None or not existing:
        return dict(topics)
    shares = allocate_topics(existing, allocation)
    refuse_unallocated(set(finished) & set(existing), shares, allocation)
    read = set(chain.from_iterable(shares)) & set(existing)
    if not read:
        raise OptionError(
            f"allocateStrategy {allocation.name} gives no queue of {', '.join(map(str, sorted(existing)))} to any "
            "partition, so nothing would be read. Change its parameters."
        )
    return {
        name: replace(topic, queues={queue: bounds for queue, bounds in topic.queues.items() if queue in read})
        for name, topic in topics.items()
    }


def refuse_unallocated(
    queues: Iterable[MessageQueue], shares: Sequence[Sequence[MessageQueue]], allocation: Allocation
) -> None:
    """Raises OptionError when one of the queues, which the query reads already, is given to no consumer."""
    left = sorted(set(queues) - set(chain.from_iterable(shares)))
    if left:
        raise OptionError(
            f"The query reads {', '.join(map(str, left))} already, which allocateStrategy {allocation.name} gives to "
            "no partition now. Add what is missing to its parameters, or start the query with a new checkpoint."
        )
