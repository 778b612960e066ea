"""Facts: the changes of the broker's state. The commit log is a sequence of facts, and nothing else is kept.

A command yields one batch of facts, and the log keeps the whole batch or nothing. The same facts in the same order
always give the same state, so a restart replays the log and needs no other code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rmqpull_broker.core.model import GroupConfig, LoggedMessage, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.state.stage_facts import (
    CallStaged,
    ColumnsStaged,
    StagedCallStored,
    StagesCommitted,
    StagesEnded,
    StillStaged,
)


@dataclass(frozen=True)
class TopicPut:
    """A topic was created, or its configuration changed."""

    topic: TopicConfig


@dataclass(frozen=True)
class TopicDeleted:
    """A topic was deleted, with its messages and the consumer offsets of all groups on it."""

    topic: str


@dataclass(frozen=True)
class GroupPut:
    """A consumer group was created, or its configuration changed."""

    group: GroupConfig


@dataclass(frozen=True)
class GroupDeleted:
    """A consumer group was deleted, with its consumer offsets."""

    group: str


@dataclass(frozen=True)
class RowsStored:
    """Messages of one send, with consecutive offsets."""

    queue: MessageQueue
    rows: tuple[StoredMessage, ...]

    @property
    def store_timestamp_ms(self) -> int:
        """The store time of all of them."""
        return self.rows[0].store_timestamp_ms


class QueuePart(NamedTuple):
    """``row_count`` rows of a batch, stored at ``[first_offset, first_offset + row_count)`` of ``queue``."""

    queue: MessageQueue
    first_offset: int
    row_count: int


@dataclass(frozen=True)
class ColumnsStored:
    """Messages in columns (``columns.STORED_SCHEMA``). ``parts`` assigns the rows, in order, to queues.

    ``messages`` says where the commit log has the rows; empty if a queue cannot refer to them there.
    """

    parts: tuple[QueuePart, ...]
    batch: pa.RecordBatch
    messages: tuple[LoggedMessage, ...] = field(default=(), compare=False, repr=False)

    @property
    def store_timestamp_ms(self) -> int:
        """The newest store time. Rows of one queue have the same."""
        return int(pc.max(self.batch.column("storeTimestamp")).value) // 1000


@dataclass(frozen=True)
class OffsetsCommitted:
    """A group set consumer offsets: for each queue the next offset to consume."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class OffsetsReset:
    """An administrator reset a group. The group's next pull of each queue gets OFFSET_RESET."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class ResetsAnswered:
    """Pulls of a group got the resets that were pending on these queues."""

    group: str
    queues: tuple[MessageQueue, ...]


@dataclass(frozen=True)
class WaitingEnded:
    """Delayed or half messages stopped waiting in a system queue: they were delivered, ended or given up.

    ``due_ms`` has the due times of delayed messages, which make them fast to find. Older records do not have it.
    """

    queue: MessageQueue
    queue_offsets: tuple[int, ...]
    due_ms: tuple[int, ...] = ()


@dataclass(frozen=True)
class StillWaiting:
    """Offset, due time, id and length of waiting half messages. Facts of older releases have an unknown length.

    Snapshots have it in place of the messages. Retention adds it for messages that it stores again, so that their due
    times do not change, and so do checks when a store time is not the time of the check. Snapshots of older releases
    also have it for delayed messages.
    """

    queue: MessageQueue
    entries: tuple[tuple[int, int, str, int], ...]


@dataclass(frozen=True)
class StillDelayed:
    """The delayed messages of a queue, in a snapshot.

    ``numbers`` has the due times of all messages in order, then their offsets, then the hashes of their ids
    (``delayed_messages.hash_id``), then how long they wait (-1 for a time that a producer named), each as a
    little-endian int64. Without ``has_lengths``, as in snapshots of older releases, the lengths are missing.
    """

    queue: MessageQueue
    numbers: bytes
    has_lengths: bool = True


@dataclass(frozen=True)
class StillReset:
    """Pending resets, in a snapshot. They outlive the offsets of a deleted topic."""

    group: str
    offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class Popped:
    """Messages of a queue were delivered to a group, which must acknowledge them or get them again (rules 3.17).

    ``offsets`` ascend; consecutive ones are a ``range``. A change of the invisible time ends one delivery and begins
    another. Snapshots have what is still in flight. ``begin_ms`` is when the invisible time began if that is not
    ``pop_time_ms``, because the clock was set back since.
    """

    group: str
    queue: MessageQueue
    offsets: Sequence[int]
    pop_time_ms: int
    invisible_ms: int
    begin_ms: int | None = None


@dataclass(frozen=True)
class PopEnded:
    """Messages that were delivered at ``pop_time_ms`` are no longer in flight.

    They were acknowledged, stored again, or got another invisible time.
    """

    group: str
    queue: MessageQueue
    offsets: Sequence[int]
    pop_time_ms: int


@dataclass(frozen=True)
class PoppedInOrder:
    """The newest batch that a group got from a queue in order: as it was delivered, or after an acknowledgement or a
    change of the invisible time. It replaces the batch before. An empty batch clears the ordered state.

    ``consumed_times`` counts the earlier deliveries of each message. ``acknowledged`` has the offsets of acknowledged
    messages, ``visible_ms`` the times of messages whose invisible time was changed, and ``changed_ms`` when that was.
    ``begin_ms`` is that of :class:`Popped`.
    """

    group: str
    queue: MessageQueue
    offsets: tuple[int, ...]
    pop_time_ms: int
    invisible_ms: int
    attempt_id: str = ""
    consumed_times: tuple[int, ...] = ()
    acknowledged: tuple[int, ...] = ()
    visible_ms: tuple[tuple[int, int], ...] = ()
    changed_ms: tuple[tuple[int, int], ...] = ()
    begin_ms: int | None = None


@dataclass(frozen=True)
class RequestModeSet:
    """How members of a group that let the broker assign queues read a topic: ``PULL`` or ``POP``.

    A member that pops also gets the queues of ``pop_share_queue_num`` members after it; 0 or less: all queues.
    """

    topic: str
    group: str
    mode: str = "PULL"
    pop_share_queue_num: int = 0


@dataclass(frozen=True)
class QueuesTrimmed:
    """Old messages were deleted: the new min offset of each queue."""

    min_offsets: tuple[tuple[MessageQueue, int], ...]


@dataclass(frozen=True)
class ClockRead:
    """The clock says ``time_ms``, but the data has later times: the clock was set back.

    All messages before this fact count as written no later than ``time_ms``. Waits that seem to have begun later, and
    have a length, are counted from ``time_ms``: delays, invisible times, and the times until half messages are checked.
    """

    time_ms: int


class LostRange(NamedTuple):
    """Offsets ``[from_offset, until_offset)`` that a reader expected but did not find."""

    queue: MessageQueue
    from_offset: int
    until_offset: int


@dataclass(frozen=True)
class RowsLost:
    """One micro-batch of a query reported lost rows."""

    query_id: str
    batch_id: int
    ranges: tuple[LostRange, ...]


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
    | Popped
    | PopEnded
    | PoppedInOrder
    | RequestModeSet
    | QueuesTrimmed
    | ClockRead
    | RowsLost
    | ColumnsStaged
    | CallStaged
    | StillStaged
    | StagesCommitted
    | StagedCallStored
    | StagesEnded
)
