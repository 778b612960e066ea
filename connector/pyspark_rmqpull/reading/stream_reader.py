"""The streaming reader: on the driver it plans the end of each micro-batch, and its tasks read what was planned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.known_offsets import KnownOffsets
from pyspark_rmqpull.planning.micro_batch import INT64_MAX, BatchEnds, BatchSizer
from pyspark_rmqpull.planning.offsets import QueueOffsets, nest_offsets
from pyspark_rmqpull.planning.partitions import plan_ranges
from pyspark_rmqpull.progress.group_progress import GroupProgress
from pyspark_rmqpull.reading.backlog import Backlog, TopicWatch
from pyspark_rmqpull.reading.history import History
from pyspark_rmqpull.reading.message_wait import MessageWait
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition, read_partition
from pyspark_rmqpull.reading.query_partitions import make_partitions, refuse_missing_sizes
from pyspark_rmqpull.spark_releases.release import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from rmqpull_client.connection import make_client_id
from rmqpull_client.loss import refuse_loss
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.offsets.stores import CLUSTERING, make_offset_store
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient


class RmqpullStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the topics of one query. Spark creates one for the driver and one for the tasks (rules 7.3).

    Its methods are those that PySpark 4.2 and newer call; ``spark_releases`` adapts it to older ones.
    """

    def __init__(self, options: SourceOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = options
        self._schema = schema
        self._clock = clock or Clock()
        self._history = History(self._client, options.pull_group, options.request_timeout_ms, self._clock)
        self._watch = TopicWatch(options, self._client, self._clock, self._history)
        self._known = KnownOffsets()
        self._sizing = BatchSizer(options.limits)
        self._batch_ends = BatchEnds()
        group = options.group if options.commit_offsets else None
        store = None if group is None else make_offset_store(group, self._client)
        client_id = make_client_id(options.connection)
        self._progress = GroupProgress(
            options.consumer_group, store, options.request_timeout_ms, self._clock, client_id
        )
        self._newest: Backlog | None = None
        self._is_filter_checked = False
        self._is_group_checked = False
        self._are_sizes_checked = False

    def _client(self, request_timeout_ms: int | None = None) -> BrokerClient:
        options = self._options
        connection = options.connection
        if request_timeout_ms is not None:  # also for servers that are away
            connection = replace(connection, request_timeout_ms=request_timeout_ms, server_away_timeout_ms=0)
        return connect(connection, options.flow)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch. It names no queue, because Spark would not keep it (rules 7.1)."""
        return QueueOffsets().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, or a limit without effect: Spark has no limit for all of the other options.

        Spark's Once trigger asks for everything instead, and then no limit applies (rules 7.4).
        """
        limits = self._options.limits
        return ReadMaxRows(limits.max_offsets_per_trigger or INT64_MAX) if limits.is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Stops the query where the queues end when its first batch is planned (rules 7.4)."""
        self._batch_ends.is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Plans the end of the next batch, and returns ``start`` itself if there is nothing new.

        Raises DataLoss when the query cannot continue from ``start``, OptionError for a topic or a starting offset that
        does not exist, a filter that the broker refuses, a group with members or a limit of bytes at a server without
        sizes, and BrokerUnavailable.
        """
        self._check_sizes()
        is_first = self._newest is None
        backlog = self._look(self._known.read(start))
        self._check_filter(backlog)
        self._check_group(backlog)
        # Not before the look: that would wait twice for an absent broker, and set the offsets of an earlier topic on
        # one that was created again.
        self._progress.set_offsets(backlog.finished_offsets, is_last=self._is_last_look(backlog))
        is_limited = not isinstance(limit, ReadAllAvailable)
        ready = self._wait(backlog, is_first, is_limited)
        if ready is None:
            return start
        ends = self._find_ends(ready)
        if is_limited:
            ends = self._sizing.admit(ready.start.offsets, ends, self._client(), self._clock.now_ms())
        if ends == ready.finished.offsets and not ready.start.starts:
            return start
        witnesses = self._history.renew(ready.start, ready.finished, ends)
        return self._known.write(replace(ready.start, offsets=ends, witnesses=witnesses))

    def _wait(self, backlog: Backlog, is_first: bool, is_limited: bool) -> Backlog | None:
        """Waits for messages, and returns the backlog of the batch to plan, or None when there is no batch yet.

        The first call of a query does not wait, and neither does AvailableNow (rules 7.5).
        """
        if self._batch_ends.is_available_now:
            return backlog
        wait = MessageWait(self._options, self._client, self._clock, lambda: self._look(backlog.finished))
        if not is_first:
            backlog = wait.wait_for_any(backlog)
            if backlog.is_empty:
                return None
        return wait.wait_for_enough(backlog, self._delay_ms) if is_limited else backlog

    def _look(self, finished: QueueOffsets) -> Backlog:
        self._newest = self._watch.look(finished)
        return self._newest

    def _delay_ms(self, backlog: Backlog, now_ms: int) -> int:
        """How long to delay the batch until more messages come. A batch that records a loss is not delayed."""
        if backlog.has_loss:
            return 0
        return self._sizing.compute_delay_ms(backlog.start.offsets, self._find_ends(backlog), now_ms)

    def _find_ends(self, backlog: Backlog) -> dict[MessageQueue, int]:
        may_lose = not self._options.fail_on_data_loss
        return self._batch_ends.find_ends(backlog.start.offsets, backlog.ends, may_lose)

    def _is_last_look(self, backlog: Backlog) -> bool:
        """Whether an AvailableNow query has read everything: Spark will not plan again."""
        if not self._batch_ends.is_available_now or backlog.start.starts:
            return False
        return self._find_ends(backlog) == backlog.finished.offsets

    def _check_filter(self, backlog: Backlog) -> None:
        """Asks the broker once whether it can evaluate the filter. Raises OptionError."""
        options = self._options
        if self._is_filter_checked or options.message_filter.keeps_everything or not backlog.ends:
            return
        queue, offset = next(iter(backlog.next_offsets.items()))  # any queue that exists
        self._client().check_filter(options.pull_group, queue, offset, options.message_filter)
        self._is_filter_checked = True

    def _check_group(self, backlog: Backlog) -> None:
        """Asks the broker once whether the group has members, if it is to get offsets. Raises OptionError."""
        options = self._options
        if self._is_group_checked or not backlog.ends or options.consumer_group is None:
            return
        if options.commit_offsets and options.message_model == CLUSTERING:
            self._client().check_group(options.consumer_group, list(backlog.ends))
        self._is_group_checked = True

    def _check_sizes(self) -> None:
        """Refuses a limit of bytes once, if the server does not tell sizes. Raises OptionError."""
        if not self._are_sizes_checked:
            refuse_missing_sizes(self._options, self._client)
            self._are_sizes_checked = True

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The newest known ends, and rows lost, for ``sources[].latestOffset`` of the query's progress (rules 7.8).

        The rows lost are null when rows may be lost but the server does not count them.
        """
        if self._newest is None or not self._newest.ends:
            return None
        form, lost = QueueOffsets(self._newest.ends).to_json(), self._newest.rows_lost
        if lost:
            form["rowsLost"] = nest_offsets(lost)
        elif lost is None and not self._options.fail_on_data_loss:
            form["rowsLost"] = None
        return dict(sorted(form.items()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the batch between two offsets. Raises DataLoss if an earlier run has planned other messages."""
        planned = self._known.read(end)
        ranges = plan_ranges(self._known.read(start), planned)
        if self._newest is None and start != end:  # PySpark 4.0 and 4.1 also ask for partitions(X, X) (rules 7.12)
            self._compare_unfinished(planned, ranges.values())
        query_id = None if self._options.fail_on_data_loss else planned.query_id
        return make_partitions(ranges.values(), planned.creation_ids, self._options, self._client, query_id)

    def _compare_unfinished(self, planned: QueueOffsets, ranges: Iterable[QueueRange]) -> None:
        """Refuses a batch that an earlier run has planned, if other messages have taken the place of its own.

        With ``failOnDataLoss=false`` the batch stays as it was planned, and the next look reports the loss.
        """
        if not self._options.fail_on_data_loss:
            return
        rewritten = self._history.compare_unfinished(planned, [entry.queue for entry in ranges if entry.size > 0])
        for loss in rewritten.make_losses_of_unfinished():
            refuse_loss(loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, QueueRangesPartition)
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Does nothing: ``latestOffset`` has set the offsets of this end when it planned the next batch (rules 7.2)."""
