"""What the broker knows (rules 3.5)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.errors import ConsumerGroupNotFound, OffsetNotFound, TopicNotFound
from rmqpull_broker.core.model import Bounds, GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import update_offset
from rmqpull_broker.core.state import broker_state
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import (
    GroupPut,
    LostRange,
    OffsetsCommitted,
    OffsetsReset,
    RowsLost,
    RowsStored,
    StillReset,
    TopicDeleted,
    TopicPut,
    WaitingEnded,
)
from rmqpull_broker.core.state.ports import MessageStore
from tests.harness.core import CoreHarness


def test_a_topic_is_found_by_its_name(core: CoreHarness) -> None:
    topic = core.topic(queue_count=2)
    assert core.state.require_topic("orders") == topic == TopicConfig("orders", 2, 2, TopicType.NORMAL, "id of orders")
    assert core.state.list_readable_queues(topic) == [core.queue(0), core.queue(1)]
    with pytest.raises(TopicNotFound, match=r"topic\[Orders\] not exist, apply first please!"):
        core.state.require_topic("Orders")


@pytest.mark.parametrize(
    ("queue", "exists"),
    [
        (MessageQueue("orders", "broker-a", 0), True),
        (MessageQueue("orders", "broker-a", 1), True),
        (MessageQueue("orders", "broker-a", 2), False),
        (MessageQueue("orders", "broker-a", -1), False),
        (MessageQueue("orders", "broker-b", 0), False),
    ],
)
def test_which_queues_there_are(core: CoreHarness, queue: MessageQueue, exists: bool) -> None:
    topic = core.topic(queue_count=2)
    assert core.state.is_readable(topic, queue) is exists


def test_a_queue_never_written_begins_and_ends_at_0(core: CoreHarness) -> None:
    assert core.state.bounds(core.queue()) == Bounds(0, 0)


def test_a_group_is_known_once_it_was_created(core: CoreHarness) -> None:
    with pytest.raises(ConsumerGroupNotFound, match="Group readers not exist!"):
        core.state.require_group("readers")
    core.run(lambda draft: ensure_group(draft, "readers"))
    core.state.require_group("readers")


class Bounded:
    """A store that knows bounds and takes no message."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = lambda queue: bounds
        self.apply = lambda fact, written: None


@pytest.mark.parametrize(
    ("bounds", "stored", "answer"),
    [
        (Bounds(0, 0), None, None),
        (Bounds(0, 1), None, 0),
        (Bounds(0, 5), None, 0),
        (Bounds(3, 5), None, None),
        (Bounds(5, 5), None, None),
        (Bounds(0, 5), 3, 3),
        (Bounds(0, 5), 0, 0),
        (Bounds(3, 5), 1, 1),
        (Bounds(0, 0), 9, 9),
        (Bounds(0, 0), -1, None),
        (Bounds(3, 5), -1, None),
    ],
)
@pytest.mark.proves("Messages that count as in memory")
def test_the_offset_of_a_group_that_may_be_new_to_a_queue(
    core: CoreHarness, bounds: Bounds, stored: int | None, answer: int | None
) -> None:
    store: MessageStore = Bounded(bounds)  # type: ignore[assignment]
    state = BrokerState(store, "broker-a")
    if stored is not None:
        state.apply([OffsetsCommitted("readers", ((core.queue(), stored),))])
    if answer is None:
        with pytest.raises(OffsetNotFound, match="Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"):
            state.find_consumer_offset("readers", core.queue())
    else:
        assert state.find_consumer_offset("readers", core.queue()) == answer


def test_progress_is_overwritten_whatever_it_was(core: CoreHarness) -> None:
    for offset in (7, 3, 1_000, 0):
        core.state.apply([OffsetsCommitted("readers", ((core.queue(), offset),))])
        assert core.state.find_consumer_offset("readers", core.queue()) == offset


def test_progress_belongs_to_one_group_and_one_queue(core: CoreHarness) -> None:
    core.state.apply([OffsetsCommitted("readers", ((core.queue(0), 7), (core.queue(1), 8)))])
    assert core.state.find_consumer_offset("readers", core.queue(1)) == 8
    for group, queue in (("others", core.queue(0)), ("readers", core.queue(0, "invoices"))):
        with pytest.raises(OffsetNotFound):
            core.state.find_consumer_offset(group, queue)


def lost(batch_id: int, *ranges: LostRange, query_id: str = "q") -> RowsLost:
    return RowsLost(query_id, batch_id, ranges)


def test_a_repeated_report_of_lost_rows_counts_once(core: CoreHarness) -> None:
    first, second = LostRange(core.queue(0), 0, 5), LostRange(core.queue(1), 2, 3)
    for report in (lost(1, first, second), lost(1, first), lost(1, second, first)):
        core.state.apply([report])
    assert core.state.count_lost_rows("q") == {core.queue(0): 5, core.queue(1): 1}


def test_lost_rows_of_other_batches_add_up_and_those_of_other_queries_do_not(core: CoreHarness) -> None:
    gone = LostRange(core.queue(), 0, 5)
    core.state.apply(
        [lost(1, gone), lost(2, gone), lost(2, LostRange(core.queue(), 8, 9)), lost(1, gone, query_id="r")]
    )
    assert core.state.count_lost_rows("q") == {core.queue(): 11}
    assert core.state.count_lost_rows("r") == {core.queue(): 5}
    assert core.state.count_lost_rows("unknown") == {}


def test_the_oldest_reports_are_forgotten_first(core: CoreHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_state, "LOST_RANGES_MAX", 2)
    for batch_id, until_offset in enumerate((1, 10, 100)):
        core.state.apply([lost(batch_id, LostRange(core.queue(), 0, until_offset))])
    assert core.state.count_lost_rows("q") == {core.queue(): 110}


@pytest.mark.proves("A reset that no pull has received yet")
def test_the_facts_of_a_state_give_the_same_state(core: CoreHarness) -> None:
    core.topic(queue_count=2)
    core.run(lambda draft: ensure_group(draft, "readers"))
    core.send(Message(b"x", "ID"))
    queue = core.queue()
    half = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)
    timer = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
    delayed = Message(b"x", "later", system_properties={"TIMER_OUT_MS": "5000"})
    core.state.apply(
        [
            OffsetsCommitted("readers", ((queue, 1),)),
            OffsetsReset("readers", ((queue._replace(queue_id=1), 3),)),
            TopicPut(TopicConfig("gone", 1, 1)),
            OffsetsReset("readers", ((queue._replace(topic="gone"), 3),)),
            TopicDeleted("gone"),
            RowsLost("q", 7, (LostRange(queue, 0, 1),)),
            RowsStored(half, (StoredMessage(Message(b"x", "half", born_timestamp_ms=9), 0, 9, "host"),)),
            RowsStored(timer, (StoredMessage(delayed, 0, 9, "host"), StoredMessage(delayed, 1, 9, "host"))),
            WaitingEnded(timer, (0,)),
        ]
    )
    again = BrokerState(core.state.store, ["broker-a"])
    again.apply(core.state.to_facts())

    for known in ("topics", "groups", "consumer_offsets", "resets"):
        assert getattr(again, known) == getattr(core.state, known)
    assert again.count_lost_rows("q") == core.state.count_lost_rows("q")
    for waiting, expected in ((again.delayed, core.state.delayed), (again.halves, core.state.halves)):
        assert list(waiting) == list(expected) != []
    assert again.delayed.find(timer, 5_000, "later") == core.state.delayed.find(timer, 5_000, "later") != []


@pytest.mark.parametrize("kept", [OffsetsReset, StillReset])
def test_a_broker_that_tells_no_resets_any_more_takes_commits_again(
    core: CoreHarness, kept: type[OffsetsReset | StillReset]
) -> None:
    state = BrokerState(core.state.store, ["broker-a"], BrokerProperties(use_server_side_reset_offset=False))
    state.apply([TopicPut(TopicConfig("orders", 1, 1)), GroupPut(GroupConfig("readers"))])
    state.apply([kept("readers", ((core.queue(), 3),))])
    assert update_offset(Draft(state), "readers", core.queue(), 4)
