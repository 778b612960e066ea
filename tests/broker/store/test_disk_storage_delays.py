"""Delayed messages on a disk: whatever happens to the broker, each is delivered once, at its time."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.sending.delays import deliver_due, make_delayed_message
from rmqpull_broker.core.state import delayed_messages as timetable
from rmqpull_broker.core.state import retention
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import RowsStored, StillDelayed, StillWaiting, WaitingEnded
from rmqpull_broker.core.state.lengths import UNKNOWN_LENGTH
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.store.disk_storage import StorageOptions
from rmqpull_broker.store.log import small_facts
from rmqpull_broker.store.queues.chunks import SavedChunk
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.storage import StorageHarness

LATER = MessageQueue("later", "broker-a", 0)
TIMER = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
OPTIONS = StorageOptions(
    segment_bytes=2_000, save_bytes=2_000, snapshot_bytes=3_000, free_bytes_min=0, queue_file_bytes=2_000, cache_bytes=1
)
DAY_MS = 86_400_000


class Story:
    """A broker whose clock moves with each action, and its sends: (body, delivery time, time of the send)."""

    def __init__(self) -> None:
        self.disk = MemoryFileSystem()
        self.broker = StorageHarness(self.disk, OPTIONS)
        self.now_ms = 1_000
        self.sent: list[tuple[bytes, int, int]] = []
        self.delivered: list[tuple[bytes, int]] = []
        topic = TopicConfig("later", 1, 1, TopicType.DELAY)
        self.broker.run(lambda draft: create_topic(draft, topic))

    def send(self, delay_ms: int) -> None:
        body, time_ms = b"%d" % len(self.sent), self.now_ms + delay_ms
        message = Message(body, "ID", delivery_timestamp_ms=time_ms)
        self.broker.run(lambda draft: self.broker.sender.send(draft, "later", [message], self.now_ms))
        self.sent.append((body, time_ms, self.now_ms))
        self.pass_time(0)

    def pass_time(self, ms: int) -> None:
        """Everything is delivered at the moment at which it falls due."""
        until_ms = self.now_ms + ms
        while (due_ms := self.broker.state.delayed.next_due_ms()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            for facts in self.broker.run(lambda draft: deliver_due(draft, self.now_ms, "host")):
                stored = (row for fact in facts if isinstance(fact, RowsStored) for row in fact.rows)
                self.delivered += [(row.message.body, row.store_timestamp_ms) for row in stored]
        self.now_ms = until_ms

    def check(self) -> None:
        """What has come, came once and at its time; the rest waits. Retention may have deleted what came."""
        assert sorted(self.delivered) == sorted(
            (body, max(due_of(at), first)) for body, at, first in self.sent if due_of(at) <= self.now_ms
        )
        waiting = sorted(entry.due_ms for entry in self.broker.state.delayed)
        assert waiting == sorted(due_of(at) for _, at, _ in self.sent if due_of(at) > self.now_ms)
        bounds = self.broker.state.bounds(LATER)
        assert bounds.max_offset == len(self.delivered)
        came = [body for body, _ in self.delivered]
        assert self.broker.bodies(LATER) == came[bounds.min_offset :]

    def restart(self, seed: int | None) -> None:
        if seed is None:
            self.broker.stop()
        else:
            dice = random.Random(seed)
            self.disk = self.disk.crashed(lambda unsynced: unsynced[: dice.randint(0, len(unsynced))])
        self.broker = StorageHarness(self.disk, OPTIONS)

    def act(self, action: tuple[str, Any]) -> None:
        match action:
            case "send", int(delay_ms):
                self.send(delay_ms)
            case "pass", int(ms):
                self.pass_time(ms)
            case "fill", int(size):
                self.broker.send(bytes(size), now_ms=self.now_ms)
            case "expire", (int(reserved_ms), log_bytes_max):
                self.broker.expire(self.now_ms, RetentionLimits(reserved_ms, log_bytes_max))
            case "restart", seed:
                self.restart(seed)
        self.broker.keep_up()


ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(1, DAY_MS)),
    st.tuples(st.just("send"), st.integers(1, 5_000)),
    st.tuples(st.just("pass"), st.sampled_from([500, 5_000, DAY_MS // 4])),
    st.tuples(st.just("fill"), st.sampled_from([10, 1_500])),
    st.tuples(st.just("expire"), st.tuples(st.sampled_from([0, 3_600_000]), st.sampled_from([None, 0, 4_000]))),
    st.tuples(st.just("restart"), st.none() | st.integers(0, 1 << 16)),
)


@given(st.lists(ACTIONS, max_size=30), st.integers(1, 3))
def test_every_delayed_message_is_delivered_once_at_its_time(actions: list[tuple[str, Any]], together: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retention, "PUT_AGAIN_MAX", together)
        patch.setattr(timetable, "_BLOCK_MAX", 2)
        story = Story()
        for action in actions:
            story.act(action)
            story.check()
        story.restart(7)
        story.pass_time(2 * DAY_MS)
        story.check()
        assert len(story.delivered) == len(story.sent)


def due_of(time_ms: int) -> int:
    """The whole second before a delivery time."""
    return (time_ms - 1) // 1_000 * 1_000


def test_one_message_for_three_days_does_not_pin_the_log() -> None:
    story = Story()
    message = Message(b"last", "ID", delivery_timestamp_ms=story.now_ms + 3 * DAY_MS)

    def store(draft: Draft) -> None:  # a send takes no more than a day
        queue, waiting = make_delayed_message(draft, LATER, message, story.now_ms)
        draft.add(RowsStored(queue, (StoredMessage(waiting, 0, story.now_ms, "host"),)))

    story.broker.run(store)
    for _ in range(72):
        assert len(story.broker.state.delayed) == 1
        story.now_ms += 3_600_000
        for _ in range(10):
            story.broker.send(bytes(500), now_ms=story.now_ms)
        story.broker.keep_up()
        story.broker.expire(story.now_ms, RetentionLimits(3_600_000))
        story.broker.keep_up()
        assert sum(map(len, story.disk.files.values())) < 120_000
    story.pass_time(0)
    assert [body for body, _ in story.delivered] == [b"last"]


def test_what_an_older_release_wrote_of_delayed_messages_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its snapshots had the ids, and its records did not have the due times of delivered messages."""
    story = Story()
    for delay_ms in (9_000, 5_000, 7_000):
        story.send(delay_ms)
    entries = tuple(
        (entry.stored_at.queue_offset, entry.due_ms, "ID", UNKNOWN_LENGTH) for entry in story.broker.state.delayed
    )
    older = [StillWaiting(TIMER, entries)]
    monkeypatch.setattr(type(story.broker.state.delayed), "to_facts", lambda delayed: older)
    monkeypatch.setitem(
        small_facts.BY_FACT,
        WaitingEnded,
        small_facts.BY_FACT[WaitingEnded]._replace(to_json=lambda f: [f.queue, f.queue_offsets]),
    )
    story.broker.snapshot()
    story.pass_time(4_500)
    monkeypatch.undo()
    assert story.broker.bodies(LATER) == [b"1"]
    again = StorageHarness(story.disk.crashed(), OPTIONS)
    assert sorted(again.state.delayed) == sorted(story.broker.state.delayed)
    assert len(again.state.delayed.find(TIMER, due_of(story.sent[2][1]), "ID")) == 1
    assert all(isinstance(fact, StillDelayed) for fact in again.state.delayed.to_facts())


@pytest.mark.parametrize(("topic", "is_kept"), [("rmq_sys_wheel_timer", False), ("orders", True)])
def test_a_saved_chunk_of_delayed_messages_leaves_the_memory(topic: str, is_kept: bool) -> None:
    broker = StorageHarness(MemoryFileSystem(), dataclasses.replace(OPTIONS, cache_bytes=1 << 20))
    queue = MessageQueue(topic, "broker-a", 0)
    properties = {"TIMER_OUT_MS": "9000"}
    rows = tuple(StoredMessage(Message(bytes(900), "ID", system_properties=properties), n, 5, "host") for n in range(9))
    broker.write([[RowsStored(queue, rows)]])
    broker.keep_up()
    ((_, _, _, saved),) = [entry for entry in broker.storage.store.list_index() if entry.queue == queue]
    (chunk,) = saved
    assert isinstance(chunk, SavedChunk)
    assert (broker.storage._files._chunk_cache.get(chunk.location) is not None) == is_kept
    assert broker.bodies(queue) == [bytes(900)] * 9
