"""A Python source with prepared batches: the most that Spark can take from any Python source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from bench.ready_batches import row_batch, rows_of_a_batch
from pyspark_rmqpull.schema import ROW_SCHEMA


class CeilingSource(DataSource):
    """Options: ``partitions``, ``rowsPerPartition``, ``bodyBytes``."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(schema, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(schema, self.options)


class _Ready:
    def __init__(self, schema: StructType, options: Any) -> None:
        self._names = schema.fieldNames()
        self._partitions = int(options["partitions"])
        self._rows = int(options["rowsPerPartition"])
        self._body_bytes = int(options["bodyBytes"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the same batch again and again. The last one may be smaller."""
        share = rows_of_a_batch(self._body_bytes)
        ready = row_batch(tuple(self._names), min(share, self._rows), self._body_bytes)
        for begin in range(0, self._rows, share):
            left = self._rows - begin
            yield ready if left >= share else ready.slice(0, left)

    def _parts(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]


class _BatchReader(_Ready, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return self._parts()


class _StreamReader(_Ready, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Does nothing, since there is only one batch."""

    def latestOffset(self, start: Any, limit: Any) -> dict[str, int]:
        return {"rows": self._rows}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return self._parts() if start != end else []
