"""The clocks, and alarms."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rmqpull_broker.server.clock import Alarm, ManualClock, SystemClock
from tests.harness.waiting import WAIT_S

HOUR_MS = 3_600_000


def test_somebody_sets_the_systems_time_and_what_passes_goes_on() -> None:
    wall, passed = iter([7_000_000, 5_000_000, 9_000_000]), iter([1_000_000, 2_000_000, 3_000_000, 4_000_000])
    clock = SystemClock(lambda: next(wall), lambda: next(passed))
    assert [clock.wall_ms() for _ in range(2)] == [5, 9]
    assert (clock.passing_ms(), clock.steady_ms()) == (2, 9)
    assert clock.steady_ms() == 10


def test_the_systems_timers_do_not_fire_before_their_time() -> None:
    async def story() -> None:
        clock, fired = SystemClock(), list[str]()
        begin_ms = clock.passing_ms()
        done = asyncio.Event()
        clock.call_at(begin_ms + 2, done.set)
        clock.call_at(begin_ms + 1, lambda: fired.append("cancelled")).cancel()
        clock.call_at(begin_ms - HOUR_MS, lambda: fired.append("overdue"))
        assert fired == []
        await asyncio.wait_for(done.wait(), WAIT_S)
        assert fired == ["overdue"]
        assert clock.passing_ms() >= begin_ms + 2

    asyncio.run(story())


def test_only_an_advance_moves_the_times_of_a_manual_clock() -> None:
    clock = ManualClock(1_700_000_000_000)
    assert (clock.wall_ms(), clock.passing_ms()) == (1_700_000_000_000, 0)
    clock.advance(HOUR_MS)
    assert (clock.wall_ms(), clock.passing_ms()) == (1_700_003_600_000, HOUR_MS)


def test_due_timers_fire_in_order_of_their_time_each_at_its_own() -> None:
    clock, seen = ManualClock(1_000), []

    def tell(name: str) -> Callable[[], None]:
        return lambda: seen.append((name, clock.passing_ms(), clock.wall_ms()))

    for name, at_ms in (("c", 30), ("a", 10), ("b", 20), ("a too", 10), ("later", 31)):
        clock.call_at(at_ms, tell(name))
    clock.advance(30)
    assert seen == [("a", 10, 1_010), ("a too", 10, 1_010), ("b", 20, 1_020), ("c", 30, 1_030)]
    clock.advance(1)
    assert seen[4:] == [("later", 31, 1_031)]


def test_a_timer_that_is_set_during_an_advance_fires_too() -> None:
    clock, beats = ManualClock(), []

    def beat() -> None:
        beats.append(clock.passing_ms())
        clock.call_at(clock.passing_ms() + 20_000, beat)

    clock.call_at(0, beat)
    clock.advance(60_000)
    assert beats == [0, 20_000, 40_000, 60_000]


def test_a_timer_that_is_already_due_fires_at_the_next_advance() -> None:
    clock, fired = ManualClock(), []
    clock.advance(100)
    clock.call_at(50, lambda: fired.append(clock.passing_ms()))
    assert fired == []
    clock.advance(0)
    assert fired == [100]


def test_a_cancelled_timer_does_not_fire() -> None:
    clock, fired = ManualClock(), []
    clock.call_at(20, lambda: fired.append("cancelled by another")).cancel()
    second = clock.call_at(30, lambda: fired.append("cancelled while time passes"))
    clock.call_at(10, second.cancel)
    clock.advance(100)
    assert fired == []


def test_a_clock_cannot_go_back() -> None:
    with pytest.raises(ValueError, match="-1 ms"):
        ManualClock().advance(-1)


class Worker:
    """Work for an alarm, which runs until :meth:`end` is called."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self._end = asyncio.Event()

    async def work(self) -> None:
        self.events.append("start")
        try:
            await asyncio.wait_for(self._end.wait(), WAIT_S)
            self.events.append("end")
        except asyncio.CancelledError:
            self.events.append("interrupted")
            raise

    def end(self) -> None:
        self._end.set()


def with_alarm(story: Callable[[ManualClock, Alarm, Worker], Awaitable[None]]) -> None:
    async def run() -> None:
        clock, worker = ManualClock(), Worker()
        await story(clock, Alarm(clock, worker.work), worker)

    asyncio.run(run())


async def advance(clock: ManualClock, ms: int) -> None:
    clock.advance(ms)
    await asyncio.sleep(0)


def test_an_alarm_runs_its_work_at_the_earliest_time_that_was_set() -> None:
    async def story(clock: ManualClock, alarm: Alarm, worker: Worker) -> None:
        for time_ms in (HOUR_MS, 1_000, 2_000):
            alarm.set(time_ms)
        await advance(clock, 999)
        assert worker.events == []
        await advance(clock, 1)
        assert (worker.events, alarm.is_running) == (["start"], True)

    with_alarm(story)


def test_an_alarm_never_runs_its_work_twice_at_once() -> None:
    async def story(clock: ManualClock, alarm: Alarm, worker: Worker) -> None:
        alarm.wake()
        alarm.set(5)
        await advance(clock, 10)
        worker.end()
        await alarm.finish()
        assert worker.events == ["start", "end"]

    with_alarm(story)


@pytest.mark.parametrize("interrupts", [True, False])
def test_an_alarm_that_is_stopped_interrupts_its_work_or_waits_for_it(interrupts: bool) -> None:
    async def story(clock: ManualClock, alarm: Alarm, worker: Worker) -> None:
        alarm.wake()
        alarm.set(HOUR_MS)
        await asyncio.sleep(0)
        stopping = asyncio.ensure_future(alarm.cancel() if interrupts else alarm.finish())
        await asyncio.sleep(0)
        worker.end()
        await stopping
        assert worker.events == ["start", "interrupted" if interrupts else "end"]
        alarm.wake()
        alarm.set(0)
        await advance(clock, HOUR_MS)
        assert len(worker.events) == 2

    with_alarm(story)


def test_an_alarm_whose_work_fails_logs_why_and_runs_again(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        clock, runs = ManualClock(), list[int]()

        async def fail() -> None:
            runs.append(clock.passing_ms())
            raise OSError("no such disk")

        alarm = Alarm(clock, fail)
        for time_ms in (10, 20):
            alarm.set(time_ms)
            await advance(clock, 10)
            await asyncio.sleep(0)
        assert runs == [10, 20]
        await alarm.finish()

    asyncio.run(story())
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["no such disk"] * 2
