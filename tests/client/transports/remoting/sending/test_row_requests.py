"""Rows become few large batches; only messages that brokers refuse in batches are sent alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.transports.remoting.sending.queue_choice import ANY_QUEUE
from rmqpull_client.transports.remoting.sending.row_requests import RowKinds, cut_requests

Row = tuple[int, int, bool, int]
ROWS = st.lists(st.tuples(st.integers(-1, 2), st.sampled_from([0, 1]), st.booleans(), st.integers(1, 9)), max_size=40)


def cut(
    rows: list[Row], rows_max: int = 100, bytes_max: int = 1_000, spread: int = 1
) -> list[tuple[int, int, list[int]]]:
    """Returns the queue, the system flag and the rows of each request."""
    queues, flags, single, sizes = ([row[part] for row in rows] for part in range(4))
    kinds = RowKinds(
        np.array(queues, np.int64), np.array(flags, np.int64), np.array(single, np.bool_), np.array(sizes, np.int64)
    )
    order, requests = cut_requests(kinds, rows_max, bytes_max, spread)
    numbers = list(range(len(rows))) if order is None else order.tolist()
    return [(one.queue, one.sys_flag, numbers[one.start : one.stop]) for one in requests]


FREE: Row = (ANY_QUEUE, 0, False, 10)
COMPRESSED: Row = (ANY_QUEUE, 1, False, 10)
DELAYED: Row = (ANY_QUEUE, 0, True, 10)


def test_no_rows_are_no_request() -> None:
    assert cut([]) == []


def test_rows_for_any_queue_share_a_request_if_their_bodies_are_of_one_kind() -> None:
    assert cut([FREE, COMPRESSED, FREE, COMPRESSED]) == [(-1, 0, [0, 2]), (-1, 1, [1, 3])]


def test_a_delayed_row_is_alone() -> None:
    assert cut([DELAYED, FREE, DELAYED, FREE]) == [(-1, 0, [1, 3]), (-1, 0, [0]), (-1, 0, [2])]


def test_rows_of_one_queue_keep_their_order_whatever_their_kinds() -> None:
    rows = [(0, 0, False, 1), (1, 0, False, 1), (0, 1, False, 1), (0, 0, False, 1), (1, 0, False, 1)]
    assert cut(rows) == [(0, 0, [0]), (0, 1, [2]), (0, 0, [3]), (1, 0, [1, 4])]


def test_long_runs_are_cut_by_rows_and_by_bytes() -> None:
    assert [len(rows) for *_, rows in cut([FREE] * 10, rows_max=4)] == [4, 4, 2]
    assert [len(rows) for *_, rows in cut([FREE] * 9, bytes_max=40)] == [4, 4, 1]


def test_rows_for_any_queue_are_cut_for_several_queues_and_ordered_ones_are_not() -> None:
    assert [rows for *_, rows in cut([FREE] * 8, spread=4)] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert [len(rows) for *_, rows in cut([FREE] * 10, spread=4)] == [3, 3, 3, 1]
    assert [len(rows) for *_, rows in cut([FREE] * 2, spread=4)] == [1, 1]
    assert [len(rows) for *_, rows in cut([(0, 0, False, 1)] * 8, spread=4)] == [8]


def test_a_row_above_the_limit_is_alone() -> None:
    large = (ANY_QUEUE, 0, False, 99)
    assert [rows for *_, rows in cut([FREE, large, FREE, FREE], bytes_max=40)] == [[0], [1], [2, 3]]


@given(ROWS, st.integers(1, 5), st.integers(1, 20), st.integers(1, 3))
def test_requests_have_all_rows_once_within_the_limits(
    rows: list[Row], rows_max: int, bytes_max: int, spread: int
) -> None:
    requests = cut(rows, rows_max, bytes_max, spread)
    assert sorted(number for *_, numbers in requests for number in numbers) == list(range(len(rows)))
    for queue, flag, numbers in requests:
        assert {(rows[number][0], rows[number][1]) for number in numbers} == {(queue, flag)}
        assert len(numbers) <= rows_max
        assert len(numbers) == 1 or sum(rows[number][3] for number in numbers) <= bytes_max
        assert len(numbers) == 1 or not any(rows[number][2] for number in numbers)
    for queue in range(3):
        in_queue = [number for place, _, numbers in requests if place == queue for number in numbers]
        assert in_queue == sorted(in_queue)
