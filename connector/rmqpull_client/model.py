"""The values that calls take and return: queues, offset ranges, and message filters.

Offsets are queue offsets: the number of a message in its queue, from 0. Ranges exclude their end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple


class MessageQueue(NamedTuple):
    """One queue of a topic.

    As a tuple of topic, broker name and queue id it sorts as RocketMQ sorts queues.
    """

    topic: str
    broker_name: str
    queue_id: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker_name}/{self.queue_id}"


class Bounds(NamedTuple):
    """The readable range ``[min_offset, max_offset)`` of a queue. ``max_offset`` is the offset of the next message."""

    min_offset: int
    max_offset: int

    def clamp(self, offset: int) -> int:
        """Returns the offset if it is within the bounds or at their end, or else the nearer bound."""
        return min(max(offset, self.min_offset), self.max_offset)


@dataclass(frozen=True)
class TopicBounds:
    """The queues of a topic with their bounds.

    ``creation_id`` changes when the topic is deleted and created again. It is None if the server has no such ids.
    ``rows_lost`` counts, by queue, the rows that one query has reported as lost. Queues without such rows are left out.
    It is None if the server does not count them. ``unreadable`` are queues that exist but that nobody is permitted to
    read now, as far as the server reports them.
    """

    creation_id: str | None
    queues: Mapping[MessageQueue, Bounds]
    rows_lost: Mapping[MessageQueue, int] | None = None
    unreadable: Collection[MessageQueue] = ()


class QueueRange(NamedTuple):
    """The messages ``[from_offset, until_offset)`` of one queue."""

    queue: MessageQueue
    from_offset: int
    until_offset: int

    @property
    def size(self) -> int:
        """The number of offsets in the range."""
        return self.until_offset - self.from_offset


class RangeToCut(NamedTuple):
    """A request to cut a range into parts of at most ``byte_max`` bytes.

    ``parts_max`` limits their number; 0 is no limit.
    """

    queue: MessageQueue
    from_offset: int
    until_offset: int
    byte_max: int
    parts_max: int = 0


class GroupProgress(NamedTuple):
    """How far a consumer group is in a queue. ``consumed_ms`` is the store time of the last message before its offset.

    It is 0 if there is no such message, or if the server does not tell. ``in_flight`` counts the messages that members
    have received and not acknowledged; None if the server does not count them.
    """

    group: str
    queue: MessageQueue
    consumer_offset: int
    max_offset: int
    consumed_ms: int = 0
    in_flight: int | None = None

    @property
    def lag(self) -> int:
        """The number of messages after the consumer offset, deleted ones included."""
        return max(0, self.max_offset - self.consumer_offset)


def count_in_flight(progress: Iterable[GroupProgress]) -> int | None:
    """Counts the messages in flight of several queues; None if the server does not count them."""
    counts = [entry.in_flight for entry in progress if entry.in_flight is not None]
    return sum(counts) if counts else None


EARLIEST_MS, LATEST_MS = 0, -1
"""The times that brokers take for the min and the max offset of a queue."""


class ResetTarget(NamedTuple):
    """Where a group is to continue on a topic: at a time, or on one queue at an offset.

    ``timestamp_ms`` is a store time in milliseconds since the epoch, EARLIEST_MS or LATEST_MS. With ``queue_id`` only
    that queue is reset, on each broker. ``offset`` needs it, and takes precedence over the time.
    """

    topic: str
    timestamp_ms: int
    queue_id: int | None = None
    offset: int | None = None


class Part(NamedTuple):
    """The messages between the end of the previous part and ``until_offset``, and the sum of their bytes."""

    until_offset: int
    byte_count: int


TAG = "TAG"
SQL92 = "SQL92"
_JAVA_BLANKS = "".join(map(chr, range(0x21)))  # the characters that RocketMQ trims from a tag


@dataclass(frozen=True)
class MessageFilter:
    """A filter expression that the broker evaluates (rules 3.12).

    ``expression_type`` is :data:`TAG`, with an expression such as ``"paid || sent"``, or :data:`SQL92`, with a
    condition on message properties such as ``"amount > 10"``. The client does not parse the expression: only the broker
    can refuse it.
    """

    expression: str = "*"
    expression_type: str = TAG

    @property
    def keeps_everything(self) -> bool:
        """Whether the filter drops no message, so that each offset of a range must have its row."""
        return self.expression_type == TAG and self.expression in ("", "*")

    @property
    def tags(self) -> frozenset[str]:
        """The tags of a TAG expression. Empty means that the client has nothing to check.

        The broker compares only hashes of tags, so the client drops messages whose tag is another string (rules 1.7.2).
        """
        if self.keeps_everything or self.expression_type != TAG:
            return frozenset()
        return frozenset(filter(None, (tag.strip(_JAVA_BLANKS) for tag in self.expression.split("||"))))


EVERYTHING = MessageFilter()
"""The filter that keeps all messages."""
