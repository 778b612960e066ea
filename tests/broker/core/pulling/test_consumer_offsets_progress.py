"""Where groups stand, beside queues that grow, shrink and go."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import Bounds, MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import QueueProgress

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.mark.parametrize(
    ("consumer_offset", "bounds", "lag"),
    [
        (0, (0, 5), 5),
        (5, (0, 5), 0),
        (6, (0, 5), 0),  # a reset may go one beyond the end
        (2, (4, 9), 7),  # two of them were deleted before they were consumed
        (None, (4, 9), 5),
        (None, (0, 0), 0),
    ],
)
def test_lag_counts_what_is_stored_and_not_yet_consumed(
    consumer_offset: int | None, bounds: tuple[int, int], lag: int
) -> None:
    assert QueueProgress("readers", QUEUE, consumer_offset, Bounds(*bounds)).lag == lag
