"""Stream readers for Sparks that pass neither a start nor a limit to ``latestOffset()``: PySpark 4.0 and 4.1."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from pyspark_rmqpull.options.micro_batch import PROCESSING_TIME, MicroBatchOptions
from pyspark_rmqpull.planning.offsets import add_latest
from pyspark_rmqpull.spark_releases.release import SPARK, SPARK_PASSES_LIMITS, ReadAllAvailable, ReadLimit
from rmqpull_client.errors import OptionError

_logger = logging.getLogger(__name__)


class AdmittingReader(Protocol):
    """A stream reader that applies limits itself, as PySpark 4.2 and newer call it."""

    def initialOffset(self) -> dict[str, Any]: ...
    def getDefaultReadLimit(self) -> ReadLimit: ...
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]: ...
    def reportLatestOffset(self) -> dict[str, Any] | None: ...
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]: ...
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]: ...


def make_stream_reader(reader: Any, options: MicroBatchOptions) -> DataSourceStreamReader:
    """Returns a reader that this Spark can run: ``reader`` itself if Spark passes limits."""
    adapted: DataSourceStreamReader = reader if SPARK_PASSES_LIMITS else SelfLimitingReader(reader, options)
    return adapted


class SelfLimitingReader(DataSourceStreamReader):
    """Gives a reader the start and the limit that Spark does not pass.

    The start is the end of the newest micro-batch that Spark has planned, including one that it runs again. Spark asks
    for the next end only when that micro-batch has finished. After a restart it first plans from the last logged end to
    itself, for each source; only a new query asks for an end before (rules 7.12).
    """

    def __init__(self, reader: AdmittingReader, options: MicroBatchOptions) -> None:
        self._reader = reader
        self._is_limited = options.limits.is_limited
        self._applies_limits = self._is_limited and options.trigger == PROCESSING_TIME
        self._trigger = options.trigger
        self._planned: dict[str, Any] | None = None
        self._has_answered = False
        self._is_logged = False

    def initialOffset(self) -> dict[str, Any]:
        """The offset before the first batch."""
        return self._reader.initialOffset()

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]  # as older Sparks call it
        """Plans the end of the next batch. Raises OptionError in AvailableNow's wrapper, and what the reader raises."""
        if self._has_answered and self._planned is None:
            _refuse_wrapper()
        self._has_answered = True
        start = self._reader.initialOffset() if self._planned is None else self._planned
        limit = self._reader.getDefaultReadLimit() if self._applies_limits else ReadAllAvailable()
        end = self._reader.latestOffset(start, limit)
        if end == start:
            return start
        latest = self._reader.reportLatestOffset()
        end, unread = (end, 0) if latest is None else add_latest(end, latest)
        self._log_limits(unread)
        return end

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of the batch between two offsets. Raises OptionError in AvailableNow's wrapper."""
        if self._has_answered and self._planned is None and start != self._reader.initialOffset():
            _refuse_wrapper()
        self._planned = end
        return [] if start == end else self._reader.partitions(start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task."""
        return self._reader.read(partition)

    def _log_limits(self, unread: int) -> None:
        """Logs once in a run what a trigger does to the limits."""
        if self._is_logged or not self._is_limited or (self._applies_limits and not unread):
            return
        self._is_logged = True
        if self._applies_limits:
            _logger.warning(
                "The limits leave %d messages to the next micro-batches. If this query has the trigger AvailableNow or "
                "Once, they stay unread, because %s runs one micro-batch then: run the query again, drain it with "
                "pyspark_rmqpull.drain, or set option trigger to availableNow, which ignores the limits",
                unread,
                SPARK,
            )
        else:
            _logger.warning(
                "Option trigger is %s, so this query ignores its limits and reads everything in one micro-batch, as "
                "%s runs this trigger. To keep the limits, use pyspark_rmqpull.drain",
                self._trigger,
                SPARK,
            )


def _refuse_wrapper() -> None:
    """Refuses a call order in which the source cannot know its start."""
    raise OptionError(
        "Spark asks for the end of the query's first micro-batch before it says where the query has stopped: "
        "spark.sql.streaming.triggerAvailableNowWrapper.enabled is on. Then rows would be lost or read twice, so the "
        f"source refuses it on {SPARK}. Set it to false; AvailableNow then runs as one micro-batch. Or use PySpark 4.2 "
        "or newer, which needs no wrapper for this source."
    )
