"""Facts: what has happened, in the only form in which it is kept. The commit log is a sequence of them.

One command yields one group of facts, and the log keeps a group whole or not at all. Applying the same facts in the
same order always gives the same state, so recovery is a replay and needs no code of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.model import GroupConfig, MessageQueue, StoredMessage, TopicConfig


@dataclass(frozen=True)
class TopicPut:
    """A topic came to be, or its configuration changed."""

    topic: TopicConfig


@dataclass(frozen=True)
class TopicDeleted:
    """A topic is gone, with its messages and every group's offsets on it."""

    topic: str


@dataclass(frozen=True)
class GroupPut:
    """A consumer group came to be, or its configuration changed."""

    group: GroupConfig


@dataclass(frozen=True)
class GroupDeleted:
    """A consumer group is gone, with its offsets."""

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


@dataclass(frozen=True)
class OffsetsReset:
    """A group's offsets were set from outside; its next pull on each queue is answered OFFSET_RESET."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class ResetsAnswered:
    """Pulls of a group were told of the resets that were pending on these queues."""

    group: str
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True)
class WaitingEnded:
    """Messages of a system queue, delayed or half ones, that need nothing more: delivered, resolved or given up.

    ``due_ms`` says of delayed ones when they were due, by which they are found fast; older records do not have it.
    """

    queue: MessageQueue
    queue_offsets: tuple[int, ...]
    due_ms: tuple[int, ...] = ()


@dataclass(frozen=True)
class StillWaiting:
    """Offset, due time and id of half messages that wait: in a snapshot in place of themselves, and, when retention has
    stored them again, so that they fall due when they would have. In older snapshots of delayed messages as well.
    """

    queue: MessageQueue
    entries: tuple[tuple[int, int, str], ...]


@dataclass(frozen=True)
class StillDelayed:
    """What a snapshot says of delayed messages in place of themselves: the due times of all of them in their order,
    their offsets, and the hashes of their ids (``timetable.hash_id``), each a little-endian int64.
    """

    queue: MessageQueue
    numbers: bytes


@dataclass(frozen=True)
class StillReset:
    """What a snapshot says of resets that no pull was told of yet: they outlive the offset of a deleted topic."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class QueuesTrimmed:
    """Old messages are gone: for each queue the min offset that it has from now on."""

    min_offsets: tuple[tuple[MessageQueue, int], ...]


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


class TransactionId(NamedTuple):
    """What is committed together: a query's batch; or, without a number, a write that is no part of a query."""

    writer: str
    number: int | None

    def is_covered_by(self, other: TransactionId) -> bool:
        """Whether ``other`` is this batch or a later one of its query."""
        if self.number is None or other.number is None:
            return self == other
        return self.writer == other.writer and self.number <= other.number


@dataclass(frozen=True)
class CallStaged:
    """The rows of one call were kept in a stage's own queue, from ``first_offset`` on, sorted by the queues that they
    are meant for: ``parts`` has each of these with its number of rows. The stages of its batch are to live for
    ``timeout_ms`` from now on; 0 means as long as the broker likes. ``byte_count`` is the size of the rows as limits
    count it; 0 in what older releases kept.
    """

    batch: TransactionId
    stage_id: str
    sequence: int
    first_offset: int
    parts: tuple[tuple[MessageQueue, int], ...]
    timeout_ms: int = 0
    byte_count: int = 0


class CommitRecord(NamedTuple):
    """What a query's batch was, in its writer's words; see ``commits``. An empty plan is one that is not known."""

    plan: bytes
    destination: str
    row_count: int
    digest: bytes


@dataclass(frozen=True)
class StagesCommitted:
    """A batch is committed: what these stages hold is going to be stored in its own queues, in their order.

    There is no record when the writer gave none, or when an older release wrote the fact.
    """

    batch: TransactionId
    stage_ids: tuple[str, ...]
    record: CommitRecord | None = None


@dataclass(frozen=True)
class StagedCallStored:
    """The rows of a committed call stand in their own queues, or have none any more."""

    stage_id: str
    sequence: int


@dataclass(frozen=True)
class StagesEnded:
    """Stages are gone: stored to the end, or dropped."""

    stage_ids: tuple[str, ...]


Fact = (
    TopicPut
    | TopicDeleted
    | GroupPut
    | GroupDeleted
    | RowsStored
    | ColumnsStored
    | OffsetsCommitted
    | OffsetsReset
    | ResetsAnswered
    | WaitingEnded
    | StillWaiting
    | StillDelayed
    | StillReset
    | QueuesTrimmed
    | RowsLost
    | CallStaged
    | StagesCommitted
    | StagedCallStored
    | StagesEnded
)
