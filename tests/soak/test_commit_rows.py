"""The judge of the rows that a broker has of commits."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from soak.commit_rows import Commit, Judge, Ledger, make_bodies, read_heads

COMMIT, OTHER = Commit(0, 7), Commit(1, 7)


def judge(*parts: tuple[Commit, int, int], acknowledged: bool = True, dropped: bool = False) -> list[str]:
    """Returns the findings when COMMIT has six rows, and OTHER two; a part is a commit with a range of rows."""
    ledger = Ledger()
    ledger.begin(COMMIT, 6)
    ledger.begin(OTHER, 2)
    if acknowledged:
        ledger.acknowledge(COMMIT)
    if dropped:
        ledger.drop(COMMIT)
    judge = Judge(ledger)
    for commit, first, count in parts:
        judge.add(read_heads(make_bodies(commit, first, count)))
    return list(judge.judge())


def test_a_body_says_which_row_it_is() -> None:
    bodies = pa.concat_arrays([make_bodies(COMMIT, 3, 2), make_bodies(OTHER, 0, 1)])
    assert read_heads(bodies).tolist() == [(0, 7, 3), (0, 7, 4), (1, 7, 0)]
    assert len(read_heads(bodies[3:])) == 0
    with pytest.raises(ValueError, match="100 bytes"):
        read_heads(pa.array([b"other"]))


def test_each_row_once_is_right_in_any_order_and_between_others() -> None:
    assert judge((COMMIT, 4, 2), (OTHER, 0, 2), (COMMIT, 0, 4)) == []
    assert judge(acknowledged=False) == []
    assert judge(acknowledged=False, dropped=True) == []


@pytest.mark.parametrize(
    ("parts", "acknowledged", "dropped", "finding"),
    [
        ([], True, False, "0 of 6 rows can be read, and it was acknowledged"),
        ([(COMMIT, 0, 5)], True, False, "5 of 6 rows can be read, and it was acknowledged"),
        ([(COMMIT, 0, 5)], False, False, "5 of 6 rows can be read, of a commit without a response"),
        ([(COMMIT, 0, 6), (COMMIT, 5, 1)], True, False, "1 rows are there twice"),
        ([(COMMIT, 0, 4), (COMMIT, 3, 3)], True, False, "1 rows are there twice"),
        ([(COMMIT, 0, 6)], False, True, "6 rows, which nobody has committed"),
        ([(COMMIT, 0, 6), (Commit(5, 5), 0, 1)], True, False, "1 rows, which nobody has committed"),
    ],
)
def test_what_is_lost_doubled_or_there_in_part_is_found(
    parts: list[tuple[Commit, int, int]], acknowledged: bool, dropped: bool, finding: str
) -> None:
    (found,) = judge(*parts, acknowledged=acknowledged, dropped=dropped)
    assert found.endswith(finding)


def test_rows_twice_in_one_piece_are_found() -> None:
    ledger = Ledger()
    ledger.begin(COMMIT, 6)
    counted = Judge(ledger)
    counted.add(np.concatenate([read_heads(make_bodies(COMMIT, 0, 2))] * 2))
    assert any("2 rows are there twice" in finding for finding in counted.judge())
