"""The tasks of a micro-batch or a batch read: what each gets from the driver, and how it reads that."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.row_columns import RowColumns
from pyspark_rmqpull.worker import prepare_worker
from rmqpull_client.errors import RmqpullError
from rmqpull_client.loss import Loss, refuse_loss
from rmqpull_client.model import MessageQueue, QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.reached import Reached, take_over_reached

_logger = logging.getLogger(__name__)


@dataclass
class QueueRangesPartition(InputPartition):
    """All that a task gets from the driver.

    ``creation_ids`` are those of the topics for which the driver planned the ranges. ``query_id`` is the id under which
    the task reports losses, or None when a loss ends the query. ``reached`` is what the driver has reached: the task
    waits for it when it is away, even in a process that has just started.
    """

    ranges: tuple[QueueRange, ...]
    creation_ids: dict[str, str] = field(default_factory=dict)
    query_id: str | None = None
    reached: Reached = field(default_factory=Reached)


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
