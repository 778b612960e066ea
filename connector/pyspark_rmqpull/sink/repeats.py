"""Ids by which readers tell what was sent twice, and how they leave it out.

At-least-once sends the rows of a task again when the task is tried again. Each message carries the id of its query (of
its write, for a batch), the number of its micro-batch, and an id of its row (see ``row_ids``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqpull_client.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITER_ID, BATCH_ID, ROW_ID = "rmqpullWriterId", "rmqpullBatchId", "rmqpullRowId"
"""Names of the user properties."""
ID_PROPERTIES = frozenset((WRITER_ID, BATCH_ID, ROW_ID))

_POSITION = ("topic", "brokerName", "queueId", "queueOffset")
_ID = "rmqpullId"


def without_repeats(rows: DataFrame) -> DataFrame:
    """Rows of the source, of which those that an at-least-once sink has sent again are left out.

    A stream needs a watermark, as ``withWatermark("storeTimestamp", "1 hour")``: repeats that come later than that are
    not found, and what it says is how long ids are remembered. Messages without ids, of other producers, all stay.
    Rows whose values differ from attempt to attempt (``rand()``, ``current_timestamp()``) are no repeats of each other.
    Raises OptionError for rows without the columns ``properties``, ``topic``, ``brokerName``, ``queueId`` and
    ``queueOffset``.
    """
    from pyspark.sql import functions as f

    missing = [name for name in ("properties", *_POSITION) if name not in rows.columns]
    if missing:
        raise OptionError(
            f"Repeats are told by the column{'s' * (len(missing) > 1)} {', '.join(missing)}, which the rows do not "
            "have. Call without_repeats on rows as the source gives them, and select columns after it."
        )
    given = [f.col("properties")[name] for name in (WRITER_ID, BATCH_ID, ROW_ID)]
    position = f.when(given[-1].isNull(), f.struct(*_POSITION))
    marked = rows.withColumn(_ID, f.struct(*given, position))
    kept = marked.dropDuplicatesWithinWatermark([_ID]) if rows.isStreaming else marked.dropDuplicates([_ID])
    return kept.drop(_ID)
