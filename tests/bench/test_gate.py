"""The gate: noise passes, a slowdown of 15 % fails, and the recorded reads are those that the gate measures."""

from __future__ import annotations

import json
import random
from collections.abc import Callable

import pytest

from bench.gate import READS, RECORDED, ROOM, ROUNDS_MAX, ROUNDS_MIN, ROWS, Rounds, judge
from bench.sizes import QUICK
from bench.topics import evenly

CEILING_S, OURS_S = 2.0, 2.6


def machine(seed: int, slowdown: float = 0.0) -> Callable[[], tuple[float, float]]:
    """Returns rounds on a machine whose other work makes runs up to 30 % slower. ``slowdown`` is what our rate has
    lost.
    """
    noise = random.Random(seed)

    def measure() -> tuple[float, float]:
        ceiling, ours = (1 + 0.3 * noise.random() ** 2 for _ in range(2))
        return CEILING_S * ceiling, OURS_S / (1 - slowdown) * ours

    return measure


@pytest.mark.parametrize(
    ("slowdown", "passes"),
    [(0.0, True), (0.05, True), (0.15, False), (0.20, False), (0.28, False)],
)
def test_a_slowdown_of_15_percent_fails_and_noise_passes(slowdown: float, passes: bool) -> None:
    verdicts = [judge(machine(seed, slowdown), recorded=CEILING_S / OURS_S)[0] for seed in range(200)]
    wrong = sum(verdict is not passes for verdict in verdicts)
    assert wrong <= 4, f"{wrong} of 200 runs were judged wrongly"


def test_a_read_that_is_fast_enough_takes_the_fewest_rounds() -> None:
    passed, rounds = judge(lambda: (1.0, 1.0), recorded=1.0)
    assert (passed, len(rounds.ours)) == (True, ROUNDS_MIN)


def test_a_read_that_seems_slower_gets_every_round_before_it_fails() -> None:
    passed, rounds = judge(lambda: (1.0, 1.0 / (ROOM - 0.01)), recorded=1.0)
    assert (passed, len(rounds.ours)) == (False, ROUNDS_MAX)


def test_the_ratio_is_that_of_the_fastest_rounds() -> None:
    rounds = Rounds()
    for seconds in ((4.0, 5.0), (2.0, 8.0), (3.0, 4.0)):
        rounds.add(seconds)
    assert rounds.ratio == 0.5


def test_every_read_has_a_ratio_that_was_recorded_over_as_many_rows_as_the_gate_reads() -> None:
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert recorded.pop("rows") == evenly(ROWS, QUICK.queues)
    assert recorded.keys() == READS.keys()
    assert all(0.1 < ratio * ROOM < 1 for ratio in recorded.values())
