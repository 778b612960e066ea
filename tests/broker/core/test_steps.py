"""Long work in steps: as many as the work is long, and each one short."""

from __future__ import annotations

import random

import pytest

from rmqpull_broker.core.steps import STEP_ENTRIES, sort_in_steps, walk
from tests.harness.steps import count_steps, run_steps


def test_a_walk_goes_through_a_copy_in_pieces() -> None:
    table = dict.fromkeys(range(STEP_ENTRIES + 1))
    pieces = walk(table)
    first = next(pieces)
    table.clear()
    assert first + next(pieces) == list(range(STEP_ENTRIES + 1))
    assert len(first) == STEP_ENTRIES
    assert list(pieces) == []


def test_a_walk_makes_what_an_iterator_yields_piece_by_piece() -> None:
    numbers = iter(range(STEP_ENTRIES + 2))
    pieces = walk(numbers)
    assert next(pieces) == list(range(STEP_ENTRIES))
    assert next(numbers) == STEP_ENTRIES
    assert next(pieces) == [STEP_ENTRIES + 1]


@pytest.mark.parametrize("count", [0, 1, 4_096, 4_097, 20_000])
def test_what_is_sorted_in_steps_is_sorted(count: int) -> None:
    entries = random.Random(count).sample(range(count), count)
    assert run_steps(sort_in_steps(entries)) == list(range(count))


def test_steps_grow_with_what_is_sorted() -> None:
    (_, once), (_, twice) = (count_steps(sort_in_steps(range(count))) for count in (50_000, 100_000))
    assert once >= 50_000 / STEP_ENTRIES
    assert twice <= 2.1 * once
