"""The driver's side of a batch read: from where to where, settled once for all tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.allocation import allocated
from pyspark_rmqpull.planning.discovery import find_topics
from pyspark_rmqpull.planning.ending import refuse_resolved_start_after_end, resolve_ends
from pyspark_rmqpull.planning.listing import creation_ids_of, queues_of
from pyspark_rmqpull.reading.lost_rows import LossReport
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition, read_partition, tasks_of
from pyspark_rmqpull.reading.waiting import wait_for_topic
from rmqpull_client.loss import refuse
from rmqpull_client.model import QueueRange
from rmqpull_client.offsets.stores import offset_look_up
from rmqpull_client.transports.choice import connect


class RmqpullBatchReader(DataSourceReader):
    """One read of what the topics have. Nothing is committed, also not with a consumer group."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks, whose ranges are numbers of one look at the broker: no task asks again where its queues end.

        Raises OptionError for a topic, a queue or a position that does not exist, a start behind its end, a filter
        that the broker refuses, or a limit of bytes at a server without sizes, DataLoss for a group's offset at which
        its queue cannot be read any more, BrokerUnavailable.
        """
        options = self._options
        client = connect(options.connection, options.flow)
        if options.has_byte_limits:
            client.cut_ranges(())  # asks for nothing but whether the server can
        found = wait_for_topic(
            lambda: find_topics(client, options.selection, (), None), options.wait_for_topic, Clock()
        )
        topics = allocated(found, (), options.allocation)
        bounds = queues_of(topics)
        asked_for_starts = offset_look_up(options.group, client)
        # The name under which losses are reported, here and by tasks, when the read is to go on after them.
        query_id = None if options.fail_on_data_loss else uuid.uuid4().hex
        on_loss = refuse if query_id is None else LossReport(lambda: client, query_id).tell
        starts = options.starting(Mode.BATCH).resolve(bounds, asked_for_starts, int(time.time() * 1000), on_loss)
        ends = resolve_ends(options.ending, bounds, client)
        refuse_resolved_start_after_end(starts, ends)
        if starts and not options.message_filter.keeps_everything:
            asked = min(starts)  # any queue will do
            client.check_filter(options.pull_group, asked, starts[asked], options.message_filter)
        ranges = [QueueRange(queue, starts[queue], end) for queue, end in ends.items()]
        # Spark would ask for a task without a partition if there were none (rules 7.9).
        return tasks_of(ranges, creation_ids_of(topics), options, lambda: client, query_id) or [
            QueueRangesPartition(())
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, QueueRangesPartition)
        return read_partition(partition, self._options, self._schema)
