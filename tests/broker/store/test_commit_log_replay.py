"""A broker that starts again knows what it knew: commands, drafted, kept and replayed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core import columns
from rmqpull_broker.core.consumer_offsets import commit_offsets, report_lost, update_offset
from rmqpull_broker.core.draft import Draft
from rmqpull_broker.core.errors import BrokerError
from rmqpull_broker.core.facts import Fact, LostRange
from rmqpull_broker.core.groups import ensure_group
from rmqpull_broker.core.message_ids import MessageIds
from rmqpull_broker.core.model import Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.queue_selection import QueueSelector
from rmqpull_broker.core.sending import Sender
from rmqpull_broker.core.state import BrokerState
from rmqpull_broker.core.topics import create_topic
from rmqpull_broker.store.memory_vfs import MemoryFileSystem
from rmqpull_broker.store.queues import ConsumeQueues

if TYPE_CHECKING:
    from tests.broker.store.conftest import OpenLog

TOPICS = ["orders", "invoices", "il legal"]
QUEUES = st.builds(MessageQueue, st.sampled_from(TOPICS), st.just("broker-a"), st.integers(0, 3))
GROUPS = st.sampled_from(["readers", "writers", ""])
OFFSETS = st.integers(-1, 9)
MESSAGES = st.builds(
    Message,
    st.binary(max_size=3),
    st.sampled_from(["ID1", "ID2"]),
    st.none() | st.sampled_from(["red", "été"]),
    properties=st.dictionaries(st.sampled_from("ab"), st.text("xyz", max_size=2)),
    message_group=st.none() | st.sampled_from(["hello", "order-1"]),
)
LOST = st.lists(st.builds(LostRange, QUEUES, st.integers(0, 3), st.integers(2, 5)), max_size=3)

Command = Callable[[Sender, Draft], object]


def create(name: str, queue_count: int, topic_type: TopicType) -> Command:
    return lambda sender, draft: create_topic(draft, TopicConfig(name, queue_count, queue_count, topic_type, "id"))


def send(topic: str, messages: list[Message]) -> Command:
    return lambda sender, draft: sender.send(draft, topic, messages, 1_000)


def publish(topic: str, messages: list[Message]) -> Command:
    batch = pa.record_batch(
        {
            "body": pa.array([message.body for message in messages], pa.binary()),
            "tags": pa.array([message.tags for message in messages], pa.string()),
            "messageGroup": pa.array([message.message_group for message in messages], pa.string()),
        }
    )
    return lambda sender, draft: sender.publish(draft, topic, batch, 2_000, "client")


def commit(group: str, offsets: list[tuple[MessageQueue, int]]) -> Command:
    return lambda sender, draft: commit_offsets(draft, group, offsets)


def update(group: str, queue: MessageQueue, offset: int) -> Command:
    return lambda sender, draft: update_offset(draft, group, queue, offset)


def ensure(group: str) -> Command:
    return lambda sender, draft: ensure_group(draft, group)


def report(query_id: str, batch_id: int, ranges: list[LostRange]) -> Command:
    return lambda sender, draft: report_lost(draft, query_id, batch_id, ranges)


COMMANDS = st.one_of(
    st.builds(create, st.sampled_from(TOPICS), st.integers(0, 3), st.sampled_from([TopicType.NORMAL, TopicType.FIFO])),
    st.builds(send, st.sampled_from(TOPICS), st.lists(MESSAGES, max_size=3)),
    st.builds(publish, st.sampled_from(TOPICS), st.lists(MESSAGES, max_size=5)),
    st.builds(commit, GROUPS, st.lists(st.tuples(QUEUES, OFFSETS), max_size=3)),
    st.builds(update, GROUPS, QUEUES, OFFSETS),
    st.builds(ensure, GROUPS),
    st.builds(report, st.sampled_from(["q", "r", ""]), st.integers(0, 2), LOST),
)
SEEDS = [create("orders", 2, TopicType.NORMAL), create("invoices", 3, TopicType.FIFO)]


def observed(state: BrokerState) -> dict[str, Any]:
    """Everything that anybody can ask."""
    queues = [queue for topic in state.topics.values() for queue in state.readable_queues(topic)]
    bounds = {queue: state.bounds(queue) for queue in queues}
    return {
        "topics": list(state.topics.values()),
        "groups": state.groups,
        "bounds": bounds,
        "rows": {
            queue: columns.to_rows(state.store.read(queue, *bounds[queue])) for queue in queues if bounds[queue][1]
        },
        "progress": state.consumer_offsets,
        "lost": [state.rows_lost(query_id) for query_id in ("q", "r", "")],
    }


def started(open_log: OpenLog, disk: MemoryFileSystem, segment_bytes: int) -> tuple[Any, BrokerState]:
    state = BrokerState(ConsumeQueues(), ["broker-a"])
    opened = open_log(disk, segment_bytes)
    assert opened.recovery.dropped_bytes == 0
    for facts in opened.groups:
        state.apply(facts)
    return opened.log, state


def draft_of(state: BrokerState, sender: Sender, commands: list[Command]) -> list[list[Fact]]:
    """The groups of those commands that are not refused."""
    draft = Draft(state)
    for command in commands:
        with contextlib.suppress(BrokerError):
            command(sender, draft)
            draft.end_command()
        draft.drop_command()
    return draft.groups


@given(
    st.lists(st.lists(COMMANDS, min_size=1, max_size=4), max_size=8),
    st.integers(0, 8),
    st.sampled_from([64, 2_000, 1 << 30]),
)
def test_a_restarted_broker_knows_what_it_knew_and_goes_on(
    open_log: OpenLog, drafts: list[list[Command]], restart_at: int, segment_bytes: int
) -> None:
    disk, sender = MemoryFileSystem(), Sender(QueueSelector(), MessageIds(bytes(6), 1), "host")
    log, state = started(open_log, disk, segment_bytes)
    for number, commands in enumerate([SEEDS, *drafts]):
        if number == restart_at:
            before, disk = state, disk.crashed()
            log, state = started(open_log, disk, segment_bytes)
            assert observed(state) == observed(before)
        groups = draft_of(state, sender, commands)
        if groups:
            log.append(groups)
        for facts in groups:
            state.apply(facts)
    _, replayed = started(open_log, disk.crashed(), segment_bytes)
    assert observed(replayed) == observed(state)
