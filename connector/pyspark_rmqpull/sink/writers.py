"""``df.write`` and ``df.writeStream``: tasks hand messages over, and the driver commits what they name.

A micro-batch is committed with a record of its plan and its rows. The broker compares it when the number comes again:
after a crash the same micro-batch does, and is done; after a checkpoint was restored or copied another one may, and is
refused, since its rows would be lost.
"""

from __future__ import annotations

import importlib.util
import logging
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from pyspark_rmqpull.errors import CheckpointConflict
from pyspark_rmqpull.options.sending import EXACTLY_ONCE
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.checkpoint import read_plan, read_query_id
from pyspark_rmqpull.sink.commit_record import record_of
from pyspark_rmqpull.sink.task import SinkTask, TaskCommit
from pyspark_rmqpull.worker import prepare_worker
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused, RmqpullError
from rmqpull_client.transports.grpc.producer import (
    ANOTHER_TRANSACTION,
    CommitRecord,
    CommitResponse,
    TransactionId,
    get_producer,
)

_logger = logging.getLogger(__name__)


class RmqpullBatchWriter(DataSourceArrowWriter):
    """One batch write, under an id of its own. Spark makes it once and sends it to the tasks (rules 7.10)."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._transaction = TransactionId(f"{options.producer_group}/{uuid.uuid4().hex}", None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hands over the rows of one task. Raises RmqpullError."""
        return _write(self._options, self._transaction, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes all rows readable, and returns when they are. Raises RmqpullError."""
        done = _of_tasks(messages)
        if staged := _staged(done):
            _ask(self._options, done[0].transaction, staged)
        _tell_invalid_rows(self._options, done)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Gives the transaction up; what cannot be told to the broker ends with its timeout."""
        _drop(self._options, self._transaction)


class RmqpullStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a query. Spark makes one to plan a micro-batch, and another to commit it."""

    def __init__(self, options: SinkOptions) -> None:
        """Raises OptionError when exactly-once needs what is not installed."""
        if options.delivery == EXACTLY_ONCE and importlib.util.find_spec("numpy") is None:
            raise OptionError(
                "Option delivery is exactly-once, for which a stream needs NumPy, and it is not installed. Install "
                "rmqpull[spark], or use at-least-once."
            )
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Hands over the rows of one task. Raises RmqpullError."""
        context = _context()
        # The writer is told neither (rules 7.10).
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None, "Spark tells a task its query"
        assert batch_id is not None, "Spark tells a task its micro-batch"
        transaction = self._transaction(query_id, int(batch_id))
        try:
            return _write(self._options, transaction, iterator)
        except RequestRefused as error:
            raise _explained(transaction, error) from None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes the micro-batch readable, once, and returns when it is. One without rows is committed too.

        Raises CheckpointConflict when the broker has committed another one under this number, or a later one, and
        RmqpullError.
        """
        done = _of_tasks(messages)
        transaction = done[0].transaction if done else self._transaction_without_tasks(batchId)
        staged = _staged(done)
        if transaction is not None and (staged or not done):
            self._settle(transaction, staged, self._record(transaction, batchId, done))
        _tell_invalid_rows(self._options, done)

    def _transaction(self, query_id: str, batch_id: int) -> TransactionId:
        return TransactionId(f"{self._options.producer_group}/{query_id}", batch_id)

    def _transaction_without_tasks(self, batch_id: int) -> TransactionId | None:
        """Spark tells the query to tasks alone. Where there are none, and no checkpoint says it, nothing is lost when
        an empty micro-batch is not committed: another one of its number would be the first."""
        query_id = read_query_id(self._options.checkpoint_location)
        if self._options.delivery != EXACTLY_ONCE or query_id is None:
            return None
        return self._transaction(query_id, batch_id)

    def _record(self, transaction: TransactionId, batch_id: int, done: Sequence[TaskCommit]) -> CommitRecord:
        query_id = transaction.writer_id.removeprefix(f"{self._options.producer_group}/")
        plan = read_plan(self._options.checkpoint_location, query_id, batch_id)
        return record_of([task.written for task in done if task.written is not None], plan)

    def _settle(self, transaction: TransactionId, staged: Sequence[tuple[str, int]], record: CommitRecord) -> None:
        try:
            answer = _ask(self._options, transaction, staged, record)
        except RequestRefused as error:
            _drop(self._options, transaction)
            raise _explained(transaction, error) from None
        if answer.was_committed and not answer.was_compared:
            _logger.warning(
                "Micro-batch %s of query %s was committed before, by an older release, and cannot be compared: it is "
                "taken for done. If the checkpoint was restored or copied meanwhile, its new rows are not written.",
                transaction.batch_id,
                transaction.writer_id,
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Gives the micro-batch up, as far as its tasks said anything."""
        for transaction in {done.transaction for done in _of_tasks(messages)}:
            _drop(self._options, transaction)


def _write(options: SinkOptions, transaction: TransactionId, rows: Iterator[pa.RecordBatch]) -> TaskCommit:
    prepare_worker()
    context = _context()
    stage_id = f"{context.partitionId()}-{context.attemptNumber()}-{uuid.uuid4().hex}"
    producer = get_producer(options.connection)
    return SinkTask(producer, options, transaction, context.partitionId(), stage_id).run(rows)


def _staged(done: Sequence[TaskCommit]) -> list[tuple[str, int]]:
    return [(task.stage_id, task.call_count) for task in done if task.stage_id is not None]


def _ask(
    options: SinkOptions,
    transaction: TransactionId,
    staged: Sequence[tuple[str, int]],
    record: CommitRecord | None = None,
) -> CommitResponse:
    try:
        return get_producer(options.connection).commit_stages(
            transaction, staged, options.transaction_timeout_ms, record
        )
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"{error} Whether the rows were committed is not known: a stream that is started again with its "
            "checkpoint settles it; of a batch write, look at the topic before it is run again."
        ) from None


def _explained(transaction: TransactionId, error: RequestRefused) -> RmqpullError:
    """A refusal of a micro-batch, with what to do when it is the checkpoint that does not fit."""
    if error.code != ANOTHER_TRANSACTION:
        return error
    seen = str(error).rstrip(".")
    return CheckpointConflict(
        f"Micro-batch {transaction.batch_id} of {transaction.writer_id} was refused: {seen}. Nothing was written.\n"
        "Either the checkpoint was restored from a backup; or two queries run on copies of one checkpoint; or the sink "
        "cannot read the checkpoint, and a micro-batch that runs again after a crash has other rows, as with rand(). "
        "Do the first of these that fits:\n"
        "1. If the newest batch went to other topics than this query's: keep this checkpoint and set a new "
        "producerGroup. Nothing is lost, and nothing comes twice unless something beyond this checkpoint went to this "
        "query's topics too.\n"
        "2. If another checkpoint wrote the newest batch and you have it: go on with that. Nothing is lost or written "
        "twice.\n"
        "3. If you know what is written: start with a new checkpoint, and with startingOffsets behind that.\n"
        "4. Otherwise keep this checkpoint and set a new producerGroup. Nothing is lost, but what was written beyond "
        "this checkpoint comes twice.\n"
        "Before you run a query on a copy of a checkpoint, give it a producerGroup of its own."
    )


def _tell_invalid_rows(options: SinkOptions, done: Sequence[TaskCommit]) -> None:
    if invalid_count := sum(task.invalid_count for task in done):
        _logger.warning(
            "%d of %d rows were invalid: onInvalidRow is %s",
            invalid_count,
            sum(task.row_count for task in done),
            options.on_invalid_row,
        )


def _drop(options: SinkOptions, transaction: TransactionId) -> None:
    producer = get_producer(options.connection)
    try:
        if "stages" in producer.extensions:
            producer.drop_stages(transaction)
    except RmqpullError as error:
        _logger.warning("What an aborted write has staged is left to its timeout: %s", error)


def _of_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [message for message in messages if isinstance(message, TaskCommit)]


def _context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context
