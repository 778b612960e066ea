"""The writers of ``df.write`` and ``df.writeStream``: tasks stage or send rows, and the driver commits stages.

The commit of a micro-batch carries a record of its plan and its rows. When the number of a micro-batch is repeated, the
broker compares the records. After a crash it is the same micro-batch, and there is nothing to do. If the checkpoint was
restored or copied, it may be another one: "done" would lose its rows, so the broker refuses it.
"""

from __future__ import annotations

import importlib.util
import logging
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from pyspark_rmqpull.errors import CheckpointConflict
from pyspark_rmqpull.options.sending import EXACTLY_ONCE, FAIL, SKIP
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.commit_gap import judge_gap, refuse_blind_query
from pyspark_rmqpull.sink.commit_record import make_record, read_plan, read_query_id
from pyspark_rmqpull.sink.task import SinkTask, TaskCommit
from pyspark_rmqpull.spark_releases.release import DataSourceStreamArrowWriter
from pyspark_rmqpull.worker import drop_importers, prepare_worker
from rmqpull_client.errors import BrokerUnavailable, OptionError, RequestRefused, RmqpullError, TransactionTaken
from rmqpull_client.transports.choice import get_producer
from rmqpull_client.transports.port import CommitRecord, CommitResponse, TransactionId
from rmqpull_client.transports.reached import Reached, list_reached, take_over_reached

_logger = logging.getLogger(__name__)


def _require_numpy() -> None:
    """Raises OptionError without NumPy, which computes the ids and the digests of rows."""
    if importlib.util.find_spec("numpy") is None:
        raise OptionError("Writing needs NumPy, which is not installed. Install rmqpull[spark], or NumPy.")


class RmqpullBatchWriter(DataSourceArrowWriter):
    """One batch write, with its own id. Spark creates it once and sends it to the tasks (rules 7.10)."""

    def __init__(self, options: SinkOptions) -> None:
        """Raises OptionError if NumPy is not installed."""
        _require_numpy()
        self._options = options
        self._reached = _list_reached(options)
        self._transaction = TransactionId(f"{options.producer_group}/{uuid.uuid4().hex}", None)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Delivers the rows of one task. Raises RmqpullError."""
        return _write_rows(self._options, self._reached, self._transaction, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Makes all rows readable, and returns when they are. Raises RmqpullError."""
        drop_importers()
        tasks = _list_tasks(messages)
        _take_over_reached(self._options, tasks)
        if stages := _list_stages(tasks):
            _commit_stages(self._options, self._transaction, stages, _count_staged_rows(self._options, tasks))
        _log_invalid(self._options, tasks)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drops everything that was staged. If the broker cannot be reached, it expires."""
        _drop_stages(self._options, self._transaction)


class RmqpullStreamWriter(DataSourceStreamArrowWriter):
    """The writes of a query. Spark creates one to plan a micro-batch, and another one to commit it (rules 7.10)."""

    def __init__(self, options: SinkOptions) -> None:
        """Raises OptionError if NumPy is not installed, and for ``onCommitGap``."""
        _require_numpy()
        refuse_blind_query(options)
        self._options = options
        self._reached = _list_reached(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Delivers the rows of one task. Raises RmqpullError."""
        context = _get_context()
        # Spark passes the ids of query and micro-batch only as properties of the task (rules 7.10).
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        assert query_id is not None, "Spark sets the query in its tasks"
        assert batch_id is not None, "Spark sets the micro-batch in its tasks"
        transaction = self._make_transaction(query_id, int(batch_id))
        try:
            return _write_rows(self._options, self._reached, transaction, iterator)
        except RequestRefused as error:
            raise _explain_refusal(transaction, error) from None

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Makes the micro-batch readable, once, and returns when it is. A micro-batch without rows is committed too.

        Raises CheckpointConflict when the broker has committed another one with this number, or a later one, CommitGap
        when it lacks those before this one and ``onCommitGap`` is ``fail``, and RmqpullError.
        """
        drop_importers()
        tasks = _list_tasks(messages)
        _take_over_reached(self._options, tasks)
        transaction = tasks[0].transaction if tasks else self._find_transaction(batchId)
        stages = _list_stages(tasks)
        if transaction is not None and (stages or not tasks):
            self._commit(transaction, batchId, tasks, stages)
        _log_invalid(self._options, tasks)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drops what was staged. Spark also calls it after ``commit`` has failed.

        Where no task has finished and the checkpoint cannot be read, the stages expire.
        """
        found = next((task.transaction for task in _list_tasks(messages)), None) or self._find_transaction(batchId)
        if found is not None:
            _drop_stages(self._options, found)

    def _make_transaction(self, query_id: str, batch_id: int) -> TransactionId:
        return TransactionId(f"{self._options.producer_group}/{query_id}", batch_id)

    def _find_transaction(self, batch_id: int) -> TransactionId | None:
        """The transaction of a micro-batch without tasks, for which only the checkpoint names the query.

        None if the checkpoint cannot be read. Nothing is lost then: the next micro-batch with this number counts as the
        first one.
        """
        query_id = read_query_id(self._options.checkpoint_location)
        if self._options.delivery != EXACTLY_ONCE or query_id is None:
            return None
        return self._make_transaction(query_id, batch_id)

    def _commit(
        self,
        transaction: TransactionId,
        batch_id: int,
        tasks: Sequence[TaskCommit],
        stages: Sequence[tuple[str, int]],
    ) -> None:
        query_id = transaction.writer_id.removeprefix(f"{self._options.producer_group}/")
        plan = read_plan(self._options.checkpoint_location, query_id, batch_id)
        record = make_record([task.written for task in tasks if task.written is not None], plan)
        try:
            response = _commit_stages(
                self._options, transaction, stages, _count_staged_rows(self._options, tasks), record
            )
        except RequestRefused as error:
            raise _explain_refusal(transaction, error) from None
        judge_gap(transaction, response)
        if response.was_committed and not response.was_compared:
            _logger.warning(
                "Micro-batch %s of %s is treated as committed: an older release has committed this number, so the rows "
                "cannot be compared. If the checkpoint was restored or copied since then, new rows of the micro-batch "
                "are lost.",
                transaction.batch_id,
                transaction.writer_id,
            )


def _list_reached(options: SinkOptions) -> Reached:
    return list_reached(options.connection, [topic for topic in (options.topic, options.dead_letter_topic) if topic])


def _take_over_reached(options: SinkOptions, tasks: Sequence[TaskCommit]) -> None:
    for task in tasks:
        take_over_reached(options.connection, task.reached)


def _write_rows(
    options: SinkOptions, reached: Reached, transaction: TransactionId, rows: Iterator[pa.RecordBatch]
) -> TaskCommit:
    prepare_worker()
    take_over_reached(options.connection, reached)
    context = _get_context()
    stage_id = f"{context.partitionId()}-{context.attemptNumber()}-{uuid.uuid4().hex}"
    producer = get_producer(options.connection, options.producer_group)
    return SinkTask(producer, options, transaction, context.partitionId(), stage_id).run(rows)


def _list_tasks(messages: Sequence[WriterCommitMessage | None]) -> list[TaskCommit]:
    return [message for message in messages if isinstance(message, TaskCommit)]


def _list_stages(tasks: Sequence[TaskCommit]) -> list[tuple[str, int]]:
    return [(task.stage_id, task.call_count) for task in tasks if task.stage_id is not None]


def _count_staged_rows(options: SinkOptions, tasks: Sequence[TaskCommit]) -> int:
    """How many rows the tasks must have staged: a dead letter takes the place of its row, a skipped row has none."""
    skipped = sum(task.invalid_count for task in tasks) if options.on_invalid_row == SKIP else 0
    return sum(task.row_count for task in tasks) - skipped


def _commit_stages(
    options: SinkOptions,
    transaction: TransactionId,
    stages: Sequence[tuple[str, int]],
    row_count: int,
    record: CommitRecord | None = None,
) -> CommitResponse:
    producer = get_producer(options.connection, options.producer_group)
    try:
        return producer.commit_stages(
            transaction,
            stages,
            options.transaction_timeout_ms,
            record,
            row_count,
            refuse_gap=options.on_commit_gap == FAIL,
        )
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"{error} It is unknown whether the rows were committed. Start a stream again with the same checkpoint: "
            "the broker recognizes a micro-batch that it has committed. Before you run a batch write again, check the "
            "topic."
        ) from None
    except RequestRefused as error:
        if error.code != "PRECONDITION_FAILED":
            raise
        raise RequestRefused(
            error.code,
            f"{str(error).rstrip('.')}. Nothing of this write is readable. Start a stream again with the same "
            "checkpoint, or run a batch write again: all rows are then staged again. Staged rows are lost when the "
            "broker is restored from a backup, when their topic is deleted, and when no task has run for "
            f"transactionTimeoutMs ({options.transaction_timeout_ms} ms).",
        ) from None


def _drop_stages(options: SinkOptions, transaction: TransactionId) -> None:
    # It does not wait for a server that is away: stages that are not dropped expire.
    producer = get_producer(replace(options.connection, server_away_timeout_ms=0), options.producer_group)
    try:
        if producer.abilities.no_stages is None:
            producer.drop_stages(transaction)
    except RmqpullError as error:
        _logger.warning("Staged rows of a failed write stay on the broker until they expire: %s", error)


def _explain_refusal(transaction: TransactionId, error: RequestRefused) -> RmqpullError:
    """Adds what to do, if the broker refuses a micro-batch because its checkpoint does not fit."""
    if not isinstance(error, TransactionTaken):
        return error
    reason = str(error).rstrip(".")
    return CheckpointConflict(
        f"The broker refused micro-batch {transaction.batch_id} of {transaction.writer_id}: {reason}. Nothing of this "
        "micro-batch was written.\n"
        "Possible causes: the checkpoint was restored from a backup; or two queries run on copies of one checkpoint; "
        "or the sink cannot read the checkpoint, and the micro-batch was run again after a crash and got other rows, "
        "as with rand().\n"
        "Use the first of these ways that fits:\n"
        "1. If the newest micro-batch went to other topics than this query's: keep this checkpoint and set a new "
        "producerGroup. Nothing is lost. Nothing is written twice, unless a run with a later state also wrote to this "
        "query's topics.\n"
        "2. If another checkpoint wrote the newest micro-batch and you still have it: continue with that checkpoint. "
        "Nothing is lost or written twice.\n"
        "3. If you know what was written: start with a new checkpoint, and set startingOffsets to the first message "
        "that was not written.\n"
        "4. Otherwise: keep this checkpoint and set a new producerGroup. Nothing is lost, but what was written beyond "
        "this checkpoint is written twice.\n"
        "To avoid this error, give a query on a copy of a checkpoint its own producerGroup before you start it."
    )


def _log_invalid(options: SinkOptions, tasks: Sequence[TaskCommit]) -> None:
    if invalid_count := sum(task.invalid_count for task in tasks):
        row_count = sum(task.row_count for task in tasks)
        _logger.warning(
            "%d of %d rows were invalid (onInvalidRow=%s)", invalid_count, row_count, options.on_invalid_row
        )
    if dropped_count := sum(task.dropped_count for task in tasks):
        _logger.warning("%d properties were dropped (invalidProperties=%s)", dropped_count, options.invalid_properties)


def _get_context() -> TaskContext:
    context = TaskContext.get()
    assert context is not None, "tasks write the rows"
    return context
