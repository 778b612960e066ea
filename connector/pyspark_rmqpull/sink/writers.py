"""``df.write`` and ``df.writeStream``: tasks hand messages over, and the driver commits what they name."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_rmqpull.client.producing import Transaction, producer_of
from pyspark_rmqpull.errors import BrokerUnavailable, RmqpullError
from pyspark_rmqpull.sink.options import SinkOptions
from pyspark_rmqpull.sink.task import SinkTask, TaskCommit
from pyspark_rmqpull.worker import settle

_logger = logging.getLogger(__name__)


class RmqpullBatchWriter(DataSourceArrowWriter):
    """One batch write, under an id of its own. Spark makes it once and sends it to the tasks."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._transaction = Transaction(f"{options.producer_group}/{uuid.uuid4().hex}", None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hands over the rows of one task. Raises RmqpullError."""
        return _write(self._options, self._transaction, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes all rows readable. Raises RmqpullError."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives the transaction up; what cannot be told to the broker ends with its timeout."""
        _drop(self._options, self._transaction)


class RmqpullStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a query. Spark makes one to plan a micro-batch, and another to commit it."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hands over the rows of one task. Raises RmqpullError."""
        context = _context()
        # The writer is told neither (connectors § 3.4 no. 17).
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None, "Spark tells a task its query"
        assert batch_id is not None, "Spark tells a task its micro-batch"
        transaction = Transaction(f"{self._options.producer_group}/{query_id}", int(batch_id))
        return _write(self._options, transaction, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes the micro-batch readable, once. Raises RmqpullError."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Gives the micro-batch up, as far as its tasks said anything."""
        for transaction in {done.transaction for done in _of_tasks(messages)}:
            _drop(self._options, transaction)


def _write(options: SinkOptions, transaction: Transaction, rows: Iterator[pa.RecordBatch]) -> TaskCommit:
    settle()
    context = _context()
    stage_id = f"{context.partitionId()}-{context.attemptNumber()}-{uuid.uuid4().hex}"
    producer = producer_of(options.connection)
    return SinkTask(producer, options, transaction, context.partitionId(), stage_id).run(rows)


def _commit(options: SinkOptions, messages: Sequence[WriterCommitMessage | None]) -> None:
    done = _of_tasks(messages)
    staged = [(task.stage_id, task.call_count) for task in done if task.stage_id is not None]
    if staged:
        try:
            producer_of(options.connection).commit(done[0].transaction, staged, options.transaction_timeout_ms)
        except BrokerUnavailable as error:
            raise BrokerUnavailable(
                f"{error} Whether the rows were committed is not known: a stream that is started again with its "
                "checkpoint settles it; of a batch write, look at the topic before it is run again."
            ) from None
    if invalid_count := sum(task.invalid_count for task in done):
        _logger.warning(
            "%d of %d rows were invalid: onInvalidRow is %s",
            invalid_count,
            sum(task.row_count for task in done),
            options.on_invalid_row,
        )


def _drop(options: SinkOptions, transaction: Transaction) -> None:
    producer = producer_of(options.connection)
    try:
        if "stages" in producer.extensions:
            producer.drop(transaction)
    except RmqpullError as error:
        _logger.warning("What an aborted write has staged is left to its timeout: %s", error)


def _of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [message for message in messages if isinstance(message, TaskCommit)]


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context
