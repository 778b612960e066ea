"""A Python source whose batches are ready before anybody asks: what Spark takes of any source at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_rmqpull.client.port import QueueRows
from pyspark_rmqpull.columns import RowColumns
from pyspark_rmqpull.model import MessageQueue
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_proto.columns import PULL_SCHEMA

BATCH_ROWS = 10_000


def bodies(count: int, size: int) -> pa.Array:
    """``count`` bodies of ``size`` bytes, each different."""
    return pa.array([f"{number:0{size}d}".encode() for number in range(count)], pa.binary())


class CeilingSource(DataSource):
    """Options: ``partitions``, ``batchesPerPartition``, ``bodyBytes``."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _CeilingReader(
            schema,
            int(self.options["partitions"]),
            int(self.options["batchesPerPartition"]),
            int(self.options["bodyBytes"]),
        )


class _CeilingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, schema: StructType, partitions: int, batches: int, body_bytes: int) -> None:
        self._schema = schema
        self._partitions = partitions
        self._batches = batches
        self._body_bytes = body_bytes

    def initialOffset(self) -> dict[str, int]:
        return {"batches": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """There is one batch in any case."""

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        return {"batches": self._batches}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions if start != end else 0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        given = {
            "body": bodies(BATCH_ROWS, self._body_bytes),
            "queueOffset": pa.array(range(BATCH_ROWS), pa.int64()),
            "msgId": pa.array([f"{number:034X}" for number in range(BATCH_ROWS)], pa.string()),
            "properties": pa.array([[]] * BATCH_ROWS, PULL_SCHEMA.field("properties").type),
        }
        for name in ("bornTimestamp", "storeTimestamp"):
            given[name] = pa.array([1_700_000_000_000_000] * BATCH_ROWS, PULL_SCHEMA.field(name).type)
        for name in ("bornHost", "storeHost"):
            given[name] = pa.array(["127.0.0.1:8081"] * BATCH_ROWS, pa.string())
        columns = [given.get(field.name, pa.nulls(BATCH_ROWS, field.type)) for field in PULL_SCHEMA]
        pulled = pa.RecordBatch.from_arrays(columns, schema=PULL_SCHEMA)
        ready = RowColumns(self._schema).batch([QueueRows(MessageQueue("bench", "broker-a", 0), [pulled])])
        for _ in range(self._batches):
            yield ready
