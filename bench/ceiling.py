"""A Python source with prepared batches, and a sink that drops all: the most that Spark can exchange with Python.

With the option ``endpoints``, tasks that read get the same batches over gRPC from ``bench.bare_grpc_server``, fetching
each while Spark takes the previous one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import grpc
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from bench.ready_batches import row_batch, rows_of_a_batch
from pyspark_rmqpull.schema import ROW_SCHEMA
from pyspark_rmqpull.spark_releases.release import DataSourceStreamArrowWriter, SupportsTriggerAvailableNow
from rmqpull_proto import rpc
from rmqpull_proto.columns import PULL_SCHEMA, write_stream
from rmqpull_proto.columns_response import ReceivedColumns
from rmqpull_proto.rmqpull.v1 import columns_pb2 as v1

_LIMITS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class CeilingSource(DataSource):
    """Options of reads: ``partitions``, ``rowsPerPartition``, ``bodyBytes``, ``endpoints``. Option of batch writes:
    ``rows``.
    """

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> StructType:
        return ROW_SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return _StreamReader(schema, self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        return _BatchReader(schema, self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return _DroppingWriter(int(self.options["rows"]))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:
        return _DroppingStreamWriter()


class _Ready:
    def __init__(self, schema: StructType, options: Any) -> None:
        self._names = schema.fieldNames()
        self._partitions = int(options["partitions"])
        self._rows = int(options["rowsPerPartition"])
        self._body_bytes = int(options["bodyBytes"])
        self._endpoints = options.get("endpoints")

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yields the same batch again and again. The last one may be smaller."""
        share = rows_of_a_batch(self._body_bytes)
        ready = row_batch(tuple(self._names), min(share, self._rows), self._body_bytes)
        batches = repeat(ready) if self._endpoints is None else _pull(self._endpoints, ready)
        for begin, batch in zip(range(0, self._rows, share), batches, strict=False):
            left = self._rows - begin
            yield batch if left >= share else batch.slice(0, left)

    def _parts(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(self._partitions)]


def prepare_server(endpoints: str, names: Sequence[str], body_bytes: int) -> None:
    """Gives a bare server the batch that tasks pull: the columns that a broker would send over the wire."""
    share = rows_of_a_batch(body_bytes)
    batch = row_batch(tuple(name for name in names if name in PULL_SCHEMA.names), share, body_bytes)
    with grpc.insecure_channel(endpoints, _LIMITS) as channel:
        request = v1.PublishColumnsRequest(arrow_ipc=write_stream(batch.schema, [batch]))
        _make_call(channel, "PublishColumns")(request)


def _pull(endpoints: str, ready: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields batches that a server sends, with the columns of ``ready`` that are not sent."""
    with grpc.insecure_channel(endpoints, _LIMITS) as channel:
        call = _make_call(channel, "PullColumns", ReceivedColumns)
        ahead = call.future(v1.PullColumnsRequest())
        while True:
            response = ahead.result()
            ahead = call.future(v1.PullColumnsRequest())
            with pa.ipc.open_stream(response.arrow_ipc) as stream:
                for batch in stream:
                    columns = [
                        batch[name] if name in batch.schema.names else ready[name] for name in ready.schema.names
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=ready.schema)


def _make_call(channel: grpc.Channel, name: str, response: Any = None) -> Any:
    method = rpc.COLUMNS.methods[name]
    return channel.unary_unary(method.path, method.request.SerializeToString, (response or method.response).FromString)


class _BatchReader(_Ready, DataSourceReader):
    def partitions(self) -> Sequence[InputPartition]:
        return self._parts()


class _StreamReader(_Ready, DataSourceStreamReader, SupportsTriggerAvailableNow):
    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def prepareForTriggerAvailableNow(self) -> None:
        """Does nothing, since there is only one batch."""

    def latestOffset(self, start: Any = None, limit: Any = None) -> dict[str, int]:
        # PySpark 4.0 and 4.1 pass neither.
        return {"rows": self._rows}

    def partitions(self, start: Any, end: Any) -> Sequence[InputPartition]:
        return self._parts() if start != end else []


@dataclass
class _Dropped(WriterCommitMessage):
    rows: int


class _DroppingWriter(DataSourceArrowWriter):
    """Drops all batches. The write fails unless Spark hands over so many rows."""

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Dropped(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        written = sum(message.rows for message in messages if isinstance(message, _Dropped))
        if written != self._rows:
            raise ValueError(f"Spark has written {written} rows instead of {self._rows}")


class _DroppingStreamWriter(DataSourceStreamArrowWriter):
    """Drops all batches of a query. Spark has the numbers of its rows."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return _Dropped(sum(batch.num_rows for batch in iterator))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        pass
