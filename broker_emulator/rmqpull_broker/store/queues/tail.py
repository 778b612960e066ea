"""The tail of a queue: the rows of single sends that are not in columns yet."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import MessageQueue, StoredMessage
from rmqpull_broker.core.state.facts import RowsStored
from rmqpull_broker.core.state.ports import LogRange
from rmqpull_broker.store.log.rows import LoggedRows, decode_columns
from rmqpull_broker.store.queues.chunks import span

ROW_BYTES = 1024
"""The approximate memory of a row, without its body."""


class Tail:
    """Rows as objects; while the log is replayed, rows in the form of the log."""

    def __init__(self) -> None:
        self.rows: list[StoredMessage] = []
        self._logged: list[bytes] = []
        self._logged_count = 0
        self.written: LogRange | None = None
        """Where the log has the rows; None without rows."""
        self.byte_count = 0
        """The approximate memory that they take."""

    def __len__(self) -> int:
        return len(self.rows) + self._logged_count

    @property
    def has_objects(self) -> bool:
        """Whether the rows are objects."""
        return bool(self.rows)

    def add_rows(self, rows: Sequence[StoredMessage], written: LogRange) -> None:
        """Adds rows to a tail of objects."""
        assert not self._logged, "a tail has one form"
        self.rows.extend(rows)
        self.written = span(self.written or written, written)
        self.byte_count += sum(ROW_BYTES + len(row.message.body) for row in rows)

    def add_logged(self, stored: LoggedRows, written: LogRange) -> None:
        """Adds rows to a tail in the form of the log."""
        assert not self.rows, "a tail has one form"
        self._logged += stored.sends
        self._logged_count += stored.row_count
        self.written = span(self.written or written, written)
        self.byte_count += sum(map(len, stored.sends))

    def to_batch(self) -> pa.RecordBatch:
        """Returns the rows in columns."""
        return decode_columns(self._logged) if self._logged else columns.from_rows(self.rows)

    def to_facts(self, queue: MessageQueue) -> list[RowsStored]:
        """Returns the rows as facts. The last send is a separate one, because its store time becomes the queue's."""
        if self._logged:
            older, last = self._logged[:-1], self._logged[-1]
            return [*([LoggedRows(queue, *older)] if older else []), LoggedRows(queue, last)]
        return split_last(queue, self.rows)


def split_last(queue: MessageQueue, rows: Sequence[StoredMessage]) -> list[RowsStored]:
    """Splits rows into facts such that the last fact has the store time of the last row."""
    if not rows:
        return []
    if rows[0].store_timestamp_ms == rows[-1].store_timestamp_ms:
        return [RowsStored(queue, tuple(rows))]
    return [RowsStored(queue, tuple(rows[:-1])), RowsStored(queue, (rows[-1],))]
