"""The connector's nouns. Imports nothing of the project."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic. Tuples of topic, broker name and queue id sort as RocketMQ sorts queues."""

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class Bounds(NamedTuple):
    """The readable range ``[min_offset, max_offset)`` of a queue, in queue offsets."""

    min_offset: int
    max_offset: int

    def nearest(self, offset: int) -> int:
        """The offset itself if it is in the range or at its end, else the end of the range that is nearest."""
        return min(max(offset, self.min_offset), self.max_offset)


@dataclass(frozen=True)
class TopicBounds:
    """What a broker says of a topic; ``creation_id`` is None where the server has none.

    ``rows_lost`` counts the rows that the query which asks has reported lost, where there are any.
    """

    creation_id: str | None
    queues: Mapping[MessageQueue, Bounds]
    rows_lost: Mapping[MessageQueue, int] = field(default_factory=dict)


class QueueRange(NamedTuple):
    """Messages ``[from_offset, until_offset)`` of one queue."""

    queue: MessageQueue
    from_offset: int
    until_offset: int

    @property
    def size(self) -> int:
        """How many messages it has."""
        return self.until_offset - self.from_offset
