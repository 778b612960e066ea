"""What the core and the server ask of the outside: a place for messages and a log that keeps facts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from rmqpull_broker.core.facts import ColumnsStored, Fact, RowsStored
from rmqpull_broker.core.model import Bounds, MessageQueue


class MessageStore(Protocol):
    """The consume queues: messages by queue and offset, derived from facts."""

    def bounds(self, queue: MessageQueue) -> Bounds:
        """The readable range; ``(0, 0)`` for a queue never written (rocketmq-semantics 3.2.1)."""

    def read(self, queue: MessageQueue, from_offset: int, until_offset: int) -> list[pa.RecordBatch]:
        """The rows of ``[from_offset, until_offset)``, which must lie within the bounds, as slices in order."""

    def append(self, stored: RowsStored | ColumnsStored) -> None:
        """Makes the messages of a kept fact readable."""

    def trim(self, queue: MessageQueue, min_offset: int) -> None:
        """Forgets the messages of a queue before ``min_offset``."""

    def drop(self, topic: str) -> None:
        """Forgets all queues of a topic; the next message of each has offset 0 again."""


class FactLog(Protocol):
    """The commit log. Only one thread may call it at a time."""

    def append(self, groups: Sequence[Sequence[Fact]]) -> None:
        """Keeps every group, in order; when it returns they survive a kill. Raises OSError and keeps none."""

    @property
    def byte_count(self) -> int:
        """Bytes that the log holds. Any thread may ask."""

    def close(self) -> None:
        """Lets the files and the directory go; everything appended is synced already."""
