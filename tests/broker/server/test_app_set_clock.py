"""Somebody sets the clock: what waits ends at most its own length later, over restarts, too.

Each story sets the clock of a broker with a data directory, and lets time pass.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.state.names import name_pop_retry_topic
from rmqpull_broker.server.clock import ManualClock
from tests.harness.settable_clock import QUEUE, LivingBroker, SettableClock, living_broker
from tests.harness.steps import run_steps

NOW_MS = 1_700_000_000_000
FAR_MS = 2_100_000_000_000  # the year 2036
HOUR_MS = 3_600_000
LEVEL_3_MS = 10_000  # a delay level
RETRIES = QUEUE._replace(topic=name_pop_retry_topic("readers", "orders"))
RESTARTS = pytest.mark.parametrize(
    "keeps_snapshots", [pytest.param(True, id="snapshot"), pytest.param(False, id="no snapshot")]
)


async def begin_everything(broker: LivingBroker) -> None:
    """Delays two messages by ten seconds, and delivers one to each of two groups for ten seconds."""
    await broker.send(b"first")
    await broker.send(b"level", DELAY="3")
    await broker.send(b"timer", TIMER_DELAY_MS=str(LEVEL_3_MS))
    assert (await broker.pop()).message_count == 1
    assert (await broker.pop("ordered", in_order=True)).message_count == 1


async def find_ended(broker: LivingBroker) -> set[str]:
    """Returns what of all that has ended."""
    ended = {body.decode() for body in broker.bodies()} - {"first"}
    if broker.bodies(RETRIES) == [b"first"]:
        ended.add("invisible")
    if (await broker.pop("ordered", in_order=True)).message_count:
        ended.add("in order")
    return ended


EVERYTHING = {"level", "timer", "invisible", "in order"}


def test_an_hour_back_in_a_running_broker_prolongs_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await begin_everything(broker)
            clock.set(NOW_MS - HOUR_MS)
            await broker.let_pass(5_000)
            assert await find_ended(broker) == set()
            await broker.let_pass(6_000)  # the clock is looked at every second
            assert await find_ended(broker) == EVERYTHING

    asyncio.run(story())
    (warning,) = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert "the clock was set back by 1h and says 2023-11-14T21:13:21" in warning


@RESTARTS
def test_what_began_while_the_clock_was_wrong_ends_after_restarts(tmp_path: Path, keeps_snapshots: bool) -> None:
    """Several restarts: nothing gets its full length anew."""

    async def story() -> None:
        clock = SettableClock(FAR_MS)
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await begin_everything(broker)
        clock.set(NOW_MS)
        for _ in range(3):
            async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
                assert await find_ended(broker) == set()
                await broker.let_pass(3_000)
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await broker.let_pass(1_000)
            assert await find_ended(broker) == EVERYTHING

    asyncio.run(story())


@RESTARTS
def test_a_minute_of_a_wrong_clock_leaves_what_began_before_it_alone(tmp_path: Path, keeps_snapshots: bool) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await broker.send(b"before", DELAY="5")  # a minute
            await broker.send_message(Message(b"named", "named", delivery_timestamp_ms=NOW_MS + 40_000))
            clock.set(NOW_MS + 20_000)
            await broker.let_pass(5_000)
            clock.set(NOW_MS + 5_000)
            await broker.let_pass(30_000)
            assert broker.bodies() == []
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await broker.let_pass(5_000)
            assert broker.bodies() == [b"named"]
            await broker.let_pass(20_000)
            assert broker.bodies() == [b"named", b"before"]

    asyncio.run(story())


@RESTARTS
def test_a_delivery_time_means_that_time_by_the_real_clock(tmp_path: Path, keeps_snapshots: bool) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await broker.send_message(Message(b"named", "id", delivery_timestamp_ms=NOW_MS + 60_000))
            clock.set(NOW_MS - 60_000)
            await broker.let_pass(90_000)
            assert broker.bodies() == []
        async with living_broker(clock, tmp_path, keeps_snapshots=keeps_snapshots) as broker:
            await broker.let_pass(20_000)
            assert broker.bodies() == []
            clock.set(NOW_MS + HOUR_MS)
            await broker.let_pass(1_000)
            assert broker.bodies() == [b"named"]

    asyncio.run(story())


def test_a_directory_of_a_manual_clock_is_served_again_by_the_systems_clock(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with living_broker(ManualClock(FAR_MS), tmp_path) as broker:
            await begin_everything(broker)
        assert not [record for record in caplog.records if record.levelno == logging.WARNING]
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.let_pass(LEVEL_3_MS)
            assert await find_ended(broker) == EVERYTHING
            await broker.send_message(Message(b"bill", "id"), topic="bills")
            (bill,) = broker.rows(MessageQueue("bills", "broker-a", 0))
            assert bill.store_timestamp_ms == NOW_MS + LEVEL_3_MS  # only queues with newer messages are behind
            assert {row.store_timestamp_ms for row in broker.rows()} == {FAR_MS}
            await broker.server.group_commit.execute(lambda draft: delete_topic(draft, "orders"))
            await broker.server.group_commit.execute(lambda draft: delete_topic(draft, RETRIES.topic))
        async with living_broker(clock, tmp_path) as broker:  # without the messages there is nothing to warn of
            await broker.send(b"again")
            assert [row.store_timestamp_ms for row in broker.rows()] == [NOW_MS + LEVEL_3_MS]

    asyncio.run(story())
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert "its store time is 2036-07-18T13:20:00.000Z, and the clock says 2023-11-14T22:13:20.000Z" in warnings[0]


def test_a_manual_clock_never_changes_what_waits(tmp_path: Path) -> None:
    """It starts again at the newest store time, which may be before the last pop."""

    async def story() -> None:
        clock = ManualClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"first")
            clock.advance(HOUR_MS)
            await broker.pop()
        async with living_broker(ManualClock(NOW_MS), tmp_path) as broker:
            assert broker.server.state.popped.next_due_ms() == NOW_MS + HOUR_MS + 10_000

    asyncio.run(story())


@pytest.mark.proves("Store timestamps")
def test_store_times_of_a_queue_never_go_back_and_searches_find_what_they_name(tmp_path: Path) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            for ahead_ms in (0, HOUR_MS, -HOUR_MS, 10, 2 * HOUR_MS):
                clock.set(NOW_MS + ahead_ms)
                await broker.send(b"%d" % ahead_ms)
            times = [row.store_timestamp_ms - NOW_MS for row in broker.rows()]
            assert times == [0, HOUR_MS, HOUR_MS, HOUR_MS, 2 * HOUR_MS]
            low, high = broker.server.state.store.find_time_range(QUEUE, NOW_MS + HOUR_MS)
            assert low <= 1 <= high

    asyncio.run(story())


def test_locks_and_clients_do_not_outlive_their_length(tmp_path: Path) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            clients, now_ms = broker.server.clients, broker.server.clock.steady_ms
            assert run_steps(clients.locks.lock_in_steps("ordered", "one", [QUEUE], now_ms()))
            clock.set(NOW_MS - HOUR_MS)
            await broker.let_pass(59_000)
            assert not run_steps(clients.locks.lock_in_steps("ordered", "two", [QUEUE], now_ms()))
            await broker.let_pass(2_000)
            assert run_steps(clients.locks.lock_in_steps("ordered", "two", [QUEUE], now_ms()))

    asyncio.run(story())


def test_a_changed_invisible_time_in_order_ends_too(tmp_path: Path) -> None:
    async def story() -> None:
        clock = SettableClock(FAR_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"first")
            result = await broker.pop("ordered", in_order=True)
            receipt = result.make_receipt(result.parts[0], 0, 0)
            pops = broker.server._pops
            await pops.change_invisible_times([DeliveredMessage("ordered", QUEUE, receipt)], 20_000)
        clock.set(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.let_pass(19_000)
            assert (await broker.pop("ordered", in_order=True)).message_count == 0
            await broker.let_pass(1_000)
            assert (await broker.pop("ordered", in_order=True)).message_count == 1

    asyncio.run(story())


def test_a_pop_that_waits_gets_a_queue_in_order_when_the_clock_was_set(tmp_path: Path) -> None:
    async def story() -> None:
        clock = SettableClock(NOW_MS)
        async with living_broker(clock, tmp_path) as broker:
            await broker.send(b"first")
            await broker.pop("ordered", in_order=True, invisible_ms=60_000)
            waiting = asyncio.ensure_future(broker.pop("ordered", in_order=True, poll_ms=90_000))
            await broker.let_pass(1_000)
            clock.set(NOW_MS - HOUR_MS)
            await broker.let_pass(62_000)
            assert (await waiting).message_count == 1

    asyncio.run(story())
