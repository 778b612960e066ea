"""How far a micro-batch goes: limits of a trigger shared among queues, by Spark's own rule for Kafka."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark_rmqpull.model import MessageQueue


def limit_rows(
    starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], rows_max: int
) -> dict[MessageQueue, int]:
    """The end of each queue when about ``rows_max`` rows are admitted over all of them.

    Each queue gets its share of the limit in proportion to what waits in it, at least one row so that none starves
    (``KafkaMicroBatchStream.rateLimit``, connectors § 2.4). Rounding makes the sum approximate; integers do not
    overflow here.
    """
    waiting = {queue: end - starts[queue] for queue, end in ends.items() if end > starts[queue]}
    total = sum(waiting.values())
    if total <= rows_max:
        return dict(ends)
    admitted = {queue: max(1, rows_max * size // total) for queue, size in waiting.items()}
    return {queue: min(end, starts[queue] + admitted.get(queue, 0)) for queue, end in ends.items()}
