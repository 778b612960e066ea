"""The size of one micro-batch after the other: what a query remembers from one to the next for its limits.

All of it is lost with the process: a query that is restarted runs at once, as Kafka's source does (rules 8.4).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.planning.admission import Limits, limit_bytes, limit_rows, waiting_rows
from rmqpull_client.model import MessageQueue
from rmqpull_client.transports.port import RangeCutter


class BatchSizing:
    """Says when a micro-batch runs and how far it goes. ``now_ms`` is any clock that only goes forward."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._ran_ms: int | None = None
        self._passed_over: tuple[MessageQueue, ...] = ()

    def delay_ms(self, starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], now_ms: int) -> int:
        """How long a batch may still be put off to gather messages; 0 when it is to run now.

        The first one runs, and so does one for which enough waits, or that comes ``maxTriggerDelay`` after the last
        one that had messages: a batch without any does not begin the delay anew.
        """
        rows_min = self._limits.rows_min
        if rows_min is None or self._ran_ms is None or waiting_rows(starts, ends) >= rows_min:
            return 0
        return max(self._ran_ms + self._limits.delay_max_ms - now_ms, 0)

    def admit(
        self,
        starts: Mapping[MessageQueue, int],
        ends: Mapping[MessageQueue, int],
        cutter: RangeCutter,
        now_ms: int,
    ) -> dict[MessageQueue, int]:
        """Where the queues end in the batch that runs now: no limit is exceeded, neither that of messages nor of bytes.

        Raises what asking the broker raises.
        """
        limits, reached = self._limits, dict(ends)
        if limits.rows_max is not None:
            reached = limit_rows(starts, reached, limits.rows_max)
        if limits.bytes_max is not None:
            reached, self._passed_over = limit_bytes(starts, reached, limits.bytes_max, cutter, self._passed_over)
        if waiting_rows(starts, reached) > 0:
            self._ran_ms = now_ms
        return reached
