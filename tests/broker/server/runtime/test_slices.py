"""Slices: long work lets others run, and never has more than one slice of a turn."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator

import pytest

from rmqpull_broker.server.runtime.slices import SLICE_S, Slices

STEP_S = 2**-12  # without a rest in binary numbers
STEPS_OF_A_SLICE = math.ceil(SLICE_S / STEP_S)


class Clock:
    """A clock that moves by a quarter of a millisecond whenever somebody looks at it."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        self.now_s += STEP_S
        return self.now_s


async def count_turns(slices: Slices, steps: int) -> int:
    """Returns the turns of the event loop that work of so many steps takes."""
    turns = 0
    parts = iter(range(steps))
    taken: list[int] = []

    async def watch() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    await slices.finish(parts, taken.append)
    watcher.cancel()
    assert taken == list(range(steps))
    return turns


def test_twice_the_work_takes_twice_the_turns() -> None:
    once, twice = (asyncio.run(count_turns(Slices(Clock()), steps)) for steps in (1_000, 2_000))
    assert once == pytest.approx(1_000 / STEPS_OF_A_SLICE, rel=0.05)
    assert twice == pytest.approx(2 * once, rel=0.05)


def test_short_work_ends_in_its_first_slice() -> None:
    taken: list[int] = []
    assert Slices(Clock()).begin(iter([1, None, 2]), taken.append)
    assert taken == [1, 2]


def test_a_slice_ends_after_its_time() -> None:
    taken: list[int] = []
    assert not Slices(Clock()).begin(iter(range(100)), taken.append)
    assert len(taken) == STEPS_OF_A_SLICE


def test_one_work_after_the_other() -> None:
    order: list[str] = []

    def work(name: str) -> Iterator[str]:
        for _ in range(3 * STEPS_OF_A_SLICE):
            yield name

    async def run() -> None:
        slices = Slices(Clock())
        await asyncio.gather(*(slices.finish(work(name), order.append) for name in "abc"))

    asyncio.run(run())
    assert "".join(order) == "".join(3 * STEPS_OF_A_SLICE * name for name in "abc")


def test_work_that_is_cancelled_or_fails_lets_the_next_one_run() -> None:
    async def run() -> list[int]:
        slices, taken = Slices(Clock()), list[int]()
        endless = asyncio.create_task(slices.finish(iter(lambda: 1, 2), lambda _: None))
        after = asyncio.create_task(slices.finish(iter([7]), taken.append))
        await asyncio.sleep(0)
        endless.cancel()
        await after
        with pytest.raises(ZeroDivisionError):
            await slices.finish((1 // 0 for _ in range(1)), taken.append)
        await slices.finish(iter([8]), taken.append)
        return taken

    assert asyncio.run(run()) == [7, 8]
