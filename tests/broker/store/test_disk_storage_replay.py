"""A restarted broker has the same state: compared with lists, through restarts, crashes and retention."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import delete_group, ensure_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic
from rmqpull_broker.core.model import Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.pulling.consumer_offsets import (
    answer_reset,
    report_lost,
    reset_offsets,
    set_offsets,
    update_offset,
)
from rmqpull_broker.core.sending.delays import deliver_due
from rmqpull_broker.core.sending.half_messages import Resolution, TransactionEnd, check_transactions, end_transaction
from rmqpull_broker.core.sending.publishing import Published, TopicPart
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.stage_commands import CommittedStage, drop, stage, store_next
from rmqpull_broker.core.sending.stage_commands import commit as commit_stages
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact, LostRange
from rmqpull_broker.core.state.ports import RetentionLimits
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.disk_storage import StorageOptions
from tests.harness.core import check_batch
from tests.harness.memory_vfs import MemoryFileSystem
from tests.harness.message_lists import Lists
from tests.harness.storage import StorageHarness
from tests.harness.written_messages import lower_part_limits

TOPICS = ["orders", "invoices", "il legal"]
TIMED_TOPICS = ["later", "payments"]
QUEUES = st.builds(MessageQueue, st.sampled_from(TOPICS), st.just("broker-a"), st.integers(0, 3))
GROUPS = st.sampled_from(["readers", "writers", ""])
OFFSETS = st.integers(-1, 9)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=3),
    st.sampled_from(["ID1", "ID2"]),
    st.none() | st.sampled_from(["red", "été"]),
    properties=st.dictionaries(st.sampled_from("ab"), st.text("xyz", max_size=2)),
    message_group=st.sampled_from([None, None, None, "hello", "order-1"]),
)
LOST = st.lists(st.builds(LostRange, QUEUES, st.integers(0, 3), st.integers(2, 5)), max_size=3)

Command = Callable[[Sender, Draft, int], object]


def create(name: str, queue_count: int, topic_type: TopicType) -> Command:
    return lambda sender, draft, now_ms: create_topic(
        draft, TopicConfig(name, queue_count, queue_count, topic_type, "id")
    )


def send(topic: str, messages: list[Message]) -> Command:
    return lambda sender, draft, now_ms: sender.send(draft, topic, messages, now_ms)


def publish(topic: str, messages: list[Message]) -> Command:
    batch = pa.record_batch(
        {
            "body": pa.array([message.body for message in messages], pa.binary()),
            "tags": pa.array([message.tags for message in messages], pa.string()),
            "messageGroup": pa.array([message.message_group for message in messages], pa.string()),
        }
    )
    return lambda sender, draft, now_ms: sender.publish(
        draft, check_batch(sender, Published(topic, batch, "client"), now_ms), now_ms
    )


def commit(group: str, offsets: list[tuple[MessageQueue, int]]) -> Command:
    return lambda sender, draft, now_ms: set_offsets(draft, group, offsets)


def update(group: str, queue: MessageQueue, offset: int) -> Command:
    return lambda sender, draft, now_ms: update_offset(draft, group, queue, offset)


def delete(topic: str) -> Command:
    return lambda sender, draft, now_ms: delete_topic(draft, topic)


def ensure(group: str) -> Command:
    return lambda sender, draft, now_ms: ensure_group(draft, group)


def report(query_id: str, batch_id: int, ranges: list[LostRange]) -> Command:
    return lambda sender, draft, now_ms: report_lost(draft, query_id, batch_id, ranges)


def reset(group: str, offsets: list[tuple[MessageQueue, int]]) -> Command:
    return lambda sender, draft, now_ms: reset_offsets(draft, group, offsets)


def tell_reset(group: str, queue: MessageQueue) -> Command:
    return lambda sender, draft, now_ms: answer_reset(draft, group, queue)


def forget(group: str) -> Command:
    return lambda sender, draft, now_ms: delete_group(draft, group)


def delay(delay_ms: int) -> Command:
    def command(sender: Sender, draft: Draft, now_ms: int) -> object:
        return sender.send(draft, "later", [Message(b"x", "ID", delivery_timestamp_ms=now_ms + delay_ms)], now_ms)

    return command


def prepare(sender: Sender, draft: Draft, now_ms: int) -> object:
    message = Message(
        b"x", "ID", born_timestamp_ms=now_ms, transactional=True, system_properties={"PGROUP": "payments"}
    )
    return sender.send(draft, "payments", [message], now_ms)


def resolve(resolution: Resolution) -> Command:
    end = TransactionEnd("ID", "payments", resolution)
    return lambda sender, draft, now_ms: end_transaction(draft, end, now_ms, "host")


def work_off(passed_ms: int) -> Command:
    def command(sender: Sender, draft: Draft, now_ms: int) -> None:
        deliver_due(draft, now_ms, "host")
        check_transactions(draft, now_ms + passed_ms, "host")

    return command


TIMED = st.one_of(
    st.builds(delay, st.integers(1, 1_500)),
    st.just(prepare),
    st.builds(resolve, st.sampled_from([Resolution.COMMIT, Resolution.ROLLBACK])),
    st.builds(work_off, st.sampled_from([0, 40_000, 400_000])),
    st.builds(delete, st.sampled_from(TIMED_TOPICS)),
)
BATCHES = st.builds(TransactionId, st.sampled_from(["query", "write"]), st.integers(0, 2) | st.none())


def hand_over(
    batch: TransactionId, stage_id: str, sequence: int, bodies: list[bytes], delayed_count: int = 0
) -> Command:
    """Stages messages, and after them delayed ones, of another topic."""
    all_bodies = [*bodies, *[b"later"] * delayed_count]
    parts = [part for part in (TopicPart("orders", len(bodies)), TopicPart("later", delayed_count)) if part[1]]

    def command(sender: Sender, draft: Draft, now_ms: int) -> object:
        dues = [*[None] * len(bodies), *[(now_ms + 500) * 1000] * delayed_count]
        rows = pa.record_batch(
            {"body": pa.array(all_bodies, pa.binary()), "deliveryTimestamp": pa.array(dues, pa.timestamp("us", "UTC"))}
        )
        checked = check_batch(sender, Published("", rows, "client", parts=parts), now_ms)
        return stage(draft, sender, batch, stage_id, sequence, checked, now_ms)

    return command


def commit_batch(batch: TransactionId, named: dict[str, int]) -> Command:
    stages = [CommittedStage(*entry) for entry in named.items()]
    return lambda sender, draft, now_ms: commit_stages(draft, "host", batch, stages, now_ms)


def store_staged(sender: Sender, draft: Draft, now_ms: int) -> object:
    """Like the broker: uses only facts that are kept, not those of earlier commands of the draft."""
    kept = draft.state.stages
    for stage_id in kept.list_committing():
        now, before = draft.find_stage(stage_id), kept.find(stage_id)
        if now and before and now.is_committed and before.has(now.first_call.sequence):
            return store_next(draft, sender, stage_id, now_ms)
    return None


def drop_batch(batch: TransactionId) -> Command:
    return lambda sender, draft, now_ms: drop(draft, batch)


STAGED = st.one_of(
    st.builds(
        hand_over,
        BATCHES,
        st.sampled_from(["a", "b"]),
        st.integers(0, 1),
        st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=4),
        st.sampled_from([0, 0, 2]),
    ),
    st.builds(hand_over, BATCHES, st.sampled_from(["a", "b"]), st.integers(0, 1), st.just([]), st.just(2)),
    st.builds(commit_batch, BATCHES, st.dictionaries(st.sampled_from(["a", "b"]), st.integers(0, 2))),
    st.just(store_staged),
    st.just(store_staged),
    st.builds(drop_batch, BATCHES),
)
COMMANDS = st.one_of(
    st.builds(create, st.sampled_from(TOPICS), st.integers(0, 3), st.sampled_from([TopicType.NORMAL, TopicType.FIFO])),
    st.builds(send, st.sampled_from(TOPICS), st.lists(MESSAGES, max_size=3)),
    st.builds(publish, st.sampled_from(TOPICS), st.lists(MESSAGES, max_size=5)),
    st.builds(commit, GROUPS, st.lists(st.tuples(QUEUES, OFFSETS), max_size=3)),
    st.builds(update, GROUPS, QUEUES, OFFSETS),
    st.builds(ensure, GROUPS),
    st.builds(forget, GROUPS),
    st.builds(reset, GROUPS, st.lists(st.tuples(QUEUES, OFFSETS), max_size=3)),
    st.builds(tell_reset, GROUPS, QUEUES),
    st.builds(delete, st.sampled_from(TOPICS)),
    st.builds(report, st.sampled_from(["q", "r", ""]), st.integers(0, 2), LOST),
)
SEEDS = [
    create("orders", 2, TopicType.NORMAL),
    create("invoices", 3, TopicType.FIFO),
    create("later", 1, TopicType.DELAY),
    create("payments", 1, TopicType.TRANSACTION),
    ensure("readers"),
]


class Story:
    """A broker on a disk beside a model that is never restarted."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self.disk = MemoryFileSystem()
        self.broker = StorageHarness(self.disk, options)
        self.model = BrokerState(Lists(), ["broker-a"])
        self.now_ms = 1_000

    def act(self, action: Any) -> None:
        """Runs an action. A list of commands is one write; other actions are jobs, restarts and crashes."""
        match action:
            case list():
                self.now_ms += 10
                self._take(self.broker.run(*(self._bound(command) for command in action)))
            case "keep up":
                self.broker.keep_up()
            case "snapshot":
                self.broker.snapshot()
            case "expire", int(reserved_ms), log_bytes_max:
                self._expire(RetentionLimits(reserved_ms, log_bytes_max))
            case "restart":
                self.broker.stop()
                before = self.broker.storage.store
                self.restart(self.disk)
                now = self.broker.storage.store
                assert (now.segments.marks, now.segments.times) == (before.segments.marks, before.segments.times)
                assert now.segments.spliced == before.segments.spliced
                assert now.staged.list_index() == before.staged.list_index()
            case "crash", int(seed):
                dice = random.Random(seed)
                self.restart(self.disk.crashed(lambda unsynced: torn(unsynced, dice)))
            case "lose queue files" if not self._needs_queue_files():
                for name in [name for name in self.disk.files if name.endswith(".chunks")]:
                    del self.disk.files[name], self.disk.synced[name]
                self.restart(self.disk)

    def _needs_queue_files(self) -> bool:
        """Retention passes stages by, and removes the log around them."""
        return bool(self.state.stages.all()) and self.broker.storage._log.begin > 0

    def _bound(self, command: Command) -> Callable[[Draft], object]:
        return lambda draft: command(self.broker.sender, draft, self.now_ms)

    def _take(self, groups: list[list[Fact]]) -> None:
        for facts in groups:
            self.model.apply(facts)

    def _expire(self, limits: RetentionLimits) -> None:
        before = self._waiting()
        self._take(self.broker.expire(self.now_ms, limits))
        assert self._waiting() == before

    def _waiting(self) -> list[int]:
        state = self.broker.state
        return sorted(entry.due_ms for entry in (*state.delayed, *state.halves))

    def restart(self, disk: MemoryFileSystem) -> None:
        self.disk = disk
        self.broker = StorageHarness(disk, self._options)

    def check(self) -> None:
        expected = StorageHarness.observed(self)  # type: ignore[arg-type]
        assert self.broker.observed() == expected
        store = self.broker.storage.store
        assert store.unsaved_bytes == sum(queue.unsaved_bytes for queue in store._queues.values())
        assert store.scattered_bytes == sum(queue.scattered_bytes for queue in store._queues.values())

    @property
    def state(self) -> BrokerState:
        return self.model


def torn(unsynced: bytes, dice: random.Random) -> bytes:
    """Keeps a first part of the unsynced bytes, perhaps with a gap in it."""
    kept = bytearray(unsynced[: dice.randint(0, len(unsynced))])
    hole = dice.randint(0, len(kept))
    if dice.random() < 0.5:
        kept[hole : hole + dice.randint(0, 64)] = bytes(len(kept[hole : hole + 64]))[:64]
    return bytes(kept[: len(unsynced)])


FILL = st.lists(
    st.builds(send, st.just("orders"), st.lists(MESSAGES, min_size=1, max_size=3))
    | st.builds(publish, st.just("orders"), st.lists(MESSAGES, min_size=1, max_size=9)),
    min_size=1,
    max_size=4,
)
ANEW = st.tuples(
    st.builds(delete, st.just("orders")),
    st.just(create("orders", 2, TopicType.NORMAL)),
    st.builds(publish, st.just("orders"), st.lists(MESSAGES, min_size=1, max_size=4)),
).map(list)
ACTIONS = st.one_of(
    FILL,
    FILL,
    FILL,
    ANEW,
    st.lists(COMMANDS, min_size=1, max_size=4),
    st.lists(TIMED, min_size=1, max_size=4),
    st.lists(STAGED, min_size=1, max_size=6),
    st.sampled_from(["keep up", "snapshot", "restart", "lose queue files"]),
    st.sampled_from(["keep up", "snapshot", "lose queue files"]),
    st.tuples(st.just("crash"), st.integers(0, 1 << 16)),
    st.tuples(st.just("expire"), st.sampled_from([0, 50, 1 << 40]), st.none() | st.sampled_from([0, 3_000])),
)
OPTIONS = st.builds(
    StorageOptions,
    segment_bytes=st.sampled_from([64, 2_000, 1 << 30]),
    save_bytes=st.sampled_from([0, 3_000, 1 << 30]),
    snapshot_bytes=st.sampled_from([64, 3_000, 1 << 30]),
    free_bytes_min=st.just(0),
    queue_file_bytes=st.sampled_from([1, 1 << 30]),
    cache_bytes=st.sampled_from([1, 1 << 30]),
)


@given(st.lists(ACTIONS, max_size=20), OPTIONS)
def test_a_broker_keeps_its_state_through_restarts_crashes_and_retention(
    actions: list[Any], options: StorageOptions
) -> None:
    story = Story(options)
    story.act(SEEDS)
    for action in actions:
        story.act(action)
        story.check()
    story.restart(story.disk.crashed())
    story.check()


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    """Parts of two rows are large, so that queues refer to the log."""
    with pytest.MonkeyPatch.context() as patch:
        lower_part_limits(patch, 2)
        yield
