"""Messages in columns without what a queue gives them, and a log that has them, without a file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
import pytest

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import LoggedMessage, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.state.stage_facts import ColumnsStaged, StagedPart, TransactionId
from rmqpull_broker.store.log import logged_columns
from rmqpull_broker.store.log.logged_columns import encode_messages, place_messages, read_message

WRITE_BYTES = 1 << 20
"""No write is larger."""
QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3)]


def lower_part_limits(patch: pytest.MonkeyPatch, row_count: int) -> None:
    """Makes parts with so many rows large: messages of their own in the log, to which queues refer."""
    patch.setattr(logged_columns, "PART_ROWS_MIN", row_count)
    patch.setattr(logged_columns, "RUN_ROWS_MIN", row_count)


def make_rows(bodies: Iterable[bytes]) -> pa.RecordBatch:
    """Returns messages with these bodies in ``columns.UNPLACED_SCHEMA``."""
    rows = [StoredMessage(Message(body, f"ID of {body!r}"), 0, 0, "") for body in bodies]
    return columns.from_rows(rows).select(columns.UNPLACED_SCHEMA.names)


def make_call(
    stage_id: str, sequence: int, parts: Sequence[tuple[MessageQueue, Sequence[bytes]]], written_ms: int = 1_000
) -> ColumnsStaged:
    """Returns a call that stages messages with these bodies for each queue."""
    sizes = [sum(map(len, bodies)) for _, bodies in parts]
    staged = tuple(
        StagedPart(queue, len(bodies), size, size) for (queue, bodies), size in zip(parts, sizes, strict=True)
    )
    rows = make_rows(body for _, bodies in parts for body in bodies)
    return ColumnsStaged(TransactionId("query", 1), stage_id, sequence, staged, 0, written_ms, rows)


class WrittenMessages:
    """Messages by their places. Each write is at the next position; ``segment_writes`` of them are one segment."""

    def __init__(self, segment_writes: int = 3) -> None:
        self._segment_writes = segment_writes
        self._messages: dict[LoggedMessage, bytes] = {}
        self.writes = 0

    def write(self, rows: pa.RecordBatch, row_counts: Sequence[int]) -> tuple[LoggedMessage, ...]:
        """Writes a batch whose parts have these sizes, and returns its messages."""
        encoded, position = encode_messages(rows, row_counts), WRITE_BYTES * self.writes
        segment = position - position % (WRITE_BYTES * self._segment_writes)
        self.writes += 1
        placed = place_messages(encoded.forms, segment, position)
        self._messages.update(zip(placed, map(bytes, encoded.data[::2]), strict=True))
        return placed

    def read(self, message: LoggedMessage) -> pa.RecordBatch:
        return read_message(self._messages[message], message)
