"""The gate: one good pair passes, and only pairs that are all bad fail."""

from __future__ import annotations

import json

import pytest
from gate import READS, RECORDED, ROOM, ROUNDS_MAX, decide


@pytest.mark.parametrize(
    ("taken", "verdict", "pairs"),
    [
        ([0.9], True, 1),
        ([0.6], True, 1),  # just at the bound
        ([0.1, 0.2, 0.7], True, 3),
        ([0.59] * ROUNDS_MAX, False, ROUNDS_MAX),
        ([0.1] * (ROUNDS_MAX - 1) + [0.8], True, ROUNDS_MAX),
    ],
)
def test_pairs_are_measured_until_one_is_fast_enough(taken: list[float], verdict: bool, pairs: int) -> None:
    following = iter(taken)
    passed, ratios = decide(lambda: next(following), recorded=1.0)
    assert (passed, ratios) == (verdict, taken[:pairs])


def test_every_read_has_a_recorded_ratio_that_leaves_something_to_lose() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert recorded.keys() == READS.keys()
    assert all(0.1 < ratio * ROOM < 1 for ratio in recorded.values())
