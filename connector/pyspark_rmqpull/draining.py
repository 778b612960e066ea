"""Reading a backlog to its end within limits, on every Spark: ``pyspark_rmqpull.drain``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pyspark_rmqpull.lag.query_lag import QueryLag, QueueLag, lag

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

_Place = tuple[int, Any]


def drain(writer: DataStreamWriter) -> QueryLag:
    """Runs a query with the trigger AvailableNow until it has read all that its topics have now.

    ``writer`` is the query as it would be started, with its checkpoint and without a trigger. Each run keeps the limits
    of the source. PySpark 4.0 and 4.1 run one micro-batch in each run, so ``drain`` runs the query again and again, and
    the source needs ``option("trigger", "processingTime")`` with its limits there. PySpark 4.2 and newer do it in one
    run. A last run, with whatever has arrived meanwhile, sets the consumer offsets of the micro-batch before it.

    Returns the lag at the end; one without queues if Spark has reported none. Raises the error of a
    run, which leaves the checkpoint where it is: call ``drain`` again.
    """
    last, wanted = QueryLag(), dict[_Place, int]()
    while True:
        progresses = _run(writer)
        was_drained = bool(wanted) and all(_reached(last).get(at, end) >= end for at, end in wanted.items())
        lags = [found for found in map(lag, progresses) if found.queues]
        last = lags[-1] if lags else last
        if was_drained or not any(map(_has_advanced, progresses)):
            return last
        if lags and not wanted:
            wanted = {_place(queue): queue.latest_offset for queue in lags[0].queues}


def _run(writer: DataStreamWriter) -> list[Mapping[str, Any]]:
    query: StreamingQuery = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination()
    finally:
        query.stop()
    return list(query.recentProgress)


def _has_advanced(progress: Mapping[str, Any]) -> bool:
    """Whether a micro-batch ran. An idle query may report a progress, too."""
    return any(source["startOffset"] != source["endOffset"] for source in progress["sources"])


def _place(queue: QueueLag) -> _Place:
    return queue.source, queue.queue


def _reached(found: QueryLag) -> dict[_Place, int]:
    return {_place(queue): queue.next_offset for queue in found.queues}
