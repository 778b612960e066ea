"""How far a micro-batch may go at most: to the ends of its queues, or to those that AvailableNow saw first."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.planning.loss import refuse_cut_plan
from rmqpull_client.model import MessageQueue


class BatchEnds:
    """Remembers the ends of AvailableNow."""

    def __init__(self) -> None:
        self.is_available_now = False
        self._planned: Mapping[MessageQueue, int] | None = None

    def reachable(
        self, begin: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], may_lose: bool
    ) -> dict[MessageQueue, int]:
        """Where a batch that begins there may end; never before its begin.

        Raises DataLoss for a queue that ends before what was planned, unless that may be lost.
        """
        if self.is_available_now:
            ends = self._kept(ends, may_lose)
        # A queue that came after AvailableNow took its ends stays where it begins, and so does one that is gone.
        return {queue: max(start, ends.get(queue, start)) for queue, start in begin.items()}

    def _kept(self, ends: Mapping[MessageQueue, int], may_lose: bool) -> Mapping[MessageQueue, int]:
        if self._planned is None:
            self._planned = ends
        if not may_lose:
            refuse_cut_plan(self._planned, ends)
            return self._planned
        # What has gone since is not waited for.
        return {queue: min(end, ends.get(queue, end)) for queue, end in self._planned.items()}
