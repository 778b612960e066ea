"""What the broker makes of the clock at its start and when it is set. ``test_app_set_clock`` has what waits."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from tests.harness.settable_clock import LivingBroker, SettableClock, living_broker

NOW_MS = 1_700_000_000_000
MINUTE_MS, HOUR_MS = 60_000, 3_600_000


def find_written_ms(broker: LivingBroker) -> int:
    return broker.server.state.store.newest_written_ms


@pytest.mark.parametrize(
    ("later_ms", "written_ms"),
    [
        (30 * MINUTE_MS, NOW_MS),
        (HOUR_MS, NOW_MS),
        (HOUR_MS + 1, NOW_MS + 10 * MINUTE_MS),  # the clock may have been wrong when it was read
    ],
)
def test_the_time_of_writing_outlives_a_restart_unless_the_clock_may_have_been_set_ahead_meanwhile(
    tmp_path: Path, later_ms: int, written_ms: int
) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS + 10 * MINUTE_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"ten minutes ahead")
            clock.set(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            assert find_written_ms(broker) == NOW_MS
        clock.set(NOW_MS + later_ms)
        async with living_broker(clock, tmp_path) as broker:
            assert find_written_ms(broker) == written_ms

    asyncio.run(story())


@pytest.mark.parametrize("restarts", [True, False])
def test_a_computer_that_gets_its_time_late_has_no_old_messages(tmp_path: Path, restarts: bool) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"x")
        clock.set(MINUTE_MS)  # in 1970
        async with living_broker(clock, tmp_path) as broker:
            assert find_written_ms(broker) == MINUTE_MS
            if not restarts:
                clock.set(NOW_MS + HOUR_MS)
                await broker.let_pass(1_000)
                assert find_written_ms(broker) == NOW_MS
        clock.set(NOW_MS + HOUR_MS)
        async with living_broker(clock, tmp_path) as broker:
            assert find_written_ms(broker) == NOW_MS

    asyncio.run(story())


def test_what_is_stored_in_a_queue_with_later_times_has_its_real_time_of_writing(tmp_path: Path) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS + HOUR_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"an hour ahead")
            clock.set(NOW_MS)
            await broker.let_pass(5_000)
            await broker.send(b"five seconds later")
            assert find_written_ms(broker) == NOW_MS + HOUR_MS
            await broker.let_pass(5_000)  # the next pass of retention
            assert find_written_ms(broker) == NOW_MS + 10_000

    asyncio.run(story())


def test_steps_below_a_second_are_not_worth_a_word(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            for ahead_ms in (-999, 999, 1_000):
                clock.set(clock.now_ms + ahead_ms)
                await broker.let_pass(1_000)

    asyncio.run(story())
    warned = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warned) == 1
    assert warned[0].startswith("the clock was set ahead by 1s ")
