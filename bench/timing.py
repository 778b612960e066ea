"""How long Spark takes for a data frame."""

from __future__ import annotations

import tempfile
import time
from typing import NamedTuple

from pyspark.sql import DataFrame

from bench.comparison import Mismeasured

_READ_S_MAX = 1800
"""Much longer than any read of a benchmark."""


class StreamSeconds(NamedTuple):
    """The seconds of a stream from start to end, and of its micro-batches alone."""

    whole: float
    batches: float


def stream_seconds(stream: DataFrame, rows: int) -> float:
    """Reads a stream to its end into nothing, and checks the number of rows. The time contains planning and start."""
    return _read(stream, rows).whole


def batches_seconds(stream: DataFrame, rows: int) -> float:
    """Does the same, but returns only the time of the micro-batches."""
    return _read(stream, rows).batches


def _read(stream: DataFrame, rows: int) -> StreamSeconds:
    with tempfile.TemporaryDirectory() as checkpoint:
        writer = stream.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begun = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(_READ_S_MAX):
            query.stop()
            raise Mismeasured(f"the read has not ended within {_READ_S_MAX} s")
        took_s = time.perf_counter() - begun
        told = query.recentProgress
    read = sum(progress["numInputRows"] for progress in told)
    if read != rows:
        raise Mismeasured(f"read {read} rows instead of {rows}: the figure would mean nothing")
    return StreamSeconds(took_s, sum(progress["durationMs"].get("addBatch", 0) for progress in told) / 1000)


def batch_seconds(batch: DataFrame) -> float:
    """Reads a batch to its end into nothing. The time contains planning."""
    begun = time.perf_counter()
    batch.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun
