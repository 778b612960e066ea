"""Shares of ``maxOffsetsPerTrigger``, with Kafka's own vectors (rules 8.4), and of ``maxBytesPerTrigger``."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pyspark_rmqpull.planning.micro_batch import AdmittedEnds, limit_bytes, limit_rows
from rmqpull_client.model import MessageQueue
from tests.harness.fake_broker_client import FakeCutter

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
def test_the_limit_is_shared_in_proportion_to_the_backlog(
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


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue("orders", "a", queue_id)


def admit(
    sizes: Sequence[Sequence[int]],
    bytes_max: int,
    starts: Sequence[int] | None = None,
    passed_over: Sequence[int] = (),
) -> tuple[list[int], list[int]]:
    """Returns the end of each queue, and the queues that were passed over; every queue is offered whole."""
    begins, ends = queues(*(starts or [0] * len(sizes))), queues(*map(len, sizes))
    cutter = FakeCutter({queue(queue_id): mine for queue_id, mine in enumerate(sizes)})
    admitted = limit_bytes(begins, ends, bytes_max, cutter, [queue(queue_id) for queue_id in passed_over])
    assert admitted.ends.keys() == ends.keys()
    return list(admitted.ends.values()), [entry.queue_id for entry in admitted.passed_over]


@pytest.mark.parametrize(
    ("sizes", "bytes_max", "ends"),
    [
        ([[10] * 4], 40, [4]),
        ([[10] * 4], 39, [3]),
        ([[10] * 4], 10, [1]),
        ([[10] * 4], 9, [1]),  # above the limit: alone
        ([[10] * 6, [10] * 2], 40, [3, 1]),  # one each, shares of 16 and of 3 bytes, and the rest
        ([[10] * 80, [10] * 20], 500, [40, 10]),
        ([[10] * 80, [], [10] * 20], 500, [40, 0, 10]),
        ([[10] * 3, [1000]], 1020, [2, 1]),  # a large message takes all the room
        ([[10] * 3, [1]], 20, [1, 1]),
        ([[1] * 100, [50]], 60, [10, 1]),
        ([[30] * 3, [30] * 3, [30] * 3], 90, [1, 1, 1]),
        ([[], []], 5, [0, 0]),
        ([], 5, []),
    ],
)
def test_bytes_are_shared_in_proportion_after_one_message_each(
    sizes: list[list[int]], bytes_max: int, ends: list[int]
) -> None:
    assert admit(sizes, bytes_max) == (ends, [])


def test_the_beginning_counts_from_where_the_queue_stands() -> None:
    assert admit([[99, 99, 10, 10, 10], [99, 10]], 30, starts=[2, 1]) == ([4, 2], [])


@pytest.mark.parametrize(
    ("passed_over", "ends", "passed_over_then"),
    [
        ([], [1, 1, 0], [2]),  # room for two messages of three queues
        ([2], [1, 0, 1], [1]),
        ([1], [1, 1, 0], [2]),
        ([1, 2], [0, 1, 1], [0]),
    ],
)
def test_queues_that_were_passed_over_come_first(
    passed_over: list[int], ends: list[int], passed_over_then: list[int]
) -> None:
    assert admit([[30] * 3] * 3, 60, passed_over=passed_over) == (ends, passed_over_then)


def test_a_message_above_the_limit_waits_for_its_turn_and_goes_alone() -> None:
    """A message larger than maxBytesPerTrigger must still be read."""
    sizes = [[1] * 5, [1000, 1], [1] * 5]
    assert admit(sizes, 4) == ([2, 0, 2], [1])
    assert admit(sizes, 4, [2, 0, 2], passed_over=[1]) == ([2, 1, 2], [0, 2])
    assert admit(sizes, 4, [2, 1, 2], passed_over=[0, 2]) == ([4, 2, 3], [])


def test_a_queue_that_the_broker_does_not_know_is_admitted_whole() -> None:
    gone, cut = queue(0), queue(1)
    cutter = FakeCutter({cut: [10] * 5}, {cut: 5})
    admitted = limit_bytes({gone: 3, cut: 0}, {gone: 9, cut: 10}, 20, cutter)
    assert admitted == AdmittedEnds({gone: 9, cut: 7})


def test_one_call_is_enough_when_everything_fits() -> None:
    cutter = FakeCutter({queue(0): [5, 5], queue(1): [5]})
    assert limit_bytes(queues(0, 0), queues(2, 1), 15, cutter).ends == queues(2, 1)
    assert len(cutter.calls) == 1


def test_a_few_calls_are_enough_in_any_case() -> None:
    sizes = {queue(queue_id): [5] * 100 for queue_id in range(100)}
    cutter = FakeCutter(sizes)
    limit_bytes(dict.fromkeys(sizes, 0), dict.fromkeys(sizes, 100), 7_777, cutter)
    assert len(cutter.calls) == 3


backlogs = st.lists(st.lists(st.integers(1, 40), max_size=8), max_size=5)


@given(sizes=backlogs, bytes_max=st.integers(1, 100))
def test_batch_after_batch_keeps_within_the_limit_and_none_starves(sizes: list[list[int]], bytes_max: int) -> None:
    starts, passed_over, skipped = [0] * len(sizes), list[int](), [0] * len(sizes)
    while any(start < len(mine) for start, mine in zip(starts, sizes, strict=True)):
        ends, passed_over = admit(sizes, bytes_max, starts, passed_over)
        taken = [mine[start:end] for mine, start, end in zip(sizes, starts, ends, strict=True)]
        assert all(start <= end <= len(mine) for start, end, mine in zip(starts, ends, sizes, strict=True))
        assert sum(map(sum, taken)) <= bytes_max or sum(map(len, taken)) == 1
        assert any(taken)
        skipped = [
            0 if mine or start == len(whole) else times + 1
            for mine, start, whole, times in zip(taken, starts, sizes, skipped, strict=True)
        ]
        assert max(skipped) < len(sizes)
        starts = ends
