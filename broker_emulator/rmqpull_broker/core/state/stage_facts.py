"""Facts about stages: rows that write tasks stage, and the commit that makes them readable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.model import LoggedMessage, MessageQueue


class TransactionId(NamedTuple):
    """A transaction: a micro-batch of a query, or, without a number, one batch write."""

    writer: str
    number: int | None

    def is_covered_by(self, other: TransactionId) -> bool:
        """Whether ``other`` is this transaction, or a later one of its query."""
        if self.number is None or other.number is None:
            return self == other
        return self.writer == other.writer and self.number <= other.number


class StagedPart(NamedTuple):
    """The next ``row_count`` rows of a staged call are for this queue.

    ``body_bytes`` is the size of their bodies, ``byte_count`` their size as limits count it.
    """

    queue: MessageQueue
    row_count: int
    body_bytes: int
    byte_count: int


@dataclass(frozen=True)
class ColumnsStaged:
    """The rows of one call to a stage, in columns (``columns.UNPLACED_SCHEMA``). ``parts`` assigns them, in order, to
    queues.

    Nobody can read them before the commit, which gives them offsets, store times and store hosts. The transaction's
    stages expire ``timeout_ms`` after this call; 0 leaves the time to the broker. The rows were written at
    ``written_ms``. ``messages`` is that of :class:`ColumnsStored`.
    """

    transaction: TransactionId
    stage_id: str
    sequence: int
    parts: tuple[StagedPart, ...]
    timeout_ms: int
    written_ms: int
    batch: pa.RecordBatch
    messages: tuple[LoggedMessage, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True)
class CallStaged:
    """Delayed rows of one call were stored in the stage's own queue, starting at ``first_offset``.

    They wait in a system queue after the commit, so they are stored again (``StagedCallStored``). The rows are sorted
    by their target queues; ``parts`` has each target queue with its number of rows. ``timeout_ms`` is that of
    :class:`ColumnsStaged`. ``byte_count`` is the size of the rows as limits count it; facts of older releases have 0.
    Releases before log format 7 staged all rows in this way.
    """

    transaction: TransactionId
    stage_id: str
    sequence: int
    first_offset: int
    parts: tuple[tuple[MessageQueue, int], ...]
    timeout_ms: int = 0
    byte_count: int = 0


class HeldCall(NamedTuple):
    """A call of a stage without its rows: its sequence, what :class:`ColumnsStaged` staged for how many queues, and its
    timeout."""

    sequence: int
    row_count: int
    byte_count: int
    timeout_ms: int
    part_count: int


@dataclass(frozen=True)
class StillStaged:
    """The calls of an open stage, in a snapshot, and what they staged for each queue in all."""

    transaction: TransactionId
    stage_id: str
    calls: tuple[HeldCall, ...]
    parts: tuple[StagedPart, ...]


class CommitRecord(NamedTuple):
    """A writer's description of its transaction; ``commits`` compares two of them. An empty plan means unknown."""

    plan: bytes
    destination: str
    row_count: int
    digest: bytes


class Splice(NamedTuple):
    """Rows that were staged for queue ``source`` became readable in ``queue``, from ``first_offset`` on.

    The two differ when producers no longer see ``source``. ``body_bytes`` is the size of the bodies.
    """

    source: MessageQueue
    queue: MessageQueue
    first_offset: int
    row_count: int
    body_bytes: int
    store_ms: int
    store_host: str


@dataclass(frozen=True)
class StagesCommitted:
    """A transaction was committed: all staged rows of its stages became readable at once.

    A splice has the rows of all stages for one queue, in the order of ``stage_ids``, and by sequence within a stage.
    Stages with delayed rows stay until these are stored. ``record`` is None when the writer sent none, and in facts of
    older releases.
    """

    transaction: TransactionId
    stage_ids: tuple[str, ...]
    record: CommitRecord | None = None
    splices: tuple[Splice, ...] = ()

    @property
    def store_timestamp_ms(self) -> int:
        """The newest store time of the rows; 0 without rows."""
        return max((splice.store_ms for splice in self.splices), default=0)


@dataclass(frozen=True)
class StagedCallStored:
    """The delayed rows of a committed call were stored. Rows of deleted queues were dropped."""

    stage_id: str
    sequence: int


@dataclass(frozen=True)
class StagesEnded:
    """Stages were removed: completely stored, or dropped.

    ``limit`` names the limit of retention for which open stages were dropped; empty for any other reason.
    """

    stage_ids: tuple[str, ...]
    limit: str = ""
