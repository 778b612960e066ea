"""Consumer offsets that are stored together, later."""

from __future__ import annotations

import asyncio

import pytest

from rmqpull_broker.core.admin.groups import delete_group
from rmqpull_broker.core.errors import ServiceNotAvailable
from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets, set_offsets, update_offset
from rmqpull_broker.core.state import room
from tests.harness.handlers import QUEUE, PullHandlerHarness, run_on_handlers

OTHER = MessageQueue("orders", "broker-a", 1)


def test_offsets_count_at_once_and_many_are_one_write() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        unstored = broker.handlers.service.unstored_offsets
        for offset in (1, 2, 3):
            unstored.put("readers", QUEUE, offset)
            unstored.put("readers", OTHER, offset + 10)
            assert (unstored.find("readers", QUEUE), unstored.find("readers", OTHER)) == (offset, offset + 10)
        assert broker.offsets == {}
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 3, ("readers", OTHER): 13}
        assert unstored.find("readers", QUEUE) is None

    run_on_handlers(story)


def test_an_offset_that_is_stored_is_not_written_again() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        unstored = broker.handlers.service.unstored_offsets
        unstored.put("readers", QUEUE, 3)
        await unstored.close()
        unstored.put("readers", QUEUE, 3)
        assert unstored.find("readers", QUEUE) is None
        unstored.put("readers", QUEUE, 4)
        unstored.put("readers", QUEUE, 3)  # 4 is on its way
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 3}

    run_on_handlers(story)


def test_offsets_that_come_during_a_write_follow_it() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        unstored = broker.handlers.service.unstored_offsets
        unstored.put("readers", QUEUE, 3)
        await asyncio.sleep(0)
        unstored.put("readers", QUEUE, 2)
        assert unstored.find("readers", QUEUE) == 2
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 2}

    run_on_handlers(story)


def test_offsets_are_stored_in_the_order_in_which_they_came_whether_or_not_somebody_waits() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        unstored = broker.handlers.service.unstored_offsets

        async def update(offset: int) -> None:
            try:
                await broker.run(lambda draft: update_offset(draft, "readers", QUEUE, offset))
            finally:
                unstored.end_update("readers", QUEUE)

        for offsets in ((3, "10", 20), ("5", 9, "7"), (4, "9", 4), ("1", 2, 3, "2", 8)):
            tasks = []
            for offset in offsets:
                if isinstance(offset, int):
                    unstored.put("readers", QUEUE, offset)
                else:
                    unstored.begin_update("readers", QUEUE, int(offset))
                    tasks.append(asyncio.ensure_future(update(int(offset))))
            await asyncio.gather(*tasks)
            await unstored.close()
            assert broker.offsets == {("readers", QUEUE): int(offsets[-1])}
            assert unstored.find("readers", QUEUE) is None

    run_on_handlers(story)


def test_an_offset_that_nobody_waits_for_gives_way_to_one_that_is_acknowledged() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        unstored = broker.handlers.service.unstored_offsets
        unstored.put("readers", QUEUE, 3)
        await broker.run(lambda draft: set_offsets(draft, "readers", [(QUEUE, 1)]))
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 1}

    run_on_handlers(story)


def test_what_is_deleted_or_reset_meanwhile_gets_no_offset() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        await broker.send("a")
        unstored = broker.handlers.service.unstored_offsets
        unstored.put("readers", QUEUE, 3)
        unstored.put("readers", MessageQueue("deleted", "broker-a", 0), 3)
        unstored.put("readers", OTHER, 5)
        await broker.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 1)]))
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 1, ("readers", OTHER): 5}
        unstored.put("readers", OTHER, 7)
        await broker.run(lambda draft: delete_group(draft, "readers"))
        await unstored.close()
        assert broker.offsets == {}

    run_on_handlers(story)


def test_a_log_that_fails_loses_only_what_waited() -> None:
    async def story(broker: PullHandlerHarness) -> None:
        unstored, execute = broker.handlers.service.unstored_offsets, broker.handlers.group_commit.execute

        async def fail(*_: object, **__: object) -> None:
            raise ServiceNotAvailable("the disk is full")

        broker.handlers.group_commit.execute = fail  # type: ignore[method-assign, assignment]
        unstored.put("readers", QUEUE, 3)
        await unstored.close()
        broker.handlers.group_commit.execute = execute  # type: ignore[method-assign]
        unstored.put("readers", QUEUE, 4)
        await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 4}

    run_on_handlers(story)


def test_a_lack_of_room_is_reported_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def story(broker: PullHandlerHarness) -> None:
        unstored = broker.handlers.service.unstored_offsets
        for offset in (1, 2):
            unstored.put("readers", QUEUE, offset)
            unstored.put("readers", OTHER, offset)
            await unstored.close()
        assert broker.offsets == {("readers", QUEUE): 2}

    monkeypatch.setattr(room, "OFFSETS_MAX", 1)
    run_on_handlers(story)
    (line,) = (record.getMessage() for record in caplog.records if "not stored" in record.getMessage())
    assert line.startswith(
        "consumer offsets are not stored: group readers gets no offset on queue orders/broker-a/1: 1 "
    )
