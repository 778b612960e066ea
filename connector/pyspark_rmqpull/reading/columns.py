"""Pulled columns as the Arrow batches that Spark takes, in the one schema that a query asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from pyspark_rmqpull.options.selection import BODIES_UNPACKED
from pyspark_rmqpull.reading.bodies import BodyUnpacker
from rmqpull_client.transports.port import QueueRows
from rmqpull_client.transports.reading_ahead import BATCH_BYTES, BATCH_ROWS
from rmqpull_proto import columns as wire

# Constant within a queue, so they do not travel with the rows.
_OF_QUEUE: dict[str, pa.DataType] = {"topic": pa.string(), "brokerName": pa.string(), "queueId": pa.int32()}


class RowColumns:
    """Makes Spark's batches from pulled rows.

    Spark takes a batch only when its Arrow schema is exactly that of the first one (rules 7.9).
    """

    def __init__(self, schema: StructType, bodies: str = BODIES_UNPACKED) -> None:
        self._unpacker = BodyUnpacker(bodies)
        types = {field.name: field.type for field in wire.PULLABLE_SCHEMA} | _OF_QUEUE
        self._schema = pa.schema([(name, types[name]) for name in schema.fieldNames()])

    @property
    def wanted(self) -> list[str]:
        """The columns that must travel; never none, for rows are counted by them."""
        names = [name for name in self._schema.names if name not in _OF_QUEUE]
        if "body" in names:
            names += [name for name in self._unpacker.needed_columns if name not in names]
        return names or ["queueOffset"]

    def batches(self, rows: Sequence[QueueRows]) -> Iterator[pa.RecordBatch]:
        """Batches of all rows, queue after queue: what was stored together in one goes on in one, without a copy."""
        return map(self._batch, _gathered(rows))

    def _batch(self, rows: Sequence[QueueRows]) -> pa.RecordBatch:
        arrays = [self._column(field, rows) for field in self._schema]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)

    def _column(self, field: pa.Field, rows: Sequence[QueueRows]) -> pa.Array:
        if field.name in _OF_QUEUE:
            pieces = [_repeated(_of_queue(entry, field.name), field.type, entry) for entry in rows]
        elif field.name == "body":
            pieces = [self._unpacker.bodies(entry.queue, batch) for entry in rows for batch in entry.batches]
        else:
            pieces = [batch.column(field.name) for entry in rows for batch in entry.batches]
        return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _gathered(rows: Sequence[QueueRows]) -> Iterator[list[QueueRows]]:
    """The same rows in groups: stored batches in their order, as many as make up one of Spark's."""
    group: list[QueueRows] = []
    row_count = byte_count = 0
    for queue, batches in rows:
        for batch in batches:
            row_count += batch.num_rows
            byte_count += batch.nbytes
            if group and (row_count > BATCH_ROWS or byte_count > BATCH_BYTES):
                yield group
                group, row_count, byte_count = [], batch.num_rows, batch.nbytes
            group.append(QueueRows(queue, [batch]))
    if group:
        yield group


def _of_queue(entry: QueueRows, name: str) -> Any:
    topic, broker_name, queue_id = entry.queue
    return {"topic": topic, "brokerName": broker_name, "queueId": queue_id}[name]


def _repeated(value: Any, data_type: pa.DataType, entry: QueueRows) -> pa.Array:
    return pa.repeat(pa.scalar(value, data_type), sum(batch.num_rows for batch in entry.batches))
