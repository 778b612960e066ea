"""The executor's side: reads the ranges of one Spark partition as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_rmqpull.client import connect
from pyspark_rmqpull.columns import RowColumns
from pyspark_rmqpull.model import QueueRange
from pyspark_rmqpull.options import SourceOptions


@dataclass
class QueueRangesPartition(InputPartition):
    """Everything a task needs: nothing else reaches it from the driver.

    ``creation_ids`` are those of the topics for which the ranges were planned.
    """

    ranges: tuple[QueueRange, ...]
    creation_ids: dict[str, str] = field(default_factory=dict)


def read_partition(
    partition: QueueRangesPartition, options: SourceOptions, schema: StructType
) -> Iterator[pa.RecordBatch]:
    """The messages of a partition's ranges, batch by batch. Raises RmqpullError."""
    client = connect(options.endpoints, options.request_timeout_ms, options.pull_batch_size)
    row_columns = RowColumns(schema)
    for rows in client.read(options.pull_group, partition.ranges, row_columns.wanted, partition.creation_ids):
        yield row_columns.batch(rows)
