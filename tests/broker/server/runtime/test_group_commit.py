"""Group commit: what is stored together, what fails with the log, and who waits."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import ConsumerGroupNotFound, ServiceNotAvailable, TooManyRequests
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.pulling.consumer_offsets import update_offset
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, RowsStored
from rmqpull_broker.core.state.ports import Kept
from rmqpull_broker.server.runtime import group_commit
from rmqpull_broker.server.runtime.group_commit import GroupCommit
from rmqpull_broker.server.runtime.noted_time import NOTE_TIME
from rmqpull_broker.server.runtime.slices import SLICE_S
from rmqpull_broker.store.memory_storage import MemoryStorage

QUEUE = MessageQueue("orders", "broker-a", 0)


async def run_pending_tasks() -> None:
    """Runs everything that can run now."""
    for _ in range(10):
        await asyncio.sleep(0)


class FakeStorage(MemoryStorage):
    """Stores fact batches in memory. Appends wait while ``gate`` is closed; each raises the next of ``failures``."""

    def __init__(self) -> None:
        super().__init__()
        self.appends: list[list[list[Fact]]] = []
        self.failures: list[Exception] = []
        self.gate = threading.Event()
        self.gate.set()
        self.waits_for_nothing = False
        self.is_closed = False
        self.byte_count = 0

    def append_at_once(self, groups: Sequence[Sequence[Fact]]) -> list[Kept] | None:
        return self.append(groups) if self.waits_for_nothing else None

    def append(self, groups: Sequence[Sequence[Fact]]) -> list[Kept]:
        self.gate.wait(60)
        if self.failures:
            raise self.failures.pop()
        self.appends.append([list(group) for group in groups])
        return super().append(groups)

    def close(self) -> None:
        self.is_closed = True


class Harness:
    """A group commit with a state and a storage."""

    def __init__(self) -> None:
        self.log = FakeStorage()
        self.state = BrokerState(self.log.store, ["broker-a"])
        self.kept: list[Fact] = []
        self.now_s = 0.0
        self.group_commit = GroupCommit(self.state, self.log, self.kept.extend, clock=lambda: self.now_s)

    def send(self, body: bytes) -> asyncio.Task[int]:
        """Starts to store one message. Returns a task with its offset."""

        def command(draft: Draft) -> int:
            offset = draft.find_next_offset(QUEUE)
            draft.add(RowsStored(QUEUE, (StoredMessage(Message(body, "m"), offset, 0, "here"),)))
            return offset

        return asyncio.ensure_future(self.group_commit.execute(command))

    async def send_while_the_log_is_busy(self, *bodies: bytes) -> list[asyncio.Task[int]]:
        """The first send waits in the log, and the others wait for it."""
        self.log.gate.clear()
        first = self.send(bodies[0])
        await run_pending_tasks()
        others = [self.send(body) for body in bodies[1:]]
        await run_pending_tasks()
        return [first, *others]

    @property
    def bodies(self) -> list[list[bytes]]:
        """The bodies in the log, by append."""
        return [
            [
                row.message.body
                for group in groups
                for fact in group
                if isinstance(fact, RowsStored)
                for row in fact.rows
            ]
            for groups in self.log.appends
        ]


def run_with_harness(story: Callable[[Harness], Awaitable[None]]) -> None:
    """Runs a story, and closes the group commit afterwards."""

    async def run() -> None:
        harness = Harness()
        await story(harness)
        await harness.group_commit.close()
        assert harness.log.is_closed

    asyncio.run(run())


def refuse(draft: Draft) -> None:
    create_topic(draft, TopicConfig("half", 1, 1, TopicType.NORMAL, "id"))
    update_offset(draft, "nobody", QUEUE, 1)


def test_commands_that_arrive_during_an_append_are_stored_with_one_append() -> None:
    async def story(harness: Harness) -> None:
        sends = await harness.send_while_the_log_is_busy(b"1", b"2", b"3", b"4")
        harness.log.gate.set()
        assert await asyncio.gather(*sends) == [0, 1, 2, 3]
        assert harness.bodies == [[b"1"], [b"2", b"3", b"4"]]

    run_with_harness(story)


def test_a_log_that_waits_for_nothing_is_written_without_a_thread() -> None:
    async def story(harness: Harness) -> None:
        harness.log.waits_for_nothing = True
        sends = [harness.send(b"1"), harness.send(b"2")]
        await run_pending_tasks()  # no other thread would be done by now for certain
        assert [send.result() for send in sends] == [0, 1]
        assert harness.bodies == [[b"1", b"2"]]
        harness.log.failures = [OSError("the disk is full")]
        with pytest.raises(ServiceNotAvailable, match="the disk is full"):
            await harness.send(b"3")

    run_with_harness(story)


def test_nothing_is_visible_before_it_is_stored() -> None:
    async def story(harness: Harness) -> None:
        (send,) = await harness.send_while_the_log_is_busy(b"1")
        assert (harness.state.bounds(QUEUE), harness.kept, send.done()) == ((0, 0), [], False)
        harness.log.gate.set()
        await send
        assert harness.state.bounds(QUEUE) == (0, 1)
        assert len(harness.kept) == 1

    run_with_harness(story)


def test_a_failing_log_fails_only_its_commands_and_uses_no_offset() -> None:
    async def story(harness: Harness) -> None:
        first, second, third = await harness.send_while_the_log_is_busy(b"1", b"2", b"3")
        harness.log.failures = [OSError("disk full")]
        harness.log.gate.set()
        with pytest.raises(ServiceNotAvailable, match="disk full"):
            await first
        assert [await second, await third] == [0, 1]
        assert harness.bodies == [[b"2", b"3"]]
        assert harness.state.bounds(QUEUE) == (0, 2)

    run_with_harness(story)


def test_a_bug_in_the_log_leaves_no_caller_waiting_and_the_writer_running() -> None:
    async def story(harness: Harness) -> None:
        harness.log.failures = [ZeroDivisionError("a mistake of ours")]
        with pytest.raises(ZeroDivisionError):
            await harness.send(b"1")
        assert await harness.send(b"2") == 0

    run_with_harness(story)


def test_a_refused_command_fails_alone_and_changes_nothing() -> None:
    async def story(harness: Harness) -> None:
        first, second = await harness.send_while_the_log_is_busy(b"1", b"2")
        refused = asyncio.ensure_future(harness.group_commit.execute(refuse))
        third = harness.send(b"3")
        harness.log.gate.set()
        with pytest.raises(ConsumerGroupNotFound):
            await refused
        assert [await first, await second, await third] == [0, 1, 2]
        assert "half" not in harness.state.topics

    run_with_harness(story)


def test_others_have_a_turn_after_each_slice_of_commands_and_before_the_next_one() -> None:
    """Commands of 1.5 slices each: another task sees them drafted one by one, and applied all at once."""

    async def story(harness: Harness) -> None:
        drafted: list[int] = []

        def take_long(draft: Draft) -> None:
            harness.now_s += 1.5 * SLICE_S
            draft.add(RowsStored(QUEUE, (StoredMessage(Message(b"a", "m"), len(drafted), 0, "here"),)))
            drafted.append(len(drafted))

        sent = [asyncio.ensure_future(harness.group_commit.execute(take_long)) for _ in range(4)]
        seen: list[tuple[int, int]] = []
        while not all(one.done() for one in sent):
            seen.append((len(drafted), harness.state.bounds(QUEUE)[1]))
            await asyncio.sleep(0)
        assert {count for count, _ in seen} == {0, 1, 2, 3, 4}
        assert {applied for _, applied in seen} <= {0, 4}
        assert len(harness.log.appends) == 1

    run_with_harness(story)


def test_the_time_of_a_command_is_noted_for_the_request_that_it_is_of() -> None:
    async def story(harness: Harness) -> None:
        noted: dict[str, list[float]] = {"first": [], "second": []}

        async def request(name: str, seconds: float) -> None:
            def command(draft: Draft) -> None:
                harness.now_s += seconds

            NOTE_TIME.set(lambda: noted[name].append)
            await harness.group_commit.execute(command)

        await asyncio.gather(asyncio.create_task(request("first", 0.25)), asyncio.create_task(request("second", 0.5)))
        assert noted == {"first": [0.25], "second": [0.5]}

    run_with_harness(story)


def test_a_refused_command_is_freed_without_a_search_for_cycles() -> None:
    """Its error must not refer to what refers to it: a flood of refusals would be kept until a search finds them."""

    class Asked:
        """What a request holds while it waits."""

    async def story(harness: Harness) -> None:
        async def request() -> weakref.ref[Asked]:
            asked = Asked()
            with contextlib.suppress(ConsumerGroupNotFound):
                await harness.group_commit.execute(refuse)
            return weakref.ref(asked)

        refused = await asyncio.create_task(request())
        assert refused() is None

    gc.disable()
    try:
        run_with_harness(story)
    finally:
        gc.enable()


def test_a_command_without_facts_needs_no_append() -> None:
    async def story(harness: Harness) -> None:
        assert await harness.group_commit.execute(lambda draft: "answer") == "answer"
        assert harness.log.appends == []

    run_with_harness(story)


def test_a_caller_that_leaves_delays_nobody() -> None:
    async def story(harness: Harness) -> None:
        first, second, third = await harness.send_while_the_log_is_busy(b"1", b"2", b"3")
        first.cancel()
        second.cancel()
        await asyncio.wait([first, second])
        harness.log.gate.set()
        # A cancelled write may be stored or not, but the offsets must match what is stored.
        offset = await third
        assert [body for kept_together in harness.bodies for body in kept_together][offset] == b"3"
        assert harness.state.bounds(QUEUE) == (0, offset + 1)

    run_with_harness(story)


def test_a_failure_after_the_caller_has_left_does_no_harm() -> None:
    async def story(harness: Harness) -> None:
        first, second = await harness.send_while_the_log_is_busy(b"1", b"2")
        first.cancel()
        await asyncio.wait([first])
        harness.log.failures = [OSError("disk full")]
        harness.log.gate.set()
        assert await second == 0

    run_with_harness(story)


@pytest.mark.parametrize(("limit", "value"), [("COMMANDS_WAITING_MAX", 2), ("BYTES_WAITING_MAX", 100)])
def test_commands_above_the_limit_are_refused_until_others_are_stored(
    monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(group_commit, limit, value)

    def command(_: Draft) -> int:
        return 0

    async def story(harness: Harness) -> None:
        sends: list[asyncio.Task[Any]] = list(await harness.send_while_the_log_is_busy(b"1"))
        sends += [asyncio.ensure_future(harness.group_commit.execute(command, 51)) for _ in range(2)]
        await run_pending_tasks()
        with pytest.raises(TooManyRequests):
            await harness.group_commit.execute(command, 51)
        harness.log.gate.set()
        await asyncio.gather(*sends)
        assert await harness.group_commit.execute(command, 51) == 0

    run_with_harness(story)


def test_a_failed_write_no_longer_counts_as_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_commit, "BYTES_WAITING_MAX", 100)

    async def story(harness: Harness) -> None:
        for error in (OSError("disk full"), ZeroDivisionError("a mistake of ours")):
            harness.log.failures = [error]
            with pytest.raises((ServiceNotAvailable, ZeroDivisionError)):
                await harness.group_commit.execute(lambda draft: ensure_group(draft, "g"), 101)
        await harness.group_commit.execute(lambda draft: ensure_group(draft, "g"), 101)

    run_with_harness(story)


def test_closing_waits_for_accepted_commands() -> None:
    async def story(harness: Harness) -> None:
        sends = await harness.send_while_the_log_is_busy(b"1", b"2")
        closing = asyncio.ensure_future(harness.group_commit.close())
        harness.log.gate.set()
        await closing
        assert await asyncio.gather(*sends) == [0, 1]
        assert harness.bodies == [[b"1"], [b"2"]]

    run_with_harness(story)
