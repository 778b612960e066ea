"""BACKLOG balances ranges over all topics, and gives the same plan each time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.allocation.strategies import balance_backlog
from rmqpull_client.model import MessageQueue, QueueRange


def make_ranges(*sizes: int) -> list[QueueRange]:
    """Makes one range of each size, in two topics in turn."""
    return [
        QueueRange(MessageQueue("xy"[number % 2], "a", number), 100, 100 + size) for number, size in enumerate(sizes)
    ]


@pytest.mark.parametrize(
    ("sizes", "consumer_count", "expected"),
    [
        pytest.param((9, 1, 1, 1), 2, [[9], [1, 1, 1]], id="a long queue alone"),
        pytest.param((5, 4, 3, 3), 2, [[3, 5], [3, 4]], id="the longest first"),
        pytest.param((2, 2, 2), 2, [[2, 2], [2]], id="equal ones in order"),
        pytest.param((7,), 3, [[7], [], []], id="fewer queues than consumers"),
        pytest.param((), 2, [[], []], id="nothing"),
    ],
)
def test_the_longest_range_goes_to_the_consumer_with_the_least(
    sizes: tuple[int, ...], consumer_count: int, expected: list[list[int]]
) -> None:
    found = balance_backlog(make_ranges(*sizes), consumer_count)
    assert [sorted(entry.size for entry in share) for share in found] == expected


sizes_of_queues = st.lists(st.integers(1, 1000), max_size=40).map(lambda sizes: make_ranges(*sizes))


@given(ranges=sizes_of_queues, consumer_count=st.integers(1, 12), data=st.data())
def test_the_plan_depends_only_on_the_ranges_and_is_balanced(
    ranges: list[QueueRange], consumer_count: int, data: st.DataObject
) -> None:
    plan = balance_backlog(ranges, consumer_count)
    assert balance_backlog(data.draw(st.permutations(ranges)), consumer_count) == plan
    assert Counter(entry for share in plan for entry in share) == Counter(ranges)
    loads = [sum(entry.size for entry in share) for share in plan]
    # The busiest consumer had the least to read before it got its shortest range.
    shortest = min((entry.size for entry in plan[loads.index(max(loads))]), default=0)
    assert max(loads) - shortest <= min(loads)
