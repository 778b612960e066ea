"""What all strategies share: the shape of RocketMQ's ``AllocateMessageQueueStrategy``, and its common check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from rmqpull_client.model import MessageQueue

Shares = dict[str, list[MessageQueue]]
"""The queues of each consumer, by consumer id; who gets nothing may be left out."""


class Strategy(ABC):
    """In go the sorted queues of one topic and the sorted ids of all consumers, out come the queues of each."""

    @abstractmethod
    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        """The queues of all consumers at once. Raises ValueError, in RocketMQ's words, for what it refuses."""

    def allocate(
        self, consumer_id: str, queues: Sequence[MessageQueue], consumers: Sequence[str]
    ) -> list[MessageQueue]:
        """The queues of one consumer, as RocketMQ asks; one that is not among ``consumers`` gets nothing.

        Raises ValueError for the empty arguments that RocketMQ refuses, in its words and order (rules 2.1).
        """
        for value, refusal in (
            (consumer_id, "currentCID is empty"),
            (queues, "mqAll is null or mqAll empty"),
            (consumers, "cidAll is null or cidAll empty"),
        ):
            if not value:
                raise ValueError(refusal)
        if consumer_id not in consumers:
            return []
        return self.shares(queues, consumers).get(consumer_id, [])


def consumer_ids(count: int) -> tuple[str, ...]:
    """Ids of ``count`` consumers whose order as strings, by which RocketMQ sorts them, is that of their numbers."""
    width = len(str(count - 1))
    return tuple(f"{number:0{width}d}" for number in range(count))


@dataclass(frozen=True)
class Allocation:
    """How queues become Spark partitions. Without ``strategy`` it is BACKLOG, which looks at ranges, not at queues.

    ``consumers`` are the sorted ids of all consumers; None stands for one for each queue of the widest topic.
    """

    name: str
    strategy: Strategy | None
    consumers: tuple[str, ...] | None = None

    def consumers_of(self, widest: int) -> tuple[str, ...]:
        """The ids of all consumers when the widest topic has so many queues."""
        return self.consumers if self.consumers is not None else consumer_ids(widest)
