"""What the core and the server ask of the outside: a place for messages and a log that keeps facts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from typing import NamedTuple, Protocol

import pyarrow as pa

from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.state.facts import ColumnsStored, Fact, RowsStored


class RetentionLimits(NamedTuple):
    """How long messages are kept at least, in milliseconds, and how many bytes of log at most; None for any number."""

    reserved_ms: int
    log_bytes_max: int | None = None

    def is_expired(self, newest_store_ms: int, now_ms: int) -> bool:
        """Whether nothing that was stored until then needs to be kept."""
        return newest_store_ms + self.reserved_ms < now_ms


class Span(NamedTuple):
    """Messages up to ``until_offset``, and the bytes that limits count of them; None when they must be read for it."""

    until_offset: int
    byte_count: int | None


class MessageStore(Protocol):
    """The consume queues: messages by queue and offset, derived from facts."""

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The readable range; ``(0, 0)`` for a queue never written (rules 3.2.1)."""

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """The rows of ``[from_offset, until_offset)``, which must lie within the bounds, as slices in order.

        A slice is loaded when it is asked for, so that a reader that has enough costs no more.
        """

    def time_range(self, queue: MessageQueue, timestamp_ms: int) -> Bounds:
        """Offsets ``[low, high]`` that hold the first one stored at or after ``timestamp_ms``, without reading."""

    def spans(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Sequence[Span]:
        """What is known, without reading, of ``[from_offset, until_offset)``, which must lie within the bounds."""

    def append(self, stored: RowsStored | ColumnsStored) -> None:
        """Makes the messages of a kept fact readable."""

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets what lies before ``min_offset``."""

    def drop(self, topics: Set[str]) -> None:
        """Forgets all queues of these topics; if one comes to be again they begin at 0."""


class LogRange(NamedTuple):
    """Where one write lies in the commit log, by log positions, and the segment that it is in by its first position."""

    segment: int
    from_position: int
    until_position: int


class Snapshotted(Protocol):
    """What a snapshot is taken of, and what it is restored to: all that is known but what is in the message store."""

    newest_store_ms: int

    def apply(self, facts: Iterable[Fact]) -> None:
        """Takes in facts that the commit log keeps."""

    def to_facts(self) -> list[Fact]:
        """Facts that give an empty state everything this one knows, but messages and what is in the store."""


class Job(Protocol):
    """Work for the storage's own thread, between two halves that belong to the event loop."""

    def run(self) -> None:
        """Does the work, without looking at anything that changes meanwhile. Raises OSError."""

    def finish(self) -> None:
        """Takes over what :meth:`run` did, back on the event loop; also when it failed half way."""


class Storage(Protocol):
    """The commit log and what is derived from it. The event loop calls everything that names no other thread."""

    def append(self, groups: Sequence[Sequence[Fact]]) -> LogRange:
        """Keeps every group, in order; when it returns they survive a kill. Raises OSError and keeps none.

        Called by one thread at a time, and not by the event loop.
        """

    def applying(self, written: LogRange) -> None:
        """Tells where the facts lie that the state takes in next."""

    def due_job(self, state: Snapshotted) -> Job | None:
        """Work that should be done now: chunks to save, or a snapshot to take. One job at a time."""

    def last_job(self, state: Snapshotted) -> Job | None:
        """The snapshot that lets the next start replay nothing."""

    def expire(self, limits: RetentionLimits, now_ms: int) -> list[tuple[MessageQueue, int]] | None:
        """Decides which segments may go, and gives the min offsets that queues have without them; None when none may.

        To be called while a command is drafted, so that nothing is being written, and followed by a write.
        """

    def removal_job(self, state: Snapshotted) -> Job | None:
        """Removes what was decided to go, once the new min offsets are kept: after a snapshot that needs none of it."""

    @property
    def is_behind(self) -> bool:
        """Whether writes should wait for the job at work: so much is unsaved that memory would not stay bounded."""

    @property
    def refusal(self) -> str | None:
        """Why messages must be refused; None when they can be kept. Everything else is kept, for it may make room."""

    def sync(self) -> None:
        """Makes everything appended safe from a power cut. Raises OSError. Called by any thread."""

    @property
    def is_synced(self) -> bool:
        """Whether there is nothing to sync."""

    def leave_mark(self) -> None:
        """Says at the end of the log that everything before is acknowledged; before the last job."""

    @property
    def byte_count(self) -> int:
        """Bytes that the commit log holds. Any thread may ask."""

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits."""

    def close(self) -> None:
        """Lets files and directory go. Raises OSError when what is unsynced cannot be synced."""
