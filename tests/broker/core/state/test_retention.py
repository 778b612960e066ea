"""Which segments go: tables of ages and sizes."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.core.state.retention import ClosedSegment, find_cut, make_retention_limits

HOUR_MS = 3_600_000
CLOSED = [ClosedSegment(0, 100, 1_000), ClosedSegment(100, 200, 2_000), ClosedSegment(200, 300, 3_000)]
LOG_END = 350


@pytest.mark.parametrize(
    ("reserved_ms", "log_bytes_max", "now_ms", "position"),
    [
        (500, None, 1_500, None),  # as old as it may be
        (500, None, 1_501, 100),
        (500, None, 2_500, 100),
        (500, None, 2_501, 200),
        (500, None, 99_999, 300),  # the segment that is being written stays
        (0, None, 1_001, 100),
        (1 << 40, 350, 0, None),
        (1 << 40, 349, 0, 100),
        (1 << 40, 250, 0, 100),
        (1 << 40, 249, 0, 200),
        (1 << 40, 1, 0, 300),
        (500, 249, 1_501, 200),  # whichever wants more
        (500, 349, 2_501, 200),
    ],
)
def test_whole_segments_go_oldest_first(
    reserved_ms: int, log_bytes_max: int | None, now_ms: int, position: int | None
) -> None:
    assert find_cut(CLOSED, LOG_END, RetentionLimits(reserved_ms, log_bytes_max), now_ms) == position


def test_a_log_of_one_segment_stays() -> None:
    assert find_cut([], LOG_END, RetentionLimits(0, 0), 1 << 40) is None


def test_properties_tell_the_limits() -> None:
    assert make_retention_limits(BrokerProperties()) == (72 * HOUR_MS, None)
    assert make_retention_limits(BrokerProperties(file_reserved_time=1, retention_bytes=7)) == (HOUR_MS, 7)
