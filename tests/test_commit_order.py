"""The judge of looks at commits: what it must accept, and what it must find."""

from __future__ import annotations

import numpy as np
import pytest

from tests.harness.commit_order import UNKNOWN, Look, find_commit_rows, find_out_of_order, find_torn, make_look

COMMITS = find_commit_rows([np.array([-1, 0, 0, 1]), np.array([0, -1, 1, 1])])
"""Commit 0 has offsets 1 and 2 of the first queue and 0 of the second; commit 1 the last ones; the rest are singles."""


def look(sent_ns: int, received_ns: int, *ends: int | None, by: str = "bounds") -> Look:
    told = {place: (end, end) for place, end in enumerate(ends) if end is not None}
    return make_look(by, sent_ns, received_ns, told, 2)


def test_rows_of_commits_are_found_between_other_rows() -> None:
    assert {number: (rows.first.tolist(), rows.last.tolist()) for number, rows in COMMITS.items()} == {
        0: ([1, 0], [2, 0]),
        1: ([3, 2], [3, 3]),
    }
    (rows,) = find_commit_rows([np.array([0]), np.array([-1])]).values()
    assert (rows.first.tolist(), rows.last.tolist()) == ([0, UNKNOWN], [0, -1])


@pytest.mark.parametrize(
    ("looks", "found"),
    [
        ([look(1, 2, 1, 0), look(3, 4, 3, 1), look(5, 6, 4, 4)], []),
        # Both are in flight at a time, so either may be earlier.
        ([look(1, 4, 4, 4), look(3, 5, 1, 0)], []),
        ([look(1, 2, 2, None), look(3, 4, None, 0)], ["commit 0"]),
        ([look(1, 2, 2, None), look(3, 4, 2, None)], ["commit 0"]),
        ([look(1, 2, None, 3), look(3, 4, 3, None)], ["commit 1"]),
        # It shows rows of commit 1, so also commit 0 must be there.
        ([look(1, 2, None, 4), look(3, 4, 1, None)], ["commit 0", "commit 1"]),
        # A late response does not hide an early one.
        ([look(1, 9, 4, 4), look(2, 3, 4, 4), look(5, 6, 1, 1)], ["commit 0", "commit 1"]),
    ],
)
def test_a_look_lacks_nothing_that_an_earlier_one_has_shown(looks: list[Look], found: list[str]) -> None:
    assert [finding.partition(":")[0] for finding in find_out_of_order(looks, COMMITS)] == found


def test_a_look_that_does_not_tell_where_a_queue_ends_lacks_nothing() -> None:
    pulled = make_look("pull", 3, 4, {0: (2, UNKNOWN)}, 2)
    assert find_out_of_order([look(1, 2, 4, 4), pulled], COMMITS) == []
    assert len(find_out_of_order([pulled, look(5, 6, 2, 0)], COMMITS)) == 1


@pytest.mark.parametrize(
    ("ends", "found"),
    [((0, 0), []), ((1, 0), []), ((3, 2), []), ((4, 4), []), ((2, 1), ["commit 0"]), ((3, 3), ["commit 1"])],
)
def test_a_picture_of_all_queues_has_a_commit_wholly_or_not_at_all(ends: tuple[int, int], found: list[str]) -> None:
    assert [finding.partition(":")[0] for finding in find_torn([look(1, 2, *ends)], COMMITS)] == found
