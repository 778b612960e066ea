"""Runs work of :mod:`rmqpull_broker.core.steps` to its end, in tests."""

from __future__ import annotations

from typing import TypeVar

from rmqpull_broker.core.steps import Steps

R = TypeVar("R")


def run_steps(steps: Steps[R]) -> R:
    """Runs all steps, and returns their result."""
    result, _ = count_steps(steps)
    return result


def count_steps(steps: Steps[R]) -> tuple[R, int]:
    """Runs all steps. Returns their result, and how many there were."""
    count = 0
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value, count
        count += 1
