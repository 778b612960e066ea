"""Facts: what has happened, in the only form in which it is kept. The commit log is a sequence of them.

One command yields one group of facts, and the log keeps a group whole or not at all. Applying the same facts in the
same order always gives the same state, so recovery is a replay and needs no code of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.model import MessageQueue, StoredMessage, TopicConfig


@dataclass(frozen=True)
class TopicCreated:
    """A topic came to be."""

    topic: TopicConfig


@dataclass(frozen=True)
class GroupCreated:
    """A consumer group came to be."""

    group: str


@dataclass(frozen=True)
class RowsStored:
    """Messages that were sent one by one; their offsets follow each other."""

    queue: MessageQueue
    rows: tuple[StoredMessage, ...]

    @property
    def store_timestamp_ms(self) -> int:
        """When they were stored, all at once."""
        return self.rows[0].store_timestamp_ms


class QueuePart(NamedTuple):
    """``row_count`` rows of a batch that became ``[first_offset, first_offset + row_count)`` of ``queue``."""

    queue: MessageQueue
    first_offset: int
    row_count: int


@dataclass(frozen=True)
class ColumnsStored:
    """A batch in columns (``columns.STORED_SCHEMA``), its rows sorted by queue as ``parts`` tells."""

    parts: tuple[QueuePart, ...]
    batch: pa.RecordBatch

    @property
    def store_timestamp_ms(self) -> int:
        """When they were stored, all at once."""
        return int(self.batch.column("storeTimestamp")[0].value) // 1000


@dataclass(frozen=True)
class OffsetsCommitted:
    """A group's consumer offsets: for each queue the next offset to consume."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


class LostRange(NamedTuple):
    """Offsets ``[from_offset, until_offset)`` that somebody wanted and that were gone."""

    queue: MessageQueue
    from_offset: int
    until_offset: int


@dataclass(frozen=True)
class RowsLost:
    """What one micro-batch of a query wanted to read and did not find."""

    query_id: str
    batch_id: int
    ranges: tuple[LostRange, ...]


Fact = TopicCreated | GroupCreated | RowsStored | ColumnsStored | OffsetsCommitted | RowsLost
