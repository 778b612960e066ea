"""How far a query is behind the ends of its queues, from what Spark tells of its newest micro-batch.

Spark's Python sources have no metrics (rules 7.8); the numbers are those of Kafka's source
(rules 8.8), from ``sources[].endOffset`` and ``sources[].latestOffset``, which this connector writes.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

from pyspark_rmqpull.planning.offsets import QueueOffsets, flatten_offsets
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

TABLE_ROWS_MAX = 20
"""Queues that a printed lag shows, the furthest behind; a terminal has no more."""

_HEAD = ("source", "queue", "next", "latest", "behind", "lost")


class QueueLag(NamedTuple):
    """One queue of one source; ``source`` is the source's place among those of its query."""

    source: int
    queue: MessageQueue
    next_offset: int
    """The offset of the next message that the query will read."""
    latest_offset: int
    """The end of the queue when the micro-batch was planned."""
    rows_lost: int = 0
    """Rows that were gone before they were read, as far as the server counts them."""

    @property
    def offsets_behind(self) -> int:
        """Offsets between the query and the end, also those that a filter will pass over."""
        return max(0, self.latest_offset - self.next_offset)


@dataclass(frozen=True)
class QueryLag:
    """How far a query was behind when a micro-batch was finished, measured by the ends that its planning saw.

    Without queues there is nothing to say yet, or no source of the query is rmqpull; minimum, maximum and average are
    None then. ``timestamp`` is when Spark began to plan, in ISO 8601.
    """

    queues: tuple[QueueLag, ...] = ()
    query_id: str = ""
    name: str | None = None
    batch_id: int | None = None
    timestamp: str = ""

    @property
    def min_offsets_behind_latest(self) -> int | None:
        """The lag of the queue that is nearest to its end."""
        return min((queue.offsets_behind for queue in self.queues), default=None)

    @property
    def max_offsets_behind_latest(self) -> int | None:
        """The lag of the queue that is furthest behind."""
        return max((queue.offsets_behind for queue in self.queues), default=None)

    @property
    def avg_offsets_behind_latest(self) -> float | None:
        """The average lag of a queue."""
        return self.offsets_behind_latest / len(self.queues) if self.queues else None

    @property
    def offsets_behind_latest(self) -> int:
        """The lag of all queues together."""
        return sum(queue.offsets_behind for queue in self.queues)

    @property
    def rows_lost(self) -> int:
        """Rows lost in all queues since the query began, as far as the server counts them."""
        return sum(queue.rows_lost for queue in self.queues)

    @property
    def metrics(self) -> dict[str, str]:
        """What Spark's Kafka source has in ``sources[].metrics``, in its names and as its texts; empty when unknown."""
        numbers = {
            "minOffsetsBehindLatest": self.min_offsets_behind_latest,
            "maxOffsetsBehindLatest": self.max_offsets_behind_latest,
            "avgOffsetsBehindLatest": self.avg_offsets_behind_latest,
        }
        return {name: str(number) for name, number in numbers.items() if number is not None}

    @property
    def label(self) -> str:
        """The query's name, or its id when it has none."""
        return self.name or self.query_id

    def of_source(self, source: int) -> QueryLag:
        """The part of one source, by its place among the query's sources."""
        return replace(self, queues=tuple(queue for queue in self.queues if queue.source == source))

    def summary(self) -> str:
        """One line."""
        if not self.queues:
            return f"query {self.label or '?'}: nothing is known of queues of rmqpull yet"
        return (
            f"query {self.label}, batch {self.batch_id}: queues {len(self.queues)}, behind latest "
            f"{self.offsets_behind_latest} (min {self.min_offsets_behind_latest}, "
            f"max {self.max_offsets_behind_latest}, avg {self.avg_offsets_behind_latest:.1f}), "
            f"rows lost {self.rows_lost}"
        )

    def __str__(self) -> str:
        shown = heapq.nlargest(TABLE_ROWS_MAX, self.queues, key=lambda queue: queue.offsets_behind)
        rows = [(*map(str, queue[:4]), str(queue.offsets_behind), str(queue.rows_lost)) for queue in sorted(shown)]
        lines = [*_aligned([_HEAD, *rows])] if rows else []
        if len(shown) < len(self.queues):
            lines.append(f"and {len(self.queues) - len(shown)} queues that are not further behind")
        return "\n".join([self.summary(), *lines])


class Query(Protocol):
    """What is asked of a ``StreamingQuery``."""

    @property
    def lastProgress(self) -> Mapping[str, Any] | None:
        """What Spark tells of the newest micro-batch."""


def lag(of: Query | Mapping[str, Any] | None) -> QueryLag:
    """How far behind a query is; ``of`` is the query, its ``lastProgress``, or any other progress of it.

    Sources that are not rmqpull are passed over. Raises TypeError for anything else than a query or a progress.
    """
    progress = getattr(of, "lastProgress", of)
    if progress is None:
        return QueryLag()
    if not isinstance(progress, Mapping):
        raise TypeError(f"lag() takes a streaming query or its progress, not {type(of).__name__}.")
    sources = progress.get("sources") or ()
    return QueryLag(
        tuple(queue for place, source in enumerate(sources) for queue in _queues(place, source)),
        str(progress.get("id") or ""),
        progress.get("name"),
        progress.get("batchId"),
        str(progress.get("timestamp") or ""),
    )


def _queues(place: int, source: Mapping[str, Any]) -> Iterator[QueueLag]:
    """The queues of a source, none where it is not ours: nothing but the form of its offsets tells."""
    try:
        latest_form = _form(source.get("latestOffset"))
        end, latest = QueueOffsets.from_json(_form(source.get("endOffset"))), QueueOffsets.from_json(latest_form)
        rows_lost = flatten_offsets(latest_form.get("rowsLost", {}))
    except (OptionError, TypeError, ValueError, AttributeError, OverflowError):
        return
    for queue, latest_offset in sorted(latest.offsets.items()):
        if queue in end.offsets:
            yield QueueLag(place, queue, end.offsets[queue], latest_offset, rows_lost.get(queue, 0))


def _form(offset: Any) -> Any:
    """An offset as Spark hands it on: JSON or a text of it; foreign sources have any text."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except (ValueError, RecursionError):
        return None


def _aligned(rows: list[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for source, queue, *numbers in rows:
        cells = [source.ljust(widths[0]), queue.ljust(widths[1])]
        yield "  ".join(cells + [number.rjust(width) for number, width in zip(numbers, widths[2:], strict=True)])
