"""Dropping repeats: readers of an at-least-once write recognize them by ids that each message carries.

An at-least-once write sends the rows of a task again when Spark retries the task. Each message has the id of its query
(or of the batch write), the number of its micro-batch, and an id of its row (see ``row_ids``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqpull_client.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WRITER_ID, BATCH_ID, ROW_ID = "rmqpullWriterId", "rmqpullBatchId", "rmqpullRowId"
"""The user properties with the ids."""
ID_PROPERTIES = frozenset((WRITER_ID, BATCH_ID, ROW_ID))

_QUEUE_OFFSET = ("topic", "brokerName", "queueId", "queueOffset")
_ID = "rmqpullId"


def without_repeats(rows: DataFrame) -> DataFrame:
    """Returns rows of the source without those that an at-least-once sink has sent again.

    A stream needs a watermark, such as ``withWatermark("storeTimestamp", "1 hour")``. It says how long ids are
    remembered; later repeats are not recognized. All messages without ids stay: they come from other producers. Rows
    whose values differ from attempt to attempt (``rand()``, ``current_timestamp()``) are not repeats of each other.

    Raises OptionError for rows without the columns ``properties``, ``topic``, ``brokerName``, ``queueId`` and
    ``queueOffset``.
    """
    from pyspark.sql import functions as f

    missing = [name for name in ("properties", *_QUEUE_OFFSET) if name not in rows.columns]
    if missing:
        raise OptionError(
            f"without_repeats needs the column{'s' * (len(missing) > 1)} {', '.join(missing)}, which the rows do not "
            "have. Call it on rows as the source returns them, and select columns afterwards."
        )
    ids = [f.col("properties")[name] for name in (WRITER_ID, BATCH_ID, ROW_ID)]
    queue_offset = f.when(ids[-1].isNull(), f.struct(*_QUEUE_OFFSET))
    with_id = rows.withColumn(_ID, f.struct(*ids, queue_offset))
    once = with_id.dropDuplicatesWithinWatermark([_ID]) if rows.isStreaming else with_id.dropDuplicates([_ID])
    return once.drop(_ID)
