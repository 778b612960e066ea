"""A process gets half of the time that passes, whatever it saves up or owes."""

from __future__ import annotations

import pytest

from bench.hostile.half_core import SAVED_S_MAX, SHARE, Budget


def run_busy(step_s: float, steps: int, waits_s: float = 0.0) -> float:
    """Returns the processor time of a process that runs whenever it may, after it has waited."""
    budget = Budget(0.0, 0.0)
    now_s, used_s, runs = waits_s, 0.0, True
    for _ in range(steps):
        now_s += step_s
        used_s += step_s * runs
        runs = budget.may_run(now_s, used_s)
    return used_s


@pytest.mark.parametrize("step_s", [0.001, 0.01, 0.05])
def test_a_busy_process_gets_half_a_core(step_s: float) -> None:
    assert run_busy(step_s, steps=1_000) == pytest.approx(1_000 * step_s * SHARE, abs=2 * step_s)


def test_a_process_that_has_waited_saves_little() -> None:
    step_s = 0.01
    after_a_minute = run_busy(step_s, steps=100, waits_s=60.0)
    assert after_a_minute - run_busy(step_s, steps=100) <= SAVED_S_MAX + 2 * step_s


def test_two_busy_threads_get_no_more_than_one() -> None:
    budget, used_s, runs = Budget(0.0, 0.0), 0.0, True
    for number in range(1, 1_001):
        used_s += 0.02 * runs
        runs = budget.may_run(number * 0.01, used_s)
    assert used_s == pytest.approx(10 * SHARE, abs=0.05)
