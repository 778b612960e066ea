"""The storage of a broker without a data directory: consume queues in memory, and no commit log.

The queues and their chunks are those of ``DiskStorage``. Only the log, the queue files and the snapshots are left out.
``DiskStorage`` on files in memory was measured in its place: the broker takes 1.7 to 2 times the memory, mostly because
a log holds every message a second time. docs/durability.md ("Without a data directory") has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import Cut, Job, Kept, LogRange, RetentionLimits, Snapshotted
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues


class MemoryStorage:
    """Counts what a log would keep, but keeps the messages only in consume queues."""

    def __init__(self) -> None:
        self.store = ConsumeQueues()
        self._end = 0

    def append(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept]:
        """Gives each batch a position and writes nothing: the state that the facts are applied to is the only copy."""
        begin = self._end
        self._end += len(fact_batches)
        return [Kept(LogRange(0, at, at + 1), facts) for at, facts in enumerate(fact_batches, begin)]

    def append_at_once(self, fact_batches: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        """Always appends, because nothing has to be waited for."""
        return self.append(fact_batches)

    def due_job(self, state: Snapshotted) -> Job | None:
        """There is nothing to save."""
        return None

    last_job = due_job

    def expire(self, limits: RetentionLimits, now_ms: int) -> Cut | None:
        """Chooses whole chunks to delete, by age and by the bytes that all queues hold in memory."""
        return self.store.expire(limits, now_ms)

    def removal_job(self, state: Snapshotted, cut: Cut) -> Job | None:
        """There is no file to delete."""
        return None

    is_behind = False
    refusal: str | None = None
    is_synced = True
    byte_count = 0

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits: without a log, those that the queues hold."""
        return self.store.unsaved_bytes

    def sync(self) -> None:
        """There is nothing to sync."""

    def leave_mark(self) -> None:
        """There is nothing to mark."""

    def close(self) -> None:
        """There is nothing to close."""
