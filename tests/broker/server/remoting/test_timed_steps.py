"""Steps of coroutines: their times, results, errors and cancellations."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

from rmqpull_broker.server.remoting import timed_steps
from rmqpull_broker.server.remoting.timed_steps import TimedSteps


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def perf_counter(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timed_steps, "time", clock)
    return clock


def test_each_step_is_timed_without_its_waits(clock: Clock) -> None:
    noted: list[float] = []

    async def work() -> str:
        clock.now_s += 1
        await asyncio.sleep(0)
        clock.now_s += 2
        await asyncio.sleep(0)
        clock.now_s += 4
        return "done"

    async def wait() -> str:
        task = asyncio.ensure_future(TimedSteps(work(), noted.append))
        while not task.done():
            clock.now_s += 100
            await asyncio.sleep(0)
        return await task

    assert asyncio.run(wait()) == "done"
    assert noted == [1, 2, 4]


def test_an_error_comes_out() -> None:
    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def wait() -> None:
        await TimedSteps(fail(), lambda _: None)

    with pytest.raises(ValueError, match="no"):
        asyncio.run(wait())


def test_a_cancelled_task_cancels_the_coroutine() -> None:
    seen: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def wait() -> None:
        await TimedSteps(work(), lambda _: None)

    async def story() -> None:
        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
    assert seen == ["cancelled"]


def test_a_result_of_what_it_waits_for_reaches_the_coroutine() -> None:
    async def wait() -> int:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_result, 7)

        async def work() -> int:
            return await future + 1

        return await TimedSteps(work(), lambda _: None)

    assert asyncio.run(wait()) == 8


def test_what_fails_is_freed_without_a_search_for_cycles() -> None:
    """The error of what was awaited must not refer to what refers to it: a flood of refusals would stay for ever."""

    class Asked:
        """What a request holds while it waits."""

    def refuse() -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.set_exception, ValueError("no"))
        return future

    async def work(held: Asked) -> int:
        return await refuse()

    async def wait() -> weakref.ref[Asked]:
        asked = Asked()
        with contextlib.suppress(ValueError):
            await TimedSteps(work(asked), lambda _: None)
        return weakref.ref(asked)

    async def story() -> weakref.ref[Asked]:
        return await asyncio.create_task(wait())

    gc.disable()
    try:
        assert asyncio.run(story())() is None
    finally:
        gc.enable()
