"""The lag of a query: how far it is behind the ends of its queues, from the progress of a micro-batch.

Spark's Python sources have no metrics (rules 7.8); the numbers are those of Kafka's source
(rules 8.8), from ``sources[].endOffset`` and ``sources[].latestOffset``, which this connector writes.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from pyspark_rmqpull.planning.offsets import QueueOffsets, flatten_offsets
from pyspark_rmqpull.spark_releases.progress import parse_offset
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

TABLE_ROWS_MAX = 20
"""How many queues a printed lag shows, those with the largest lag: about as many as fit on a terminal."""

_logger = logging.getLogger(__name__)
_HEAD = ("source", "queue", "next", "latest", "behind", "lost")


class QueueLag(NamedTuple):
    """The lag of one queue. ``source`` is the index of its source among those of the query."""

    source: int
    queue: MessageQueue
    next_offset: int
    """The offset of the next message that the query will read."""
    latest_offset: int
    """The max offset of the queue when the micro-batch was planned."""
    rows_lost: int | None = 0
    """Rows that were lost before the query read them. None if the server does not count them."""

    @property
    def offsets_behind(self) -> int:
        """The offsets from the query to the end, including messages that a filter will skip."""
        return max(0, self.latest_offset - self.next_offset)


@dataclass(frozen=True)
class QueryLag:
    """The lag of a query after a micro-batch: from its end to the ends of the queues when it was planned.

    There are no queues if the query has no rmqpull source, or no offsets yet. Then minimum, maximum and average are
    None. ``timestamp`` is the time at which Spark started to plan, in ISO 8601.
    """

    queues: tuple[QueueLag, ...] = ()
    query_id: str = ""
    name: str | None = None
    batch_id: int | None = None
    timestamp: str = ""

    @property
    def min_offsets_behind_latest(self) -> int | None:
        """The smallest lag of a queue."""
        return min((queue.offsets_behind for queue in self.queues), default=None)

    @property
    def max_offsets_behind_latest(self) -> int | None:
        """The largest lag of a queue."""
        return max((queue.offsets_behind for queue in self.queues), default=None)

    @property
    def avg_offsets_behind_latest(self) -> float | None:
        """The average lag of a queue."""
        return self.offsets_behind_latest / len(self.queues) if self.queues else None

    @property
    def offsets_behind_latest(self) -> int:
        """The sum of the lags of all queues."""
        return sum(queue.offsets_behind for queue in self.queues)

    @property
    def rows_lost(self) -> int | None:
        """Rows lost in all queues since the query started. None if a server does not count them."""
        counts = [queue.rows_lost for queue in self.queues]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def metrics(self) -> dict[str, str]:
        """The metrics of Spark's Kafka source (``sources[].metrics``), with its names, as texts; empty when unknown."""
        numbers = {
            "minOffsetsBehindLatest": self.min_offsets_behind_latest,
            "maxOffsetsBehindLatest": self.max_offsets_behind_latest,
            "avgOffsetsBehindLatest": self.avg_offsets_behind_latest,
        }
        return {name: str(number) for name, number in numbers.items() if number is not None}

    @property
    def label(self) -> str:
        """The name of the query, or its id if it has none."""
        return self.name or self.query_id

    def of_source(self, source: int) -> QueryLag:
        """The lag of one source, by its index among the query's sources."""
        return replace(self, queues=tuple(queue for queue in self.queues if queue.source == source))

    def summary(self) -> str:
        """The lag in one line."""
        if not self.queues:
            return f"query {self.label or '?'}: no lag is known yet"
        return (
            f"query {self.label}, batch {self.batch_id}: queues {len(self.queues)}, behind latest "
            f"{self.offsets_behind_latest} (min {self.min_offsets_behind_latest}, "
            f"max {self.max_offsets_behind_latest}, avg {self.avg_offsets_behind_latest:.1f}), "
            f"rows lost {_tell_count(self.rows_lost)}"
        )

    def __str__(self) -> str:
        shown = heapq.nlargest(TABLE_ROWS_MAX, self.queues, key=lambda queue: queue.offsets_behind)
        rows = [
            (*map(str, queue[:4]), str(queue.offsets_behind), _tell_count(queue.rows_lost)) for queue in sorted(shown)
        ]
        lines = [*_align([_HEAD, *rows])] if rows else []
        if len(shown) < len(self.queues):
            lines.append(f"and {len(self.queues) - len(shown)} more queues")
        return "\n".join([self.summary(), *lines])


class Query(Protocol):
    """The part of a ``StreamingQuery`` that :func:`lag` uses."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        """The progress of the newest micro-batch."""


def lag(of: Query | Mapping[str, Any] | None) -> QueryLag:
    """Computes the lag of a query from the query, its ``lastProgress`` or another progress of it.

    Other sources than rmqpull are ignored. Raises TypeError for anything but a query or a progress.
    """
    progress = getattr(of, "lastProgress", of)
    if progress is None:
        return QueryLag()
    if not isinstance(progress, Mapping):
        raise TypeError(f"lag() takes a streaming query or its progress, not {type(of).__name__}.")
    sources = progress.get("sources") or ()
    found = QueryLag(
        tuple(queue for index, source in enumerate(sources) for queue in _find_queues(index, source)),
        str(progress.get("id") or ""),
        progress.get("name"),
        progress.get("batchId"),
        str(progress.get("timestamp") or ""),
    )
    if getattr(of, "isActive", None) is False and found.offsets_behind_latest and any(map(_has_no_report, sources)):
        _logger.warning(
            "Query %s has ended and leaves %d messages unread. This Spark runs the triggers AvailableNow and Once as "
            "one micro-batch, and option trigger=processingTime keeps the limits: run the query again, or use "
            "pyspark_rmqpull.drain",
            found.label,
            found.offsets_behind_latest,
        )
    return found


def _has_no_report(source: Mapping[str, Any]) -> bool:
    """Whether the latest ends are in the end of the micro-batch, because this Spark never asks the source for them."""
    end = parse_offset(source.get("endOffset"))
    return isinstance(end, Mapping) and "latestOffset" in end


def _find_queues(index: int, source: Mapping[str, Any]) -> Iterator[QueueLag]:
    """The lag of each queue of a source. Nothing for another source, which only the form of its offsets shows."""
    try:
        end = QueueOffsets.from_json(parse_offset(source.get("endOffset")))
        latest_form = parse_offset(source.get("latestOffset"))
        # On PySpark 4.0 and 4.1 it is the end of the micro-batch, which may contain the latest ends.
        latest_form = latest_form.get("latestOffset", latest_form)
        latest = QueueOffsets.from_json(latest_form)
        lost_form = latest_form.get("rowsLost", {})
        rows_lost = None if lost_form is None else flatten_offsets(lost_form)
    except (OptionError, TypeError, ValueError, AttributeError, OverflowError):
        return
    for queue, latest_offset in sorted(latest.offsets.items()):
        if queue in end.offsets:
            lost = None if rows_lost is None else rows_lost.get(queue, 0)
            yield QueueLag(index, queue, end.offsets[queue], latest_offset, lost)


def _tell_count(count: int | None) -> str:
    return "not counted" if count is None else str(count)


def _align(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for source, queue, *numbers in rows:
        cells = [source.ljust(widths[0]), queue.ljust(widths[1])]
        yield "  ".join(cells + [number.rjust(width) for number, width in zip(numbers, widths[2:], strict=True)])
