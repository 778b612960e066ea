"""The driver's side of a streaming query: how far the next micro-batch goes, and what its tasks read."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.admission import INT64_MAX
from pyspark_rmqpull.planning.allocation import allocated
from pyspark_rmqpull.planning.batch_ends import BatchEnds
from pyspark_rmqpull.planning.batch_sizing import BatchSizing
from pyspark_rmqpull.planning.discovery import find_topics
from pyspark_rmqpull.planning.listing import creation_ids_of, queues_of
from pyspark_rmqpull.planning.loss import resume
from pyspark_rmqpull.planning.offsets import QueueOffsets, nested
from pyspark_rmqpull.planning.ranges import ranges_between
from pyspark_rmqpull.progress.group_progress import GroupProgress
from pyspark_rmqpull.reading.lost_rows import LossReport
from pyspark_rmqpull.reading.news import News
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition, read_partition, tasks_of
from pyspark_rmqpull.reading.waiting import wait_for_topic
from rmqpull_client.loss import refuse
from rmqpull_client.model import MessageQueue, TopicBounds
from rmqpull_client.offsets.stores import offset_look_up, offset_store
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.grpc.signing import client_id_of
from rmqpull_client.transports.port import BrokerClient

_logger = logging.getLogger(__name__)


class RmqpullStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One query's view of its topics. Spark makes one for the driver and one for the tasks (rules 7.3)."""

    def __init__(self, options: SourceOptions, schema: StructType, clock: Clock | None = None) -> None:
        self._options = options
        self._schema = schema
        self._clock = clock or Clock()
        self._news = News(options, self._client, self._clock)
        self._sizing = BatchSizing(options.limits)
        group = options.group if options.commit_offsets else None
        store = None if group is None else offset_store(group, self._client)
        client_id = client_id_of(options.connection)
        self._progress = GroupProgress(
            options.consumer_group, store, options.request_timeout_ms, self._clock, client_id
        )
        self._is_first_call = True
        self._is_filter_checked = False
        self._are_sizes_checked = False
        self._batch_ends = BatchEnds()
        self._newest: dict[MessageQueue, int] = {}
        self._unread: Set[MessageQueue] = frozenset()
        self._ends_seen: dict[MessageQueue, int] = {}
        self._losses: LossReport | None = None
        self._rows_lost: dict[MessageQueue, int] = {}

    def _client(self, request_timeout_ms: int | None = None) -> BrokerClient:
        options = self._options
        timeout_ms = options.request_timeout_ms if request_timeout_ms is None else request_timeout_ms
        return connect(replace(options.connection, request_timeout_ms=timeout_ms), options.flow)

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch: it names no queue, since Spark would not keep it (rules 7.1)."""
        return QueueOffsets().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        """``maxOffsetsPerTrigger``, and for other limits one without effect: Spark knows none that has them all.

        Its Once trigger asks for everything instead, and then no limit counts (rules 7.4).
        """
        limits = self._options.limits
        return ReadMaxRows(limits.rows_max or INT64_MAX) if limits.is_limited else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Batches end where the topic ends when the first of them is planned (rules 7.4)."""
        self._batch_ends.is_available_now = True

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Where the next batch ends; ``start`` itself when there is nothing new.

        Raises DataLoss when the query cannot go on from ``start``, OptionError for a topic or a starting offset that
        does not exist, a filter that the broker refuses or a limit of bytes at a server without sizes,
        BrokerUnavailable.
        """
        self._check_sizes()
        finished = self._named(QueueOffsets.from_json(start))
        begin = self._look(finished)
        self._check_filter(begin)
        # Not earlier: an absent broker would be waited for twice, and a topic made anew would get its old offsets.
        self._progress.commit(self._existing(finished, begin.starts), is_last=self._is_last_look(finished, begin))
        gives_up_ms = self._clock.now_ms() + self._options.idle_wait_ms
        if self._may_wait and self._is_idle(begin):
            awaited = self._await_news(finished, begin, gives_up_ms)
            if awaited is None:
                return start
            begin = awaited
        is_limited = not isinstance(limit, ReadAllAvailable)
        if is_limited and not self._batch_ends.is_available_now:
            gathered = self._gather(finished, begin, gives_up_ms)
            if gathered is None:
                return start
            begin = gathered
        self._is_first_call = False
        ends = self._reachable(begin)
        if is_limited:
            ends = self._sizing.admit(begin.offsets, ends, self._client(), self._clock.now_ms())
        if ends == finished.offsets and not begin.starts:
            return start
        return replace(begin, offsets=ends).to_json()

    def _named(self, finished: QueueOffsets) -> QueueOffsets:
        """With the name under which the query reports losses, if it is to go on after them."""
        if self._options.fail_on_data_loss:
            return replace(finished, query_id=None)
        if self._losses is None:
            self._losses = LossReport(self._client, finished.query_id or uuid.uuid4().hex)
        return replace(finished, query_id=self._losses.query_id)

    def _look(self, finished: QueueOffsets) -> QueueOffsets:
        """Where a batch of what there is now begins; what there is stands in ``_newest`` then."""
        topics = self._topics(finished)
        begin = self._batch_start(finished, topics)
        self._newest = {queue: bounds.max_offset for queue, bounds in queues_of(topics).items()}
        self._ends_seen |= self._newest
        self._rows_lost = {queue: lost for topic in topics.values() for queue, lost in topic.rows_lost.items()}
        return begin

    def _topics(self, finished: QueueOffsets) -> dict[str, TopicBounds]:
        options = self._options
        topics = wait_for_topic(
            lambda: find_topics(self._client(), options.selection, finished.offsets.keys(), finished.query_id),
            options.wait_for_topic,
            self._clock,
        )
        return self._allocated(topics, finished)

    def _allocated(self, topics: dict[str, TopicBounds], finished: QueueOffsets) -> dict[str, TopicBounds]:
        """The topics without the queues that no partition gets, which are told when they are seen first."""
        read = allocated(topics, finished.offsets, self._options.allocation)
        unread = queues_of(topics).keys() - queues_of(read).keys()
        if not unread <= self._unread:
            names = ", ".join(map(str, sorted(unread)))
            _logger.warning("%s gives %s to no partition: not read", self._options.allocate_strategy, names)
        self._unread = unread
        return read

    def _batch_start(self, finished: QueueOffsets, topics: Mapping[str, TopicBounds]) -> QueueOffsets:
        """Where the batch begins: the finished offset, and the resolved starts of queues that it does not name."""
        bounds = queues_of(topics)
        on_loss = refuse if self._losses is None else self._losses.tell
        if finished.is_initial and self._is_first_call:
            ask = offset_look_up(self._options.group, self._client())
            starts = self._options.starting(Mode.STREAM).resolve(bounds, ask, int(time.time() * 1000), on_loss)
        else:
            starts = resume(self._selected(finished), topics, self._ends_seen, on_loss)
            starts |= {queue: bounds[queue].min_offset for queue in bounds if queue not in finished.offsets}
        # Kept, for a server without ids may stand in for a while, and must not make the query forget them.
        ids = {**finished.creation_ids, **creation_ids_of(topics)}
        return QueueOffsets({**finished.offsets, **starts}, starts, ids, finished.query_id)

    def _selected(self, position: QueueOffsets) -> QueueOffsets:
        """A position without queues that the options, changed since, leave out: those stay where they are."""
        covers = self._options.selection.covers
        return replace(position, offsets={queue: at for queue, at in position.offsets.items() if covers(queue)})

    def _existing(self, finished: QueueOffsets, resumed: Mapping[MessageQueue, int]) -> QueueOffsets:
        """What of a finished position can be committed: a queue that is gone would have all of it refused."""
        offsets = {queue: resumed.get(queue, at) for queue, at in finished.offsets.items() if queue in self._newest}
        return replace(finished, offsets=offsets)

    def _check_filter(self, begin: QueueOffsets) -> None:
        """Asks the broker once, by any queue, whether it evaluates the filter. Raises OptionError."""
        options = self._options
        queue = next(iter(self._newest), None)  # not one of the checkpoint that is gone
        if self._is_filter_checked or options.message_filter.keeps_everything or queue is None:
            return
        self._client().check_filter(options.pull_group, queue, begin.offsets[queue], options.message_filter)
        self._is_filter_checked = True

    def _is_last_look(self, finished: QueueOffsets, begin: QueueOffsets) -> bool:
        """Whether a query over what is available now has come to its end: Spark will not plan again."""
        is_planned_out = self._batch_ends.is_available_now and not begin.starts
        return is_planned_out and self._reachable(begin) == finished.offsets

    def _check_sizes(self) -> None:
        """Asks the broker once whether it tells sizes, if a limit of bytes needs them. Raises OptionError."""
        if self._options.has_byte_limits and not self._are_sizes_checked:
            self._client().cut_ranges(())
            self._are_sizes_checked = True

    def _gather(self, finished: QueueOffsets, begin: QueueOffsets, gives_up_ms: int) -> QueueOffsets | None:
        """Where a batch begins when it is to run; None when it is put off and ``idleWaitMs`` is over.

        What a batch has to put on record, the end of a loss, puts it off no longer.
        """
        while not begin.starts.keys() & finished.offsets.keys():
            now_ms = self._clock.now_ms()
            delay_ms = self._sizing.delay_ms(begin.offsets, self._reachable(begin), now_ms)
            if delay_ms == 0:
                break
            left_ms = min(delay_ms, gives_up_ms - now_ms)
            if left_ms <= 0:
                return None
            self._news.let_come(self._newest, left_ms)
            begin = self._look(finished)
        return begin

    @property
    def _may_wait(self) -> bool:
        """Whether the query goes on for ever: waiting holds up its other sources (rules 7.5)."""
        return not self._is_first_call and not self._batch_ends.is_available_now

    def _await_news(self, finished: QueueOffsets, begin: QueueOffsets, gives_up_ms: int) -> QueueOffsets | None:
        """Where a batch begins when something came; None when nothing did within ``idleWaitMs``.

        A wait may end without news, as that of a group that was reset, or at a server that is too busy for it. Then
        the query waits on: Spark, when it hears of nothing, asks again at once.
        """
        while (left_ms := gives_up_ms - self._clock.now_ms()) > 0:
            if not self._news.may_have_come({queue: begin.offsets[queue] for queue in self._newest}, left_ms):
                break
            begin = self._look(finished)
            if not self._is_idle(begin):
                return begin
            self._news.rest(gives_up_ms - self._clock.now_ms())
        return None

    def _is_idle(self, begin: QueueOffsets) -> bool:
        return not begin.starts and all(end <= begin.offsets[queue] for queue, end in self._newest.items())

    def _reachable(self, begin: QueueOffsets) -> dict[MessageQueue, int]:
        return self._batch_ends.reachable(begin.offsets, self._newest, may_lose=self._losses is not None)

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """The topics' ends as last seen, and rows lost: ``sources[].latestOffset`` in the progress (rules 7.8)."""
        if not self._newest:
            return None
        lost = {"rowsLost": nested(self._rows_lost)} if self._rows_lost else {}
        return dict(sorted({**QueueOffsets(self._newest).to_json(), **lost}.items()))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the batch between two offsets."""
        planned = QueueOffsets.from_json(end)
        ranges = ranges_between(QueueOffsets.from_json(start), planned)
        query_id = None if self._options.fail_on_data_loss else planned.query_id
        return tasks_of(ranges.values(), planned.creation_ids, self._options, self._client, query_id)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, QueueRangesPartition)
        return read_partition(partition, self._options, self._schema)

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing: Spark calls this after it has planned the next batch, which committed the same end (rules 7.2)."""
