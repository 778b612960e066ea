"""``maxOffsetsPerTrigger``: Kafka's own vectors (connectors § 2.4), and what must hold for any others."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyspark_rmqpull.admission import limit_rows
from pyspark_rmqpull.model import MessageQueue

INT64_MAX = 2**63 - 1


def queues(*offsets: int) -> dict[MessageQueue, int]:
    return {MessageQueue("orders", "a", queue_id): offset for queue_id, offset in enumerate(offsets)}


@pytest.mark.parametrize(
    ("starts", "ends", "rows_max", "expected"),
    [
        ((0, 0, 0), (101, 11, 1), 10, (8, 1, 1)),
        ((8, 1, 1), (101, 11, 1), 10, (17, 2, 1)),
        ((17, 2, 1), (101, 11, 1), 10, (26, 3, 1)),
        ((0, 0), (5, 5), 10, (5, 5)),
        ((0, 0), (5, 6), 10, (4, 5)),
        ((0, 0, 0), (9, 9, 9), 1, (1, 1, 1)),
        ((100, 50), (1100, 50), 10, (110, 50)),
        ((7, 7), (7, 7), 1, (7, 7)),
        ((0, 0), (101, 11), INT64_MAX, (101, 11)),
        ((0, 0), (INT64_MAX, INT64_MAX), INT64_MAX, (INT64_MAX // 2, INT64_MAX // 2)),
    ],
)
def test_the_limit_is_shared_in_proportion_to_what_waits(
    starts: tuple[int, ...], ends: tuple[int, ...], rows_max: int, expected: tuple[int, ...]
) -> None:
    assert limit_rows(queues(*starts), queues(*ends), rows_max) == queues(*expected)


offsets = st.integers(0, INT64_MAX)
limits = st.integers(1, INT64_MAX)


@given(st.lists(st.tuples(offsets, offsets)), limits)
def test_no_queue_starves_and_none_goes_beyond_its_end(pairs: list[tuple[int, int]], rows_max: int) -> None:
    starts, ends = queues(*map(min, pairs)), queues(*map(max, pairs))
    reached = limit_rows(starts, ends, rows_max)
    assert reached.keys() == ends.keys()
    for queue, end in ends.items():
        assert min(end, starts[queue] + 1) <= reached[queue] <= end


@given(st.lists(st.integers(1, 10**6), min_size=1), st.integers(1, 10**6))
def test_rounding_goes_over_the_limit_only_to_let_none_starve(waiting: list[int], rows_max: int) -> None:
    assume(sum(waiting) > rows_max)
    reached = limit_rows(queues(*[0] * len(waiting)), queues(*waiting), rows_max)
    assert sum(offset for offset in reached.values() if offset > 1) <= rows_max
