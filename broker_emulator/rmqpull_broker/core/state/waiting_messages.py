"""Messages that wait, delayed ones and half messages: where they are stored, and when they are due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.lengths import NO_LENGTH
from rmqpull_broker.core.state.ports import MessageStore
from rmqpull_proto.remoting import properties as names

DUE_MS = names.TIMER_OUT_MS
"""The system property of a delayed message that holds its due time."""


PENDING_MAX = 1_000_000
"""Delayed messages that may wait at a time, and the same for half messages. Further ones are refused."""


def read_due_ms(message: Message) -> int:
    """Returns the due time of a delayed message, which was set when it was stored."""
    return int(message.system_properties[DUE_MS])


class StoredAt(NamedTuple):
    """The queue and the offset at which a message is stored."""

    queue: MessageQueue
    queue_offset: int


class PendingMessage(NamedTuple):
    """A message that waits: where it is stored, when it is due, its id, and how long it waits.

    The length may be NO_LENGTH or UNKNOWN_LENGTH.
    """

    stored_at: StoredAt
    due_ms: int
    msg_id: str
    length_ms: int = NO_LENGTH

    @property
    def begin_ms(self) -> int:
        """When it began to wait; 0 without a length."""
        return self.due_ms - self.length_ms if self.length_ms >= 0 else 0


class DelayedMessage(NamedTuple):
    """A delayed message that waits: where it is stored, and when it is due."""

    stored_at: StoredAt
    due_ms: int


_READ_BYTES_MAX = 4 << 20
"""About how many bytes of waiting messages one command reads, without the last message."""


_FIRST_READ = 16


_GAP_MAX = 1_024


_ROW_BYTES = 512


def read_waiting(
    store: MessageStore, wanted: Sequence[StoredAt], byte_budget: int = _READ_BYTES_MAX
) -> list[StoredMessage]:
    """Reads waiting messages in the order of ``wanted``, at least one, and as many as fit into ``byte_budget``
    bytes."""
    rows: list[StoredMessage] = []
    byte_count, count = 0, _FIRST_READ
    while len(rows) < len(wanted):
        for row in _read_rows(store, wanted[len(rows) : len(rows) + count]):
            rows.append(row)
            byte_count += estimate_stored_bytes(row)
            if byte_count >= byte_budget:
                return rows
        count = max(1, (byte_budget - byte_count) * len(rows) // byte_count)
    return rows


def estimate_stored_bytes(stored: StoredMessage) -> int:
    """Returns about how many bytes of the log a message takes."""
    message = stored.message
    named = (*message.properties.items(), *message.system_properties.items())
    return _ROW_BYTES + len(message.body) + sum(len(name) + len(value) for name, value in named)


def _read_rows(store: MessageStore, wanted: Sequence[StoredAt]) -> list[StoredMessage]:
    """Reads neighbouring rows of a queue together, since most of them are in one chunk."""
    found: dict[StoredAt, StoredMessage] = {}
    near: list[StoredAt] = []
    for each in (*sorted(wanted), None):
        if near and (each is None or each.queue != near[0].queue or each.queue_offset - near[-1][1] > _GAP_MAX):
            found.update(zip(near, columns.to_rows(_read_near(store, near)), strict=True))
            near = []
        if each is not None:
            near.append(each)
    return [found[each] for each in wanted]


def _read_near(store: MessageStore, near: Sequence[StoredAt]) -> Iterator[pa.RecordBatch]:
    """Reads rows of one queue, sorted by offset."""
    offsets = [each.queue_offset for each in near]
    begin = offsets[0]
    for rows in store.read(near[0].queue, begin, offsets[-1] + 1):
        end = begin + rows.num_rows
        yield rows.take(pa.array([offset - begin for offset in offsets if begin <= offset < end], pa.int64()))
        begin = end
