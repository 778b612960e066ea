"""Storage and state of a broker on a disk, without a server; and commit logs alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

from rmqpull_broker.core.admin.topics import create_topic
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.messages.ids import MessageIds
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage, TopicConfig
from rmqpull_broker.core.sending.publishing import Published, TopicPart
from rmqpull_broker.core.sending.queue_selection import QueueSelector
from rmqpull_broker.core.sending.sender import Sender
from rmqpull_broker.core.sending.stage_commands import CommittedStage, commit, stage, store_next
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import Fact
from rmqpull_broker.core.state.names import STAGE_PREFIX
from rmqpull_broker.core.state.ports import Job, RetentionLimits
from rmqpull_broker.core.state.retention import Trimmer
from rmqpull_broker.core.state.stage_facts import TransactionId
from rmqpull_broker.store.disk_storage import DiskStorage, StorageOptions
from rmqpull_broker.store.log.commit_log import SEGMENT_BYTES, CommitLog
from rmqpull_broker.store.log.recovery import Recovery
from rmqpull_broker.store.vfs import FileSystem
from rmqpull_proto.names import HALF_TOPIC, TIMER_TOPIC
from tests.harness.core import check_batch
from tests.harness.message_lists import Lists


class OpenedLog(NamedTuple):
    """A recovered log that is ready for appends, the fact batches that it held, and how the recovery went."""

    log: CommitLog
    fact_batches: list[list[Fact]]
    recovery: Recovery


def open_log(file_system: FileSystem, segment_bytes: int = SEGMENT_BYTES) -> OpenedLog:
    log, fact_batches = CommitLog(file_system, segment_bytes), list[list[Fact]]()
    return OpenedLog(log, fact_batches, log.recover(lambda facts, _: fact_batches.append(facts)))


QUEUE = MessageQueue("orders", "broker-a", 0)
SMALL = StorageOptions(
    segment_bytes=3_000, save_bytes=2_000, snapshot_bytes=2_000, free_bytes_min=0, queue_file_bytes=2_000, cache_bytes=1
)
"""Limits so small that a few messages reach them."""


EAGER = StorageOptions(segment_bytes=3_000, save_bytes=0, snapshot_bytes=1 << 30, free_bytes_min=0, cache_bytes=1)
"""Every chunk is saved as soon as it can be, and read from its file."""
ALL = RetentionLimits(0)
"""Everything has expired."""
TWELVE = [b"%d" % number for number in range(12)]
"""The bodies of the messages of fixture ``broker``."""


def list_files(disk: FileSystem, suffix: str) -> list[str]:
    return [name for name in disk.names() if name.endswith(suffix)]


BATCH = TransactionId("query", 1)


class StorageHarness:
    """A broker without a server, just started on a disk."""

    def __init__(self, disk: FileSystem, options: StorageOptions = SMALL) -> None:
        self.reports: list[str] = []
        self.storage = DiskStorage(disk, options, self.reports.append)
        self.state = BrokerState(self.storage.store, ["broker-a"])
        self.recovery = self.storage.recover(self.state)
        self.sender = Sender(QueueSelector(), MessageIds(bytes(6), 1), "host")

    def run(self, *commands: Callable[[Draft], object]) -> list[list[Fact]]:
        """Runs commands and stores the facts of those that are not refused, in one write. Returns the fact batches."""
        draft = Draft(self.state)
        for command in commands:
            with contextlib.suppress(BrokerError):
                command(draft)
                draft.end_command()
            draft.drop_command()
        self.write(draft.fact_batches)
        return draft.fact_batches

    def write(self, fact_batches: list[list[Fact]]) -> None:
        if fact_batches:
            for written, facts in self.storage.append(fact_batches):
                self.state.apply(facts, written)

    def topic(self, name: str = "orders", queue_nums: int = 1) -> None:
        self.run(lambda draft: create_topic(draft, TopicConfig(name, queue_nums, queue_nums, creation_id="id")))

    def send(self, *bodies: bytes, topic: str = "orders", now_ms: int = 1_000) -> None:
        """Sends messages in one request, to the next queue in turn."""
        messages = [Message(body, "ID") for body in bodies]
        self.run(lambda draft: self.sender.send(draft, topic, messages, now_ms))

    def publish(self, *bodies: bytes, topic: str = "orders", now_ms: int = 1_000) -> None:
        """Publishes messages in columns, in slices over all queues."""
        batch = pa.record_batch({"body": pa.array(bodies, pa.binary())})
        self.run(
            lambda draft: self.sender.publish(
                draft, check_batch(self.sender, Published(topic, batch, "client"), now_ms), now_ms
            )
        )

    def stage(
        self,
        stage_id: str,
        sequence: int,
        *bodies: bytes,
        delayed: Sequence[bytes] = (),
        batch: TransactionId = BATCH,
        now_ms: int = 1_000,
    ) -> None:
        """Stages messages for ``orders`` in one call, and after them delayed ones for ``later``."""
        parts = [part for part in (TopicPart("orders", len(bodies)), TopicPart("later", len(delayed))) if part[1]]
        dues = [*[None] * len(bodies), *[(now_ms + 500) * 1000] * len(delayed)]
        rows = pa.record_batch(
            {
                "body": pa.array([*bodies, *delayed], pa.binary()),
                "deliveryTimestamp": pa.array(dues, pa.timestamp("us", "UTC")),
            }
        )
        checked = check_batch(self.sender, Published("", rows, "client", parts=parts), now_ms)
        self.run(lambda draft: stage(draft, self.sender, batch, stage_id, sequence, checked, now_ms))

    def commit(self, *named: tuple[str, int], batch: TransactionId = BATCH, now_ms: int = 1_000) -> None:
        """Commits stages: their ids, each with the number of its calls."""
        stages = [CommittedStage(*entry) for entry in named]
        self.run(lambda draft: commit(draft, "host", batch, stages, now_ms))

    def store_delayed(self, now_ms: int = 1_000) -> None:
        """Stores the delayed rows of the first call of the first committed stage, if there is one."""
        stage_id = next(iter(self.state.stages.list_committing()), None)
        if stage_id is not None:
            self.run(lambda draft: store_next(draft, self.sender, stage_id, now_ms))

    @staticmethod
    def do(job: Job | None) -> None:
        """Runs a job as a broker does."""
        if job is not None:
            try:
                job.run()
            finally:
                job.finish()

    def keep_up(self) -> None:
        self.do(self.storage.due_job(self.state))

    def snapshot(self) -> None:
        self.do(self.storage.last_job(self.state))

    def expire(self, now_ms: int, limits: RetentionLimits) -> list[list[Fact]]:
        """Deletes what exceeds the limits. Returns the fact batches that were stored for it."""
        kept: list[list[Fact]] = []
        cut = self.storage.expire(limits, now_ms)
        if cut is not None:
            trimming = Trimmer(self.state, cut)
            while not trimming.is_done:
                kept += self.run(lambda draft: trimming.step(draft, now_ms))
            self.do(self.storage.removal_job(self.state, cut))
        return kept

    def stop(self) -> None:
        self.storage.leave_mark()
        self.snapshot()
        self.storage.close()

    def bodies(self, queue: MessageQueue = QUEUE) -> list[bytes]:
        """Returns the bodies of all readable messages of a queue."""
        rows = self.state.store.read(queue, *self.state.bounds(queue))
        return [row.message.body for row in columns.to_rows(rows)]

    def observed(self) -> dict[str, Any]:
        """Returns the whole visible state: a restart must not change it."""
        state = self.state
        topics = [*state.topics.values(), *(state.require_topic(name) for name in (TIMER_TOPIC, HALF_TOPIC))]
        queues = [queue for topic in topics for queue in state.list_readable_queues(topic)]
        delayed = [(name, MessageQueue(STAGE_PREFIX + name, "broker-a", 0)) for name in state.stages.all()]
        return {
            "topics": state.topics.copy(),
            "groups": state.groups.copy(),
            "bounds": {queue: state.bounds(queue) for queue in queues},
            "rows": {queue: columns.to_rows(state.store.read(queue, *state.bounds(queue))) for queue in queues},
            "progress": dict(state.consumer_offsets),
            "resets": dict(state.resets),
            "in flight": sorted(
                (each for key in state.popped.list_queues() for each in state.popped.list_in_flight(*key)), key=repr
            ),
            "due": state.popped.next_due_ms(),
            "lost": [state.count_lost_rows(query_id) for query_id in ("q", "r", "")],
            "delayed": sorted(state.delayed),
            "halves": sorted(state.halves),
            "stages": state.stages.to_facts(),
            "delayed rows": {name: columns.to_rows(state.store.read(at, *state.bounds(at))) for name, at in delayed},
            "staged": list_staged(state.store),
            "newest": state.newest_store_ms,
        }


def list_staged(store: Any) -> dict[str, dict[MessageQueue, list[bytes]]]:
    """Returns the bodies of the rows that wait for a commit, by stage and target queue, in their order."""
    if isinstance(store, Lists):
        return store.list_staged()
    found: dict[str, dict[MessageQueue, list[bytes]]] = {}
    for entry in store.staged.list_index():
        calls = [entry.parts, *(entry.held[sequence] for sequence in sorted(entry.held))]
        for queue, part in (each for parts in calls for each in parts):
            bodies = part.read(store._read_message).column("body").to_pylist()
            found.setdefault(entry.stage_id, {}).setdefault(queue, []).extend(bodies)
    return found


TIMES_MS = st.integers(-(1 << 41), 1 << 47)


def register_messages() -> None:
    """Registers the strategies: then a test can draw messages by their types."""
    st.register_type_strategy(
        Message,
        st.builds(
            Message,
            delivery_timestamp_ms=st.none() | TIMES_MS,
            born_timestamp_ms=TIMES_MS,
            transactional=st.just(False),
        ),
    )
    st.register_type_strategy(
        StoredMessage,
        st.builds(
            StoredMessage,
            st.from_type(Message),
            queue_offset=st.integers(0, (1 << 63) - 1),
            store_timestamp_ms=TIMES_MS,
            reconsume_times=st.integers(0, (1 << 31) - 1),
        ),
    )
