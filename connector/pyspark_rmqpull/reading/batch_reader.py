"""The batch reader: on the driver it resolves every start and end once, for all tasks."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.partitions import keep_allocated
from pyspark_rmqpull.planning.starts_and_ends import refuse_start_offset_after_end, resolve_ends
from pyspark_rmqpull.planning.topics import list_creation_ids, list_queues
from pyspark_rmqpull.reading.backlog import wait_for_topic
from pyspark_rmqpull.reading.partition_reader import LossReport, QueueRangesPartition, read_partition
from pyspark_rmqpull.reading.query_partitions import make_partitions, refuse_missing_sizes
from pyspark_rmqpull.reading.topics import find_topics
from rmqpull_client.loss import refuse_loss
from rmqpull_client.model import MessageQueue, QueueRange, TopicBounds
from rmqpull_client.offsets.stores import make_offset_look_up
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient


class RmqpullBatchReader(DataSourceReader):
    """One read of what the topics have now. It sets no consumer offsets, even with a consumer group."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks. Their ranges are numbers from one look at the broker, so no task asks again where its queues end.

        Raises OptionError for a topic, a queue or an offset that does not exist, a start behind its end, a filter that
        the broker refuses, or a limit of bytes at a server without sizes; DataLoss for a group's offset whose messages
        are lost; and BrokerUnavailable.
        """
        options = self._options
        client = connect(options.connection, options.flow)
        refuse_missing_sizes(options, lambda: client)
        topics = self._find_topics(client)
        query_id = None if options.fail_on_data_loss else uuid.uuid4().hex
        ranges = self._resolve_ranges(client, topics, query_id)
        partitions = make_partitions(ranges, list_creation_ids(topics), options, lambda: client, query_id)
        # Without a partition Spark would create a task that has none (rules 7.9).
        return partitions or [QueueRangesPartition(())]

    def _find_topics(self, client: BrokerClient) -> dict[str, TopicBounds]:
        options = self._options
        topics = wait_for_topic(
            lambda: find_topics(client, options.selection, (), None), options.wait_for_topic, Clock()
        )
        return keep_allocated(topics, (), options.allocation)

    def _resolve_ranges(
        self, client: BrokerClient, topics: Mapping[str, TopicBounds], query_id: str | None
    ) -> list[QueueRange]:
        options, bounds = self._options, list_queues(topics)
        on_loss = refuse_loss if query_id is None else LossReport(lambda: client, query_id).report
        look_up = make_offset_look_up(options.group, client, options.pull_group)
        starts = options.make_start_rules(Mode.BATCH).resolve(bounds, look_up, int(time.time() * 1000), on_loss)
        ends = resolve_ends(options.ends, bounds, look_up)
        refuse_start_offset_after_end(starts, ends)
        self._check_filter(client, starts)
        return [QueueRange(queue, starts[queue], end) for queue, end in ends.items()]

    def _check_filter(self, client: BrokerClient, starts: Mapping[MessageQueue, int]) -> None:
        options = self._options
        if starts and not options.message_filter.keeps_everything:
            queue = min(starts)  # any queue will do
            client.check_filter(options.pull_group, queue, starts[queue], options.message_filter)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        assert isinstance(partition, QueueRangesPartition)
        return read_partition(partition, self._options, self._schema)
