"""The ids that messages get which may be sent again (see ``repeats``).

The id of a row does not depend on the order of the rows: it is the task's partition, a digest of the row, and how many
equal rows the task had before. Rows whose values differ from attempt to attempt (``rand()``, ``current_timestamp()``),
or that come to another partition, are new rows.
"""

from __future__ import annotations

import hashlib
from collections import Counter

import pyarrow as pa

from pyspark_rmqpull.sink.encoding import plain_rows
from pyspark_rmqpull.sink.repeats import BATCH_ID, ROW_ID, WRITER_ID
from rmqpull_proto import columns as wire

_DIGEST_BYTES = 12


class RowIds:
    """Gives the rows of one attempt of a task their ids; it remembers a digest of each different row."""

    def __init__(self, writer_id: str, batch_id: int | None, partition_id: int) -> None:
        self._fixed = [(WRITER_ID, writer_id), *([(BATCH_ID, str(batch_id))] if batch_id is not None else [])]
        self._partition_id = partition_id
        self._seen: Counter[bytes] = Counter()

    def added(self, topic: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the ids among their properties."""
        properties = []
        for row in plain_rows(rows):
            own = sorted(row.pop("properties", None) or ())  # Spark keeps no order in a map
            properties.append([*own, *self._fixed, (ROW_ID, self._row_id(f"{topic}/{own!r}/{row!r}"))])
        column = pa.array(properties, wire.PROPERTIES)
        if "properties" in rows.schema.names:
            return rows.set_column(rows.schema.get_field_index("properties"), "properties", column)
        return rows.append_column("properties", column)

    def _row_id(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).digest()
        self._seen[digest] += 1
        return f"{self._partition_id}-{digest.hex()}-{self._seen[digest]}"
