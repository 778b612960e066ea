"""Ports: what the core and the server need from storage. The core knows no file; ``store`` implements these
protocols."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from rmqpull_broker.core.model import Bounds, MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import Fact


class LogRange(NamedTuple):
    """Where the commit log keeps one write: log positions, and the position at which its segment begins."""

    segment: int
    from_position: int
    until_position: int


NOT_LOGGED = LogRange(0, 0, 0)
"""The range of facts that no commit log keeps."""


class Kept(NamedTuple):
    """A batch of facts that the commit log keeps, in the form in which the state applies it, and where it is kept.

    The log may add to facts with messages where it has these.
    """

    written: LogRange
    facts: Sequence[Fact]


class RetentionLimits(NamedTuple):
    """The minimum age of deleted messages, in milliseconds, and the maximum size of the log; None for no maximum."""

    reserved_ms: int
    log_bytes_max: int | None = None

    def is_expired(self, newest_written_ms: int, now_ms: int) -> bool:
        """Whether messages may be deleted, the newest of which was written at ``newest_written_ms``."""
        return newest_written_ms + self.reserved_ms < now_ms

    @staticmethod
    def name(is_too_much: bool) -> str:
        """Returns the property that sets the limit of the size, or that of the age."""
        return "retentionBytes" if is_too_much else "fileReservedTime"


class Cut(NamedTuple):
    """What retention may delete: the log before ``position``, and messages before the new min offsets.

    ``stage_ids`` are open stages with rows among that; they must end first. ``limit`` names the limit that is reached.
    """

    position: int
    min_offsets: Sequence[tuple[MessageQueue, int]]
    stage_ids: Sequence[str] = ()
    limit: str = ""


class Span(NamedTuple):
    """Messages up to ``until_offset``, and their bytes as limits count them; None if unknown."""

    until_offset: int
    byte_count: int | None


class MessageStore(Protocol):
    """The consume queues: messages by queue and offset, derived from facts."""

    def list_queues(self) -> Iterable[MessageQueue]:
        """Returns the queues that have ever had messages. Most queues of many topics never get one."""

    def bounds(self, queue: MessageQueue) -> Bounds:
        """Returns the readable range; ``(0, 0)`` for a queue without messages (rules 3.2.1)."""

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Iterator[pa.RecordBatch]:
        """Yields the rows of ``[from_offset, until_offset)``, which must lie within the bounds, in slices.

        Each slice is loaded when the caller asks for it, so a caller that stops early loads no more than it needs.
        """

    def read_tail(self, queue: MessageQueue, from_offset: int) -> Sequence[StoredMessage]:
        """Returns the messages from ``from_offset`` on if they are not in columns yet; none if one of them is."""

    def seal_tails(self) -> None:
        """Turns messages that are not in columns yet into columns, in some queues at a time."""

    def find_last_store_ms(self, queue: MessageQueue) -> int:
        """Returns the store time of the last message; 0 for a queue without messages. Reads no message."""

    def find_time_range(self, queue: MessageQueue, timestamp_ms: int) -> Bounds:
        """Returns offsets ``[low, high]`` between which the first message stored at or after a time lies.

        Reads no message.
        """

    def list_spans(self, queue: MessageQueue, from_offset: int, until_offset: int) -> Sequence[Span]:
        """Returns the known sizes of ``[from_offset, until_offset)``, which must lie within the bounds.

        Reads no message.
        """

    def join_stages(self, stage_ids: Sequence[str]) -> Iterator[None]:
        """Prepares the commit of stages in steps (see :mod:`rmqpull_broker.core.steps`), so that it takes one short
        step. It may be left out."""

    def apply(self, fact: Fact, written: LogRange) -> None:
        """Applies a fact that the log keeps at ``written``: stores, trims or deletes messages, or ignores the fact."""

    @property
    def newest_written_ms(self) -> int:
        """The latest time at which the last message can have been written. Later than now if the clock was set back."""

    @property
    def last_read_ms(self) -> int:
        """The time at which the clock was last found to have been set back; 0 if it never was."""

    @property
    def has_reads(self) -> bool:
        """Whether the age of any message does not follow from its store time."""

    def trust_store_times(self, now_ms: int) -> None:
        """Treats store times up to ``now_ms`` as the times of writing again, because the clock was set ahead."""


class Snapshotted(Protocol):
    """The state as snapshots see it: everything the broker knows except the messages in the store."""

    newest_store_ms: int

    def apply(self, facts: Iterable[Fact], written: LogRange = NOT_LOGGED) -> None:
        """Applies facts that the commit log keeps at ``written``, also to the message store."""

    def to_facts(self) -> list[Fact]:
        """Returns facts from which an empty state becomes equal to this one, without the messages in the store."""


class Job(Protocol):
    """Work for the storage's own thread. The event loop creates the job and finishes it."""

    def run(self) -> None:
        """Does the work. Reads nothing that the event loop may change. Raises OSError."""

    def finish(self) -> None:
        """Applies the results of :meth:`run` on the event loop, also when it failed half-way."""


class Storage(Protocol):
    """The commit log and what is derived from it. Only the event loop calls the methods, unless they say otherwise."""

    def append(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept]:
        """Keeps all batches in order. They survive a kill when it returns. Raises OSError, and then keeps none.

        Called by one thread at a time, which is not the event loop's.
        """

    def append_at_once(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        """Appends like :meth:`append` if that need not wait; otherwise does nothing and returns None.

        The event loop calls it while no append is in flight. Raises OSError.
        """

    def due_job(self, state: Snapshotted) -> Job | None:
        """Returns a job that is due: saving chunks or taking a snapshot. Only one job may run at a time."""

    def last_job(self, state: Snapshotted) -> Job | None:
        """Returns the job of the last snapshot before a stop, after which the next start has nothing to replay."""

    def expire(self, limits: RetentionLimits, now_ms: int) -> Cut | None:
        """Decides what may be deleted; None when nothing may.

        Call it while a command is drafted, when no write is in flight. A write must follow.
        """

    def removal_job(self, state: Snapshotted, cut: Cut) -> Job | None:
        """Returns the job that deletes what lies before the cut, after a snapshot that needs none of it.

        The log must have kept the new min offsets before.
        """

    @property
    def is_behind(self) -> bool:
        """Whether writes must wait for the running job: more unsaved messages would exceed the memory limit."""

    @property
    def refusal(self) -> str | None:
        """Why messages must be refused, or None. Other facts are always kept, because they may free space."""

    def sync(self) -> None:
        """Syncs everything appended to the disk. Raises OSError. Any thread may call it."""

    @property
    def is_synced(self) -> bool:
        """Whether everything appended is synced."""

    def leave_mark(self) -> None:
        """Marks the end of the log as acknowledged. Called before the last job."""

    @property
    def byte_count(self) -> int:
        """The size of the commit log in bytes. Any thread may call it."""

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits."""

    def close(self) -> None:
        """Closes files and directory. Raises OSError when unsynced data cannot be synced."""
