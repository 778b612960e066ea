"""A task of a write: it encodes its rows, delivers them, and reports to the driver what to commit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from pyspark_rmqpull.options.sending import EXACTLY_ONCE
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_record import WrittenRows
from pyspark_rmqpull.sink.deliveries import ColumnDelivery, Delivery, MessageDelivery
from pyspark_rmqpull.sink.encoding import RowEncoder
from pyspark_rmqpull.sink.invalid_rows import InvalidRows
from pyspark_rmqpull.sink.targets import Targets, choose_delivery, refuse_unsupported
from pyspark_rmqpull.sink.topic_parts import PartedRows
from rmqpull_client.transports.port import Producer, TransactionId
from rmqpull_client.transports.reached import Reached, list_reached

if TYPE_CHECKING:
    from pyspark_rmqpull.sink.row_digest import RowDigest


@dataclass
class TaskCommit(WriterCommitMessage):
    """The report of a finished task. ``stage_id`` is None if it has sent its messages at once."""

    transaction: TransactionId
    stage_id: str | None
    call_count: int
    row_count: int
    invalid_count: int
    written: WrittenRows | None = None
    """Only for a task of a micro-batch that is staged."""
    dropped_count: int = 0
    """The properties that the task has dropped: option ``invalidProperties``."""
    reached: Reached = field(default_factory=Reached)
    """What the task has reached: the commit waits for it when it is away."""


class SinkTask:
    """One attempt of one task."""

    def __init__(
        self, producer: Producer, options: SinkOptions, transaction: TransactionId, partition_id: int, stage_id: str
    ) -> None:
        self._options = options
        self._transaction = transaction
        self._targets = Targets(producer)
        self._encoder = RowEncoder(options, self._targets.takes_delivery_times, producer.abilities.property_rules)
        self._invalid_rows = InvalidRows(options)
        self._digest: RowDigest | None = None
        self._delivery = self._make_delivery(producer, partition_id, stage_id)
        self._row_count = 0

    def _make_delivery(self, producer: Producer, partition_id: int, stage_id: str) -> Delivery:
        # Ids and digests are imported here: they need NumPy, and a writer says better that it is missing.
        options, transaction, on_invalid = self._options, self._transaction, self._invalid_rows.add_invalid_row
        refuse_unsupported(producer, options)
        if choose_delivery(producer, options) == EXACTLY_ONCE:
            if transaction.batch_id is not None:
                from pyspark_rmqpull.sink.row_digest import RowDigest

                self._digest = RowDigest(options)
            return ColumnDelivery(producer, options, on_invalid, stage=(transaction, stage_id))
        from pyspark_rmqpull.sink.row_ids import RowIds

        row_ids = RowIds(transaction.writer_id, transaction.batch_id, partition_id)
        if producer.abilities.no_columns is None:
            return ColumnDelivery(producer, options, on_invalid, row_ids=row_ids)
        return MessageDelivery(producer, options, on_invalid, row_ids)

    def run(self, batches: Iterator[pa.RecordBatch]) -> TaskCommit:
        """Delivers all rows, and returns when the broker has stored them. Raises RmqpullError."""
        try:
            for batch in batches:
                self._row_count += batch.num_rows
                if self._digest is not None:
                    self._digest.digest_rows(batch)
                rows, invalid = self._encoder.make_messages(batch)
                for row in invalid:
                    self._invalid_rows.add_invalid_row(row)
                self._send(rows)
                self._send_dead_letters()
            delivered = self._delivery.finish_delivery()
            while self._send_dead_letters():  # for rows of calls that were still in flight
                delivered = self._delivery.finish_delivery()
        finally:
            self._delivery.close()
        self._invalid_rows.log_invalid_count()
        self._encoder.dropped.log_dropped_count()
        written = None if self._digest is None else self._digest.written_rows
        counts = (self._row_count, self._invalid_rows.count)
        reached = list_reached(self._options.connection, ())
        return TaskCommit(self._transaction, *delivered, *counts, written, self._encoder.dropped.count, reached)

    def _send(self, rows: PartedRows) -> None:
        for topic, _ in rows.parts:
            self._targets.check_target(topic)
        self._delivery.deliver_rows(rows)

    def _send_dead_letters(self) -> bool:
        """Returns whether there were any."""
        letters = self._invalid_rows.take_dead_letters()
        for topic, rows in letters:
            self._send(PartedRows.of_topic(topic, rows))
        return bool(letters)
