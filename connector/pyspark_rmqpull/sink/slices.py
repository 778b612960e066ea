"""Decides how many rows a call puts into one queue at least, if nothing places them.

Large parts cost a broker and its readers less for each row, but a small write would leave queues without rows.
"""

from __future__ import annotations

from collections import Counter

from rmqpull_client.transports.port import SPREAD_EVENLY, Producer, SliceRows, TopicParts

LARGE_SLICE_ROWS = 1_024
"""Rows of a slice, once a task has written more than so many to the topic for each of its queues."""


class SliceChoice:
    """The choice for the calls of one task. ``rows_min`` is option ``minRecordsPerQueue``."""

    def __init__(self, producer: Producer, rows_min: int | None) -> None:
        self._producer = producer
        self._rows_min = rows_min
        self._row_counts = Counter[str]()
        self._queue_counts: dict[str, int] = {}

    def count_rows(self, parts: TopicParts) -> None:
        """Counts the rows of a new call, before its slices are chosen."""
        for topic, count in parts:
            self._row_counts[topic] += count

    def choose_slices(self, parts: TopicParts) -> SliceRows:
        """Returns the least rows of a slice for the topics of a call. Raises what ``Producer.count_queues`` raises."""
        if not self._producer.abilities.takes_slice_rows:
            return SPREAD_EVENLY
        if self._rows_min is not None:
            return dict.fromkeys((topic for topic, _ in parts), self._rows_min)
        return {topic: LARGE_SLICE_ROWS for topic, _ in parts if self._is_large(topic)}

    def _is_large(self, topic: str) -> bool:
        """Whether the task has written enough rows. The server is asked once for the number of a topic's queues."""
        row_count = self._row_counts[topic]
        if row_count <= LARGE_SLICE_ROWS:
            return False
        if topic not in self._queue_counts:
            self._queue_counts[topic] = self._producer.count_queues(topic)
        return row_count > LARGE_SLICE_ROWS * self._queue_counts[topic]
