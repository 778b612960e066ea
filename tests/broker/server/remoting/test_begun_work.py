"""How many requests of a connection may be in progress, depending on how long they take."""

from __future__ import annotations

import pytest

from rmqpull_broker.server.remoting.begun_work import BEGUN_S_MAX, BegunWork


def count_until_enough(work: BegunWork, waiting: int = 0) -> int:
    """Begins requests until no other may begin."""
    count = 0
    while not work.is_enough(waiting) and count < 1_000:
        work.begin()
        count += 1
    return count


@pytest.mark.parametrize("allowed", [1, 2, 10, 100])
def test_requests_may_begin_until_they_take_so_long_together(allowed: int) -> None:
    work = BegunWork()
    work.note_step(BEGUN_S_MAX / allowed)
    assert count_until_enough(work) == allowed


def test_without_a_measured_step_any_number_may_begin() -> None:
    assert count_until_enough(BegunWork()) == 1_000


def test_one_that_ends_makes_place_for_one_that_takes_as_long() -> None:
    work = BegunWork()
    for _ in range(100):
        work.begin()
        work.note_step(BEGUN_S_MAX / 3.5)
        work.end()
    assert count_until_enough(work) == 4
    work.note_step(BEGUN_S_MAX / 3.5)
    work.end()
    assert count_until_enough(work) == 1


def test_requests_that_wait_for_messages_do_not_count() -> None:
    work = BegunWork()
    for _ in range(100):
        work.begin()
        work.note_step(BEGUN_S_MAX / 3.5)
        work.note_wait()
    assert count_until_enough(work, waiting=100) == 4


def test_the_longest_of_the_last_steps_counts_for_a_while() -> None:
    work = BegunWork()
    steps = [0.5, 0.1, 0.1, 1.0]
    for seconds in steps:
        work.note_step(seconds)
    assert work.step_s == 1.0
    for _ in range(100):
        work.note_step(0.001)
    assert work.step_s == pytest.approx(0.001)
