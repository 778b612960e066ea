"""What a task gets and does: the ranges of one Spark partition, read as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.client import connect
from pyspark_rmqpull.columns import RowColumns
from pyspark_rmqpull.loss import refuse
from pyspark_rmqpull.lost_rows import LossReport
from pyspark_rmqpull.model import QueueRange
from pyspark_rmqpull.options import SourceOptions
from pyspark_rmqpull.planning import assign_ranges
from pyspark_rmqpull.splitting import split_partitions


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
    query_id: str | None = None,
) -> list[QueueRangesPartition]:
    """The tasks that read these ranges: what allocation gives each consumer, cut where that is too much for one."""
    parts = split_partitions(
        assign_ranges(ranges, options.allocation), options.min_partitions, options.max_records_per_partition
    )
    return [QueueRangesPartition(part, dict(creation_ids), query_id) for part in parts]


def read_partition(
    partition: QueueRangesPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, batch by batch. Raises RmqpullError."""
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
        yield row_columns.batch(rows)
