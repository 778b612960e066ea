"""How much one pull may evaluate, because all other requests wait while a SQL92 expression is evaluated.

A pull whose budget is spent ends at that message, like one that has scanned enough messages without a match. The client
pulls again from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from rmqpull_broker.core.filters.message_filter import MessageFilter

COST_MAX = 50_000
"""The most nodes of expressions that one pull, or one arrival of messages, evaluates: 10 to 35 ms."""
COMPILE_COST = 50
"""Compiling a node takes as long as evaluating this many."""


class FilterBudget:
    """The evaluations that one pull has left."""

    def __init__(self, message_filter: MessageFilter) -> None:
        self.filter = message_filter
        self._left = COST_MAX

    @property
    def is_spent(self) -> bool:
        """Whether no further message may be evaluated."""
        return self._left <= 0

    def take(self, row_count: int) -> bool:
        """Takes the cost of ``row_count`` distinct rows, if that much is left. Returns whether it was."""
        cost = row_count * self.filter.node_count
        if cost > self._left:
            return False
        self._left -= cost
        return True

    def split(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[pa.RecordBatch, pa.Array | None]]:
        """Yields batches in parts with their masks, at least one row, until the budget is spent."""
        for batch in batches:
            while batch.num_rows:
                if self.is_spent:
                    return
                mask, cost = self.filter.evaluate(batch, self._left)
                self._left -= cost
                row_count = batch.num_rows if mask is None else len(mask)
                yield batch.slice(0, row_count), mask
                batch = batch.slice(row_count)


class ArrivalBudget:
    """The evaluations left for matching arriving messages with the filters of parked pulls.

    When it is spent, pulls with other filters are woken unchecked, and evaluate the messages themselves.
    """

    def __init__(self) -> None:
        self._left = COST_MAX

    def take(self, message_filter: MessageFilter, row_count: int) -> bool:
        """Takes the most that evaluating ``row_count`` rows can cost. Returns whether enough was left."""
        self._left -= message_filter.node_count * (row_count + COMPILE_COST)
        return self._left >= 0
