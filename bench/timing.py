"""How long Spark takes for a data frame."""

from __future__ import annotations

import tempfile
import time

from comparison import Mismeasured
from pyspark.sql import DataFrame


def stream_seconds(stream: DataFrame, rows: int) -> float:
    """Reads a stream to its end into nothing, and checks that ``rows`` came; planning and the start count too."""
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begun = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        took_s = time.perf_counter() - begun
        read = sum(progress["numInputRows"] for progress in query.recentProgress)
    if read != rows:
        raise Mismeasured(f"read {read} rows instead of {rows}: the figure would mean nothing")
    return took_s


def batch_seconds(batch: DataFrame) -> float:
    """Reads a batch to its end into nothing; planning counts too."""
    begun = time.perf_counter()
    batch.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun
