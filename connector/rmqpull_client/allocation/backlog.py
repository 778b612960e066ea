"""BACKLOG: balances what is waiting, over all topics. RocketMQ has nothing like it."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heapreplace

from rmqpull_client.model import QueueRange


def balance_backlog(ranges: Iterable[QueueRange], consumer_count: int) -> list[list[QueueRange]]:
    """The ranges of each consumer: the longest range first, always to whom has the least to read by then.

    No consumer has more than 4/3 of what the best division would give the busiest (Graham's bound). Equal ranges go
    by the order of their queues, equal consumers by their number, so that equal input gives an equal plan.
    """
    shares: list[list[QueueRange]] = [[] for _ in range(consumer_count)]
    loads = [(0, number) for number in range(consumer_count)]
    heapify(loads)
    for entry in sorted(ranges, key=lambda entry: (-entry.size, entry.queue)):
        load, number = loads[0]
        shares[number].append(entry)
        heapreplace(loads, (load + entry.size, number))
    return [sorted(share) for share in shares]
