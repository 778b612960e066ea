"""The topics and queues of a query: what the options select, and the queues of topics that were found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rmqpull_client.model import Bounds, MessageQueue, TopicBounds


@dataclass(frozen=True)
class TopicSelection:
    """What a query reads: topics by name, topics whose whole name matches a pattern, or single queues."""

    names: tuple[str, ...] = ()
    pattern: str | None = None
    queues: frozenset[MessageQueue] = frozenset()

    @property
    def required_names(self) -> list[str]:
        """The topics that must exist."""
        return sorted({queue.topic for queue in self.queues}) or list(self.names)

    def match(self, names: Iterable[str]) -> list[str]:
        """Returns the names that the pattern matches as a whole, sorted.

        Retry and dead-letter topics come and go with consumer groups: only a pattern that starts with % matches them.
        """
        pattern = self.pattern or ""
        fits = re.compile(pattern).fullmatch
        return sorted(name for name in names if fits(name) and (pattern[:1] == "%" or not name.startswith("%")))

    def covers(self, queue: MessageQueue) -> bool:
        """Whether the query reads this queue when it exists."""
        if self.queues:
            return queue in self.queues
        return queue.topic in self.names or (self.pattern is not None and bool(self.match([queue.topic])))


def list_queues(topics: Mapping[str, TopicBounds]) -> dict[MessageQueue, Bounds]:
    """Returns the queues of all topics with their bounds."""
    return {queue: bounds for topic in topics.values() for queue, bounds in topic.queues.items()}


def list_creation_ids(topics: Mapping[str, TopicBounds]) -> dict[str, str]:
    """Returns the creation ids of the topics that have one."""
    return {name: topic.creation_id for name, topic in topics.items() if topic.creation_id is not None}
