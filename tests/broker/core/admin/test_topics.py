"""Topics that come, change and go while messages are sent to them (rules 3.9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import delete_group, ensure_group, put_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic, put_topic
from rmqpull_broker.core.errors import BadRequest, BrokerError, Forbidden, IllegalTopic, TopicNotFound
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import answer_reset, reset_offsets, set_offsets
from rmqpull_broker.core.sending.queue_selection import select_queue_of_group
from rmqpull_broker.core.sending.send_back import SendBack
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import GroupPut, OffsetsReset
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.core import CoreHarness


def put(core: CoreHarness, read: int, write: int, **fields: Any) -> TopicConfig:
    topic = TopicConfig("orders", read, write, creation_id=f"{read}/{write}", **fields)
    return core.run(lambda draft: put_topic(draft, topic))


def queues_of(core: CoreHarness, count: int, message_group: str | None = None) -> list[int]:
    """Sends messages one by one, and returns the queue of each."""
    message = Message(b"x", "ID", message_group=message_group)
    sends = [core.run(lambda draft: core.sender.send(draft, "orders", [message], 1_000)) for _ in range(count)]
    return [queue.queue_id for ((queue, _),) in sends]


def test_the_round_goes_over_the_queues_that_producers_see_now(core: CoreHarness) -> None:
    put(core, read=4, write=4)
    assert queues_of(core, 3) == [0, 1, 2]
    put(core, read=4, write=2)
    assert queues_of(core, 3) == [1, 0, 1]
    put(core, read=4, write=5)
    assert queues_of(core, 6) == [0, 1, 2, 3, 4, 0]


def test_a_message_group_moves_only_as_far_as_its_hash_asks(core: CoreHarness) -> None:
    put(core, read=8, write=4, topic_type=TopicType.FIFO)
    assert queues_of(core, 2, message_group="order-1") == [select_queue_of_group("order-1", 4)] * 2
    put(core, read=8, write=2, topic_type=TopicType.FIFO)
    assert queues_of(core, 1, message_group="order-1") == [select_queue_of_group("order-1", 2)]


def test_a_queue_that_only_consumers_see_is_drained_and_gets_nothing_new(core: CoreHarness) -> None:
    put(core, read=2, write=2)
    core.fill([b"a", b"b"])
    put(core, read=2, write=1)
    core.fill([b"c", b"d"])
    assert [core.state.bounds(core.queue(number)).max_offset for number in (0, 1)] == [3, 1]
    assert core.state.is_readable(core.state.require_topic("orders"), core.queue(1))


def test_messages_of_a_queue_that_is_hidden_come_back_with_it(core: CoreHarness) -> None:
    put(core, read=2, write=2)
    core.fill([b"a", b"b"])
    put(core, read=1, write=1)
    assert not core.state.is_readable(core.state.require_topic("orders"), core.queue(1))
    put(core, read=2, write=2)
    core.fill([b"c", b"d"])
    assert [row.message.body for row in core.rows(core.queue(1))] == [b"b", b"d"]


def test_a_queue_that_only_producers_see_is_written_and_not_consumed(core: CoreHarness) -> None:
    put(core, read=1, write=2)
    core.fill([b"a", b"b"])
    assert core.rows(core.queue(1))[0].message.body == b"b"
    assert not core.state.is_readable(core.state.require_topic("orders"), core.queue(1))


@pytest.mark.parametrize(("perm", "is_sent"), [(7, True), (6, True), (2, True), (3, True), (4, False), (0, False)])
def test_producers_skip_a_topic_without_the_write_permission(core: CoreHarness, perm: int, is_sent: bool) -> None:
    put(core, 1, 1, perm=perm)
    if is_sent:
        assert core.send(Message(b"x", "1"))
        return
    for send in (lambda: core.send(Message(b"x", "1")), lambda: core.fill([b"x"])):
        with pytest.raises(Forbidden, match=r"^no writable queue$"):
            send()


def test_producers_skip_a_broker_without_the_write_permission(core: CoreHarness) -> None:
    put(core, 1, 1)
    core.state.properties = BrokerProperties(broker_permission=4)
    with pytest.raises(Forbidden, match=r"^no writable queue$"):
        core.send(Message(b"x", "1"))


def test_a_permission_may_come_back(core: CoreHarness) -> None:
    created = put(core, 1, 1)
    for perm in (4, 6):
        assert put(core, 1, 1, perm=perm) == replace(created, perm=perm)
    assert core.send(Message(b"x", "1"))


def test_a_change_keeps_the_creation_id_and_a_new_creation_does_not(core: CoreHarness) -> None:
    assert put(core, 1, 1).creation_id == put(core, 2, 2).creation_id == "1/1"
    core.run(lambda draft: delete_topic(draft, "orders"))
    assert put(core, 2, 2).creation_id == "2/2"


def test_an_unchanged_topic_is_no_fact(core: CoreHarness) -> None:
    topic = put(core, 2, 2)
    draft = Draft(core.state)
    assert put_topic(draft, replace(topic, creation_id="other")) == topic
    draft.end_command()
    assert draft.fact_batches == []


@pytest.mark.parametrize(
    ("topic", "error", "text"),
    [
        (TopicConfig("", 1, 1), IllegalTopic, "^The specified topic is blank.$"),
        (TopicConfig("TBW102", 1, 1), IllegalTopic, r"^The topic\[TBW102\] is conflict with system topic.$"),
        (TopicConfig("rmq_sys_x", 1, 1), IllegalTopic, r"^The topic\[rmq_sys_x\] is conflict with system topic.$"),
        (TopicConfig("broker-a", 1, 1), IllegalTopic, r"^The topic\[broker-a\] is conflict with system topic.$"),
        (TopicConfig("RMQ_SYS_TRACE_TOPIC", 1, 1), IllegalTopic, "is conflict with system topic"),
        (TopicConfig("orders", 0, 1), BadRequest, "1 to 1024 queues, got 0"),
        (TopicConfig("orders", 1, QUEUES_MAX + 1), BadRequest, "1 to 1024 queues, got 1025"),
        (TopicConfig("orders", 1, 1, perm=8), BadRequest, "permission 8: expected 0 to 7"),
        (TopicConfig("orders", 1, 1, TopicType.MIXED), BadRequest, "^MIXED message type is not supported.$"),
    ],
)
def test_a_bad_topic_is_refused(core: CoreHarness, topic: TopicConfig, error: type[BrokerError], text: str) -> None:
    with pytest.raises(error, match=text):
        core.run(lambda draft: put_topic(draft, topic))


def test_only_a_topic_that_is_there_and_the_users_own_is_deleted(core: CoreHarness) -> None:
    with pytest.raises(TopicNotFound, match="nothing to delete"):
        core.run(lambda draft: delete_topic(draft, "orders"))
    with pytest.raises(IllegalTopic, match="conflict with system topic"):
        core.run(lambda draft: delete_topic(draft, "SCHEDULE_TOPIC_XXXX"))


def test_a_topic_that_is_created_again_starts_empty(core: CoreHarness) -> None:
    put(core, 1, 1)
    core.fill([b"a", b"b"])
    core.run(lambda draft: set_offsets(draft, "readers", [(core.queue(), 2)]))
    core.run(lambda draft: delete_topic(draft, "orders"))
    put(core, 1, 1)
    core.fill([b"c"])
    assert [(row.queue_offset, row.message.body) for row in core.rows(core.queue())] == [(0, b"c")]
    assert core.state.find_consumer_offset("readers", core.queue()) == 0


# --- several brokers -------------------------------------------------------------------------------------------------


@pytest.fixture
def two_brokers(core: CoreHarness) -> CoreHarness:
    core.state = BrokerState(ConsumeQueues(), ["broker-b", "broker-a"])
    return core


def test_the_round_goes_over_the_queues_of_all_brokers(two_brokers: CoreHarness) -> None:
    put(two_brokers, read=2, write=2)
    for number in range(5):
        two_brokers.send(Message(b"x", str(number)))
    two_brokers.fill([b"y", b"y"])
    names = ("broker-a", "broker-b")
    counts = [
        two_brokers.state.bounds(MessageQueue("orders", name, number)).max_offset for name in names for number in (0, 1)
    ]
    assert counts == [2, 2, 2, 1]


def test_a_message_group_has_one_queue_among_those_of_all_brokers(two_brokers: CoreHarness) -> None:
    put(two_brokers, read=2, write=2, topic_type=TopicType.FIFO)
    topic = two_brokers.state.require_topic("orders")
    for group in ("order-1", "order-2", "hello"):
        two_brokers.send(Message(b"x", "1", message_group=group))
        queue = two_brokers.state.list_writable_queues(topic)[select_queue_of_group(group, 4)]
        assert two_brokers.rows(queue)[-1].message.message_group == group


def test_a_retry_stays_on_the_broker_of_its_message(two_brokers: CoreHarness) -> None:
    put(two_brokers, read=1, write=1)
    two_brokers.fill([b"a", b"b"])
    request = SendBack("readers", MessageQueue("orders", "broker-b", 0), 0, delay_level=-1)
    sent = two_brokers.run(lambda draft: two_brokers.sender.send_back(draft, request, 1_000))
    assert sent is not None
    assert sent.queue == MessageQueue("%DLQ%readers", "broker-b", 0)


# --- commands drafted together ---------------------------------------------------------------------------------------

Step = Callable[[Any, Draft], object]

NAMES = st.sampled_from(["orders", "orders", "orders", "%RETRY%readers"])
COUNTS = st.integers(1, 3)


def _send(name: str, group: str | None) -> Step:
    return lambda core, draft: core.sender.send(draft, name, [Message(b"x", "ID", message_group=group)], 1_000)


def _publish(name: str, count: int) -> Step:
    return lambda core, draft: core.sender.publish(draft, core.check(core.batch([b"x"] * count), name), 1_000)


def _put(name: str, read: int, write: int, perm: int, topic_type: TopicType) -> Step:
    topic = TopicConfig(name, read, write, topic_type, "id", perm)
    return lambda core, draft: put_topic(draft, topic)


def _commit(name: str, queue_id: int, offset: int) -> Step:
    queue = MessageQueue(name, "broker-a", queue_id)
    return lambda core, draft: set_offsets(draft, "readers", [(queue, offset)])


def _reset(name: str, queue_id: int, offset: int) -> Step:
    queue = MessageQueue(name, "broker-a", queue_id)
    return lambda core, draft: reset_offsets(draft, "readers", [(queue, offset)])


def _answer_reset(name: str, queue_id: int) -> Step:
    return lambda core, draft: answer_reset(draft, "readers", MessageQueue(name, "broker-a", queue_id))


TYPES = st.sampled_from([TopicType.NORMAL, TopicType.NORMAL, TopicType.FIFO])
KEPT = st.sampled_from([False, False, False, True])
"""Whether the draft is kept behind a step."""
STEPS: st.SearchStrategy[Step] = st.one_of(
    st.builds(_put, NAMES, COUNTS, COUNTS, st.sampled_from([4, 6, 6, 6]), TYPES),
    st.builds(_send, NAMES, st.none() | st.sampled_from(["g", "h"])),
    st.builds(_publish, NAMES, COUNTS),
    st.builds(_commit, NAMES, COUNTS, COUNTS),
    st.builds(_reset, NAMES, st.just(0), COUNTS),
    st.builds(_answer_reset, NAMES, st.just(0)),
    st.builds(lambda name: lambda core, draft: delete_topic(draft, name), NAMES),
    st.builds(lambda name: lambda core, draft: create_topic(draft, TopicConfig(name, 2, 2)), NAMES),
    st.builds(lambda group: lambda core, draft: group(draft, "readers"), st.sampled_from([ensure_group, delete_group])),
    st.builds(lambda n: lambda core, draft: put_group(draft, GroupConfig("readers", retry_max_times=n)), COUNTS),
)


def told(core: CoreHarness, draft: Draft, step: Step) -> object:
    """What a command answers; a refusal is an answer too."""
    try:
        answer = step(core, draft)
    except BrokerError as refusal:
        draft.drop_command()
        return str(refusal)
    draft.end_command()
    return answer


def content(core: CoreHarness) -> object:
    state = core.state
    topics = [state.topics[name] for name in sorted(state.topics)]
    queues = [queue for topic in topics for queue in state.queues(topic, 3)]
    rows = {
        queue: [replace(row, message=replace(row.message, msg_id="")) for row in core.rows(queue)] for queue in queues
    }
    return topics, state.groups, state.consumer_offsets, state.resets, rows


@given(st.lists(st.tuples(STEPS, KEPT), max_size=30))
def test_commands_drafted_together_do_what_they_do_one_at_a_time(steps: list[tuple[Step, bool]]) -> None:
    alone, together = CoreHarness(), CoreHarness()
    draft = Draft(together.state)
    for step, is_kept in steps:
        one = Draft(alone.state)
        answer = told(alone, one, step)
        keep(alone, one)
        assert told(together, draft, step) == answer
        if is_kept:
            keep(together, draft)
            draft = Draft(together.state)
    keep(together, draft)
    assert content(together) == content(alone)


def keep(core: CoreHarness, draft: Draft) -> None:
    for facts in draft.fact_batches:
        core.state.apply(facts)


def test_a_topic_that_one_draft_deletes_and_creates_again_starts_empty(core: CoreHarness) -> None:
    draft = Draft(core.state)
    create, send = _put("orders", 1, 1, 6, TopicType.NORMAL), _publish("orders", 2)
    delete: Step = lambda _, draft: delete_topic(draft, "orders")  # noqa: E731 (a step like the others)
    parts = [told(core, draft, step) for step in (create, send, send, delete, create, send, delete, create, send)]
    assert [parts[place] for place in (1, 2, 5, 8)] == [((core.queue(), first, 2),) for first in (0, 2, 0, 0)]
    keep(core, draft)
    assert core.state.bounds(core.queue()).max_offset == 2


def test_a_group_that_goes_in_a_draft_takes_its_pending_resets_along(core: CoreHarness) -> None:
    core.topic()
    for group in ("readers", "others"):
        core.state.apply([GroupPut(GroupConfig(group)), OffsetsReset(group, ((core.queue(), 1),))])
    draft = Draft(core.state)
    for command in (delete_group, ensure_group):
        command(draft, "readers")
        draft.end_command()
    assert answer_reset(draft, "readers", core.queue()) is None
    assert answer_reset(draft, "others", core.queue()) == 1
