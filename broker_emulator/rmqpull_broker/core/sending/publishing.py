"""Published batches as they arrive: their topics, and the checks of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.errors import BadRequest, BrokerError, MessageCorrupted

DEFAULT_TOPIC_QUEUE_NUMS = 4
"""Queues that Apache's producers request by default when their send creates the topic (rules 1.18)."""


@dataclass(frozen=True)
class AutoCreation:
    """A send's request to create its topic if the topic is unknown (rules 3.9.3)."""

    default_topic: str
    queue_nums: int = DEFAULT_TOPIC_QUEUE_NUMS


class TopicPart(NamedTuple):
    """The next ``row_count`` rows of a batch are messages of this topic.

    If none of them names its queue by anything, they become slices of at least ``slice_rows_min`` rows, one for each
    queue; 0 spreads them over all queues.
    """

    topic: str
    row_count: int
    slice_rows_min: int = 0


class Published(NamedTuple):
    """A batch with columns of the wire's publish schema. An absent column counts as null.

    All rows belong to ``topic``, unless ``parts`` assigns them, in order, to several topics. ``by_keys`` sends rows
    with the same keys to the same queue, unless a row names a queue or a message group. ``slice_rows_min`` is that of
    ``topic``.
    """

    topic: str
    rows: pa.RecordBatch
    born_host: str
    creation: AutoCreation | None = None
    by_keys: bool = False
    parts: Sequence[TopicPart] = ()
    slice_rows_min: int = 0

    @property
    def topic_parts(self) -> Sequence[TopicPart]:
        """The rows of each topic, in order."""
        return self.parts or [TopicPart(self.topic, self.rows.num_rows, self.slice_rows_min)]


class CheckedBatch(NamedTuple):
    """A published batch whose rows break no rule, and the same rows in the stored schema.

    If any row has a priority, ``batch`` also has the column ``priority``, until the sender prepares it.
    """

    published: Published
    batch: pa.RecordBatch


def check_parts(parts: Sequence[TopicPart], row_count: int) -> None:
    """Raises MessageCorrupted for a batch without rows, BadRequest unless the parts have each topic once and all
    rows."""
    if row_count == 0:
        raise MessageCorrupted("no message to send")
    named = set[str]()
    for topic, count, _ in parts:
        if topic in named:
            raise BadRequest(f"the batch names topic {topic} twice; put all of its rows into one part")
        named.add(topic)
        if count < 1:
            raise BadRequest(f"the part of topic {topic} has {count} rows; it needs 1 or more")
    named_count = sum(part.row_count for part in parts)
    if named_count != row_count:
        raise BadRequest(f"the parts of the batch have {named_count} rows together, but the batch has {row_count}")


@contextmanager
def name_topic_in_refusals(topic: str, parts: Sequence[TopicPart]) -> Iterator[None]:
    """Puts the topic before the text of a refusal when the batch has several topics."""
    try:
        yield
    except BrokerError as error:
        if len(parts) == 1:
            raise
        raise type(error)(f"topic[{topic}]: {error}") from None
