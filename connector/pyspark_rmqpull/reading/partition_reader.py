"""What a task gets and does: the ranges of one Spark partition, read as Arrow batches."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.ranges import assign_ranges
from pyspark_rmqpull.planning.splitting import Partition, split_by_bytes, split_partitions
from pyspark_rmqpull.reading.columns import RowColumns
from pyspark_rmqpull.reading.lost_rows import LossReport
from pyspark_rmqpull.worker import settle
from rmqpull_client.errors import OptionError, RmqpullError
from rmqpull_client.loss import refuse
from rmqpull_client.model import QueueRange
from rmqpull_client.transports.choice import connect
from rmqpull_client.transports.port import BrokerClient

_logger = logging.getLogger(__name__)


@dataclass
class QueueRangesPartition(InputPartition):
    """Everything a task needs: nothing else reaches it from the driver.

    ``creation_ids`` are those of the topics for which the ranges were planned; ``query_id`` names the query when it
    goes on after a loss.
    """

    ranges: tuple[QueueRange, ...]
    creation_ids: dict[str, str] = field(default_factory=dict)
    query_id: str | None = None


def tasks_of(
    ranges: Iterable[QueueRange],
    creation_ids: Mapping[str, str],
    options: SourceOptions,
    client: Callable[[], BrokerClient],
    query_id: str | None = None,
) -> list[QueueRangesPartition]:
    """The tasks that read these ranges: what allocation gives each consumer, cut where that is too much for one.

    Raises OptionError. ``client`` is called only for a limit of bytes.
    """
    whole: Sequence[Partition] = assign_ranges(ranges, options.allocation)
    if options.max_bytes_per_partition is not None:
        whole = _cut_by_bytes(whole, options.max_bytes_per_partition, client)
    parts = split_partitions(whole, options.min_partitions, options.max_records_per_partition)
    return [QueueRangesPartition(part, dict(creation_ids), query_id) for part in parts]


def _cut_by_bytes(
    whole: Sequence[Partition], bytes_max: int, client: Callable[[], BrokerClient]
) -> Sequence[Partition]:
    """The same messages in any case: a batch that Spark plans again may be cut otherwise when some are gone by then,
    and is not cut when nobody answers, for that ends the query here, while tasks may yet find the broker back."""
    try:
        return split_by_bytes(whole, bytes_max, client())
    except OptionError:
        raise
    except RmqpullError as error:
        _logger.warning("A micro-batch is not cut by maxBytesPerPartition: %s", error)
        return whole


def read_partition(
    partition: QueueRangesPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, batch by batch. Raises RmqpullError."""
    settle()
    client = connect(options.connection, options.flow)
    row_columns = RowColumns(schema, options.bodies)
    pulled = client.read(
        options.pull_group,
        partition.ranges,
        row_columns.wanted,
        partition.creation_ids,
        options.message_filter,
        refuse if partition.query_id is None else LossReport(lambda: client, partition.query_id).tell,
    )
    for rows in pulled:
        yield from row_columns.batches(rows)
