"""The storage of a broker without a data directory."""

from __future__ import annotations

from collections.abc import Sequence

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.ports import Job, LogRange, Snapshotted
from rmqpull_broker.core.state.retention import RetentionLimits
from rmqpull_broker.store.queues.queues import ConsumeQueues


class MemoryStorage:
    """A log that keeps nothing, and queues that stay in memory."""

    def __init__(self) -> None:
        self.store = ConsumeQueues()
        self._end = 0

    def append(self, groups: Sequence[Sequence[Fact]]) -> LogRange:
        """Keeps nothing: what is applied to the state is all there is."""
        self._end += len(groups)
        return LogRange(0, self._end - len(groups), self._end)

    def applying(self, written: LogRange) -> None:
        """Nothing refers to the log."""

    def due_job(self, state: Snapshotted) -> Job | None:
        """There is nothing to save."""
        return None

    last_job = removal_job = due_job

    def expire(self, limits: RetentionLimits, now_ms: int) -> list[tuple[MessageQueue, int]] | None:
        """There are no segments: whole chunks go, and the bytes in memory are counted."""
        return self.store.expired(limits, now_ms) or None

    is_behind = False
    refusal: str | None = None
    is_synced = True
    byte_count = 0

    @property
    def retained_bytes(self) -> int:
        """The bytes that retentionBytes limits: there is no log, and what the queues hold is counted."""
        return self.store.unsaved_bytes

    def sync(self) -> None:
        """There is nothing to sync."""

    def leave_mark(self) -> None:
        """There is nothing to mark."""

    def close(self) -> None:
        """Nothing to let go."""
