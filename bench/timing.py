"""How long Spark takes for a data frame."""

from __future__ import annotations

import tempfile
import time
from typing import NamedTuple

from pyspark.sql import DataFrame

from bench.comparison import Mismeasured

_READ_S_MAX = 1800
"""No read of a benchmark takes nearly as long."""


class StreamSeconds(NamedTuple):
    """How long a stream took from its start to its end, and the micro-batches alone."""

    whole: float
    batches: float


def stream_seconds(stream: DataFrame, rows: int) -> float:
    """Reads a stream to its end into nothing, and checks that ``rows`` came; planning and the start count too."""
    return _read(stream, rows).whole


def batches_seconds(stream: DataFrame, rows: int) -> float:
    """The same, but only the time counts in which Spark carried out micro-batches."""
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
    """Reads a batch to its end into nothing; planning counts too."""
    begun = time.perf_counter()
    batch.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begun
