"""What a task of a write does: encodes its rows, hands them over, and answers what the driver needs for the commit."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_rmqpull.errors import InvalidRowError
from pyspark_rmqpull.options.sending import EXACTLY_ONCE, FAIL, SKIP
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.dead_letters import dead_letter
from pyspark_rmqpull.sink.deliveries import Columns, Delivery, Messages
from pyspark_rmqpull.sink.encoding import InvalidRow, RowEncoder
from pyspark_rmqpull.sink.row_ids import RowIds
from pyspark_rmqpull.sink.targets import Targets, refuse_unsupported, settled_delivery
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.transports.grpc.producer import Producer, TransactionId

if TYPE_CHECKING:
    from pyspark_rmqpull.sink.row_digest import RowDigest

LOGGED_ROWS_MAX = 10
"""Invalid rows that a task tells one by one; the others are counted."""

_logger = logging.getLogger(__name__)


@dataclass
class TaskCommit(WriterCommitMessage):
    """What one task has done with its rows; ``stage_id`` is None when its messages were sent for good."""

    transaction: TransactionId
    stage_id: str | None
    call_count: int
    row_count: int
    invalid_count: int
    written: WrittenRows | None = None
    """Of a task of a micro-batch that is staged."""


class SinkTask:
    """One attempt of one task."""

    def __init__(
        self, producer: Producer, options: SinkOptions, transaction: TransactionId, partition_id: int, stage_id: str
    ) -> None:
        self._options = options
        self._transaction = transaction
        self._targets = Targets(producer)
        self._encoder = RowEncoder(options, self._targets.takes_delivery_times)
        self._digest: RowDigest | None = None
        self._delivery = self._delivery_of(producer, partition_id, stage_id)
        self._dead_letters: list[InvalidRow] = []
        self._row_count = 0
        self._invalid_count = 0

    def _delivery_of(self, producer: Producer, partition_id: int, stage_id: str) -> Delivery:
        options, transaction = self._options, self._transaction
        refuse_unsupported(producer, options)
        if settled_delivery(producer, options) == EXACTLY_ONCE:
            if transaction.batch_id is not None:
                # Imported here, since it needs NumPy, which nothing else of the sink does.
                from pyspark_rmqpull.sink.row_digest import RowDigest

                self._digest = RowDigest(options)
            return Columns(producer, options, self._invalid, stage=(transaction, stage_id))
        row_ids = RowIds(transaction.writer_id, transaction.batch_id, partition_id)
        if "columns" in producer.extensions:
            return Columns(producer, options, self._invalid, row_ids=row_ids)
        return Messages(producer, options, self._invalid, row_ids)

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Hands all rows over, and returns when the broker has kept them. Raises RmqpullError."""
        try:
            for batch in batches:
                self._row_count += batch.num_rows
                if self._digest is not None:
                    self._digest.add(batch)
                rows, invalid = self._encoder.encode(batch)
                for row in invalid:
                    self._invalid(row)
                self._send(rows)
                self._send_dead_letters()
            handed = self._delivery.finish()
            while self._dead_letters:  # of what was under way
                self._send_dead_letters()
                handed = self._delivery.finish()
        finally:
            self._delivery.close()
        if self._invalid_count > LOGGED_ROWS_MAX:
            _logger.warning("%d rows of this task were invalid", self._invalid_count)
        written = None if self._digest is None else self._digest.rows
        return TaskCommit(self._transaction, *handed, self._row_count, self._invalid_count, written)

    def _send(self, rows: PartedRows) -> None:
        for topic, _ in rows.parts:
            self._targets.check(topic)
        self._delivery.send(rows)

    def _invalid(self, row: InvalidRow) -> None:
        if self._options.on_invalid_row == FAIL or row.row.topic == self._options.dead_letter_topic:
            _refuse(row)
        self._invalid_count += 1
        if self._invalid_count <= LOGGED_ROWS_MAX:
            _logger.warning("%s", described(row))
        if self._options.on_invalid_row != SKIP:
            self._dead_letters.append(row)

    def _send_dead_letters(self) -> None:
        assert not self._dead_letters or self._options.dead_letter_topic is not None
        letters, self._dead_letters = self._dead_letters, []
        for row in letters:
            self._send(PartedRows.of_topic(self._options.dead_letter_topic or "", dead_letter(row)))


def described(invalid: InvalidRow) -> str:
    """An invalid row in words, without its body."""
    topic, rows = invalid.row
    named = [
        f"{name} {rows.column(name)[0].as_py()!r}"
        for name in ("tags", "keys", "messageGroup")
        if name in rows.schema.names and rows.column(name)[0].is_valid
    ]
    named += [] if rows.column("body").null_count else [f"a body of {len(rows.column('body')[0].as_py())} bytes"]
    what = f" with {', '.join(named)}" if named else ""
    return f"A row for topic {topic or 'null'}{what} is no message: {invalid.reason}"


def _refuse(invalid: InvalidRow) -> NoReturn:
    raise InvalidRowError(
        f"{described(invalid).rstrip('.')}. Mend the row, or set option onInvalidRow to skip or deadLetter."
    )
