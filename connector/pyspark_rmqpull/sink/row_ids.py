"""Ids by which readers tell what was sent twice: at-least-once sends the rows of a task again when it is tried again.

A message carries the id of its query (of its write, for a batch), the number of its micro-batch, and an id of its row
that does not depend on the order of the rows: the task's partition, a digest of the row, and how many equal rows the
task had before. Rows whose values differ from attempt to attempt (``rand()``, ``current_timestamp()``) are new rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import pyarrow as pa

from rmqpull_proto import columns as wire

WRITER_ID, BATCH_ID, ROW_ID = "rmqpullWriterId", "rmqpullBatchId", "rmqpullRowId"
"""Names of the user properties."""

_DIGEST_BYTES = 12


class RowIds:
    """Gives the rows of one attempt of a task their ids; it remembers a digest of each different row."""

    def __init__(self, writer_id: str, batch_id: int | None, partition_id: int) -> None:
        self._fixed = [(WRITER_ID, writer_id), *([(BATCH_ID, str(batch_id))] if batch_id is not None else [])]
        self._partition_id = partition_id
        self._seen: Counter[bytes] = Counter()

    def added(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the ids among their properties."""
        values = zip(*(rows.column(name).to_pylist() for name in rows.schema.names), strict=True)
        names = ",".join(rows.schema.names)
        given = rows.column("properties").to_pylist() if "properties" in rows.schema.names else [None] * rows.num_rows
        properties = [
            [*(own or ()), *self._fixed, (ROW_ID, self._row_id(f"{topic}/{names}/{row!r}"))]
            for own, row in zip(given, values, strict=True)
        ]
        column = pa.array(properties, wire.PROPERTIES)
        if "properties" in rows.schema.names:
            return rows.set_column(rows.schema.get_field_index("properties"), "properties", column)
        return rows.append_column("properties", column)

    def _row_id(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        self._seen[digest] += 1
        return f"{self._partition_id}-{digest.hex()}-{self._seen[digest]}"
