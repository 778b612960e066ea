"""The tasks of a micro-batch or a batch read: what each gets from the driver, and how it reads that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.partitions import assign_ranges
from pyspark_rmqpull.planning.splitting import Partition, split_by_bytes, split_partitions
from pyspark_rmqpull.reading.row_columns import RowColumns
from pyspark_rmqpull.worker import prepare_worker
from rmqpull_client.errors import OptionError, RmqpullError
from rmqpull_client.loss import Loss, refuse_loss
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.reached import Reached, list_reached, take_over_reached

_logger = logging.getLogger(__name__)


@dataclass
class QueueRangesPartition(InputPartition):
    """All that a task gets from the driver.

    ``creation_ids`` are those of the topics for which the driver planned the ranges. ``query_id`` is the id under which
    the task reports losses, or None when a loss ends the query. ``reached`` is what the driver has reached: the task
    waits for it when it is away, also in a process that has just been started.
    """

    ranges: tuple[QueueRange, ...]
    creation_ids: dict[str, str] = field(default_factory=dict)
    query_id: str | None = None
    reached: Reached = field(default_factory=Reached)


def make_partitions(
    ranges: Iterable[QueueRange],
    creation_ids: Mapping[str, str],
    options: SourceOptions,
    client: Callable[[], BrokerClient],
    query_id: str | None = None,
) -> list[QueueRangesPartition]:
    """Allocates ranges to Spark partitions, and splits those that exceed a limit. Raises OptionError.

    It calls ``client`` only for a limit of bytes.
    """
    whole: Sequence[Partition] = assign_ranges(ranges, options.allocation)
    if options.max_bytes_per_partition is not None:
        whole = _try_to_split_by_bytes(whole, options.max_bytes_per_partition, client)
    parts = split_partitions(whole, options.min_partitions, options.max_records_per_partition)
    connection = options.connection

    @cache  # thousands of partitions may have the same topics
    def find_reached(topics: frozenset[str]) -> Reached:
        return list_reached(connection, topics)

    return [
        QueueRangesPartition(
            part, dict(creation_ids), query_id, find_reached(frozenset(entry.queue.topic for entry in part))
        )
        for part in parts
    ]


def _try_to_split_by_bytes(
    whole: Sequence[Partition], bytes_max: int, client: Callable[[], BrokerClient]
) -> Sequence[Partition]:
    """Splits partitions, or returns them whole when the broker does not answer.

    An error here would end the query, while the tasks may reach the broker again. When Spark plans a batch a second
    time and some messages are deleted by then, the splits may differ, but they cover the same ranges.
    """
    try:
        return split_by_bytes(whole, bytes_max, client())
    except OptionError:
        raise
    except RmqpullError as error:
        _logger.warning("This batch ignores maxBytesPerPartition: %s", error)
        return whole


def read_partition(
    partition: QueueRangesPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """Reads the messages of a partition's ranges, batch by batch. Raises RmqpullError."""
    prepare_worker()
    take_over_reached(options.connection, partition.reached)
    client = connect(options.connection, options.flow)
    row_columns = RowColumns(schema, options.bodies)
    pulled = client.read(
        options.pull_group,
        partition.ranges,
        row_columns.columns_to_pull,
        partition.creation_ids,
        options.message_filter,
        refuse_loss if partition.query_id is None else LossReport(lambda: client, partition.query_id).report,
    )
    for rows in pulled:
        yield from row_columns.make_batches(rows)


class LossReport:
    """Reports the losses that a query survives (``failOnDataLoss=false``): to the log, and to the broker.

    The broker counts lost rows by the id of the query, which the checkpoint keeps.
    """

    def __init__(self, client: Callable[[], BrokerClient], query_id: str) -> None:
        self.query_id = query_id
        self._client = client
        self._reported: dict[MessageQueue, Loss] = {}

    def report(self, loss: Loss) -> None:
        """Never raises, and skips a loss that it has just reported: each planning finds it until a batch is past it."""
        if self._reported.get(loss.queue) == loss:
            return
        self._reported[loss.queue] = loss
        _logger.warning("%s Because failOnDataLoss is false, the query %s.", loss.text, loss.resume)
        if loss.from_offset == loss.until_offset:
            return
        try:
            self._client().report_lost(self.query_id, [loss])
        except RmqpullError as error:
            _logger.warning("The broker did not count %d lost rows: %s", loss.until_offset - loss.from_offset, error)
