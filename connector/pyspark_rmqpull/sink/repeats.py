"""Dropping repeats: readers of an at-least-once write recognize them by ids that each message carries.

An at-least-once write sends the rows of a task again when Spark retries the task. Each message has an id, which is the
same when its row is sent again (see ``row_ids``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqpull_client.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ID = "rmqpullId"
"""The user property with the id."""
_EARLIER_IDS = ("rmqpullWriterId", "rmqpullBatchId", "rmqpullRowId")
"""The user properties that identified a row together before there was ``ID``."""
ID_PROPERTIES = frozenset((ID, *_EARLIER_IDS))
"""What a row that is read and written again loses."""

_QUEUE_OFFSET = ("topic", "brokerName", "queueId", "queueOffset")


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
    ids = [f.col("properties")[name] for name in (ID, *_EARLIER_IDS)]
    queue_offset = f.when(ids[0].isNull() & ids[-1].isNull(), f.struct(*_QUEUE_OFFSET))
    with_id = rows.withColumn(ID, f.struct(*ids, queue_offset))
    once = with_id.dropDuplicatesWithinWatermark([ID]) if rows.isStreaming else with_id.dropDuplicates([ID])
    return once.drop(ID)
