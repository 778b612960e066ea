"""Consumer offsets: setting, querying and resetting them, and the effects (rules 3.5, 6.1)."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.admin.groups import delete_group, ensure_group
from rmqpull_broker.core.admin.topics import delete_topic, put_topic
from rmqpull_broker.core.errors import (
    BrokerError,
    ConsumerGroupNotFound,
    IllegalResetOffset,
    InternalError,
    OffsetNotFound,
    TopicNotFound,
)
from rmqpull_broker.core.model import Message, MessageQueue, TopicConfig
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.pulling.consumer_offsets import (
    ResetRequest,
    answer_reset,
    invoke_reset,
    reset_offsets,
    set_offsets,
    update_offset,
)
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import OffsetsCommitted, OffsetsReset, QueuesTrimmed, TopicPut
from rmqpull_broker.store.queues.consume_queues import ConsumeQueues
from tests.harness.core import CoreHarness

QUEUE = MessageQueue("orders", "broker-a", 0)


@pytest.fixture
def orders(core: CoreHarness) -> CoreHarness:
    """Two queues of five messages, stored at 10, 20, 30, 40 and 50 ms, and a group."""
    core.topic(queue_count=2)
    for core.now_ms in (10, 20, 30, 40, 50):
        core.fill([b"x", b"x"])
    core.run(lambda draft: ensure_group(draft, "readers"))
    return core


def offset_of(core: CoreHarness, queue: MessageQueue = QUEUE, group: str = "readers") -> int | None:
    try:
        return core.state.find_consumer_offset(group, queue)
    except OffsetNotFound:
        return None


def reset(core: CoreHarness, **fields: object) -> list[tuple[MessageQueue, int]]:
    request = ResetRequest("readers", "orders", **fields)  # type: ignore[arg-type]
    return core.run(lambda draft: invoke_reset(draft, request))


def update(core: CoreHarness, offset: int, queue: MessageQueue = QUEUE, group: str = "readers") -> bool:
    return core.run(lambda draft: update_offset(draft, group, queue, offset))


# --- update and query -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "topic", "refusal", "remark"),
    [
        ("strangers", "orders", ConsumerGroupNotFound, "Group strangers not exist!"),
        ("strangers", "unknown", ConsumerGroupNotFound, "Group strangers not exist!"),
        ("", "orders", ConsumerGroupNotFound, "Group  not exist!"),
        ("readers", "unknown", TopicNotFound, "Topic unknown not exist!"),
    ],
)
def test_an_update_names_what_it_misses(
    orders: CoreHarness, group: str, topic: str, refusal: type[BrokerError], remark: str
) -> None:
    queue = QUEUE._replace(topic=topic)
    with pytest.raises(refusal) as refused:
        orders.run(lambda draft: update_offset(draft, group, queue, 1))
    assert str(refused.value) == remark


@pytest.mark.parametrize(
    ("set_zero", "in_memory", "answer"),
    [(True, True, 0), (True, False, "Not found, V3_0_6_SNAPSHOT"), (False, True, "Not found, do not set to zero")],
)
def test_a_new_group_begins_at_0_where_that_is_allowed(
    orders: CoreHarness, set_zero: bool, in_memory: bool, answer: int | str
) -> None:
    def ask() -> int:
        return orders.state.find_consumer_offset(
            "strangers", QUEUE, set_zero_if_not_found=set_zero, first_in_memory=in_memory
        )

    if answer == 0:
        assert ask() == 0
    else:
        with pytest.raises(OffsetNotFound, match=f"^{answer}"):
            ask()


def test_a_stored_offset_is_found_whatever_the_first_time_rule_says(orders: CoreHarness) -> None:
    update(orders, 2)
    found = orders.state.find_consumer_offset("readers", QUEUE, set_zero_if_not_found=False, first_in_memory=False)
    assert found == 2


def test_broadcasting_consumers_keep_their_offsets_themselves_so_nothing_is_stored_unless_they_set_them(
    orders: CoreHarness,
) -> None:
    assert orders.state.consumer_offsets == {}
    update(orders, 2)
    assert orders.state.consumer_offsets == {("readers", QUEUE): 2}


# --- resets -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "targets"),
    [
        ({"queue": QUEUE, "offset": 3}, [3]),
        ({"queue": QUEUE, "offset": 0}, [0]),
        ({"queue": QUEUE, "offset": 6}, [6]),  # one beyond the end is allowed
        ({"queue": QUEUE, "offset": -1}, [5]),
        ({"queue": QUEUE, "offset": -1, "timestamp_ms": 20}, [1]),
        ({"queue": QUEUE, "timestamp_ms": 25}, [2]),
        ({"queue": QUEUE, "timestamp_ms": 0}, [0]),
        ({"queue": QUEUE, "timestamp_ms": 99}, [5]),
        ({"queue": QUEUE, "timestamp_ms": -7}, [5]),
        ({"timestamp_ms": 30}, [2, 2]),
        ({}, [5, 5]),
        ({"offset": 3}, [5, 5]),  # without a queue an offset does not count
        ({"offset": 99, "timestamp_ms": 10}, [0, 0]),
        ({"queue": QUEUE._replace(queue_id=7), "timestamp_ms": 20}, [0]),  # the queue id is not checked
        ({"queue": QUEUE._replace(queue_id=7), "offset": 1}, [1]),
    ],
)
def test_a_reset_goes_to(orders: CoreHarness, fields: dict[str, object], targets: list[int]) -> None:
    found = reset(orders, **fields)
    assert [offset for _, offset in found] == targets
    assert {("readers", queue): offset for queue, offset in found} == orders.state.resets
    assert orders.state.consumer_offsets == orders.state.resets


@pytest.mark.parametrize(
    ("fields", "code", "remark"),
    [
        ({"topic": "unknown", "group": "strangers"}, 17, "Topic unknown does not exist"),
        ({"group": "strangers"}, 26, "Group strangers does not exist"),
        ({"queue": QUEUE, "offset": 7}, 1, "Target offset 7 not in consume queue range [0-5]"),
        ({"queue": QUEUE, "offset": -2}, 1, "Target offset -2 not in consume queue range [0-5]"),
        ({"queue": QUEUE._replace(queue_id=7), "offset": 2}, 1, "Target offset 2 not in consume queue range [0-0]"),
        ({"topic": "unread"}, 1, "No queues to reset."),
        ({"topic": "unread", "group": "strangers"}, 26, "Group strangers does not exist"),
    ],
)
def test_a_reset_that_cannot_be_done_says_why_with_apaches_code(
    orders: CoreHarness, fields: dict[str, object], code: int, remark: str
) -> None:
    orders.run(lambda draft: draft.add(TopicPut(TopicConfig("unread", 0, 1))))
    request = ResetRequest(**{"group": "readers", "topic": "orders", **fields})  # type: ignore[arg-type]
    with pytest.raises(BrokerError) as refused:
        orders.run(lambda draft: invoke_reset(draft, request))
    assert (refused.value.response_code, str(refused.value)) == (code, remark)
    assert orders.state.resets == {}


def test_a_reset_does_not_go_below_the_min_offset(orders: CoreHarness) -> None:
    orders.state.apply([QueuesTrimmed(((QUEUE, 2),))])
    with pytest.raises(IllegalResetOffset, match=r"^Target offset 1 not in consume queue range \[2-5\]$"):
        reset(orders, queue=QUEUE, offset=1)
    assert reset(orders, queue=QUEUE, timestamp_ms=0) == [(QUEUE, 2)]


def test_until_it_is_answered_a_reset_wins_over_other_offsets(orders: CoreHarness) -> None:
    other = QUEUE._replace(queue_id=1)
    reset(orders, queue=QUEUE, offset=3)
    assert update(orders, 5) is False
    assert orders.run(lambda draft: set_offsets(draft, "readers", [(QUEUE, 5), (other, 4)])) is False
    assert (offset_of(orders), offset_of(orders, other)) == (3, 4)
    assert orders.run(lambda draft: answer_reset(draft, "readers", QUEUE)) == 3
    assert orders.run(lambda draft: answer_reset(draft, "readers", QUEUE)) is None
    assert offset_of(orders) == 3
    assert update(orders, 5) is True
    assert offset_of(orders) == 5


def test_a_reset_is_of_one_group(orders: CoreHarness) -> None:
    reset(orders, queue=QUEUE, offset=3)
    assert orders.run(lambda draft: answer_reset(draft, "others", QUEUE)) is None
    assert orders.run(lambda draft: answer_reset(draft, "readers", QUEUE)) == 3


@pytest.mark.parametrize("has_consumers", [True, False])
def test_with_client_side_resets_offsets_are_set_if_anybody_is_there(has_consumers: bool) -> None:
    state = BrokerState(ConsumeQueues(), ["broker-a"], BrokerProperties(use_server_side_reset_offset=False))
    draft = Draft(state)
    put_topic(draft, TopicConfig("orders", 1, 1))
    ensure_group(draft, "readers")
    draft.end_command()
    request = ResetRequest("readers", "orders", QUEUE, 0)
    if has_consumers:
        invoke_reset(draft, request)
        draft.end_command()
        assert draft.fact_batches[-1] == [OffsetsCommitted("readers", ((QUEUE, 0),))]
    else:
        with pytest.raises(InternalError, match=r"^THe consumer group readers not exist$") as refused:
            invoke_reset(draft, request, has_consumers=False)
        assert refused.value.response_code == 1


def test_all_brokers_are_reset_and_each_has_its_own_offsets() -> None:
    state = BrokerState(ConsumeQueues(), ["broker-b", "broker-a"])
    draft = Draft(state)
    put_topic(draft, TopicConfig("orders", 2, 1))
    ensure_group(draft, "readers")
    draft.end_command()
    invoke_reset(draft, ResetRequest("readers", "orders", timestamp_ms=5))
    draft.end_command()
    queues = [MessageQueue("orders", broker, queue_id) for broker in ("broker-a", "broker-b") for queue_id in (0, 1)]
    assert draft.fact_batches[-1] == [OffsetsReset("readers", tuple((queue, 0) for queue in queues))]


# --- clean-up ---------------------------------------------------------------------------------------------------------


def test_offsets_go_with_their_topic_but_a_pending_reset_stays(orders: CoreHarness) -> None:
    other = QUEUE._replace(queue_id=1)
    reset(orders, queue=QUEUE, offset=3)
    update(orders, 4, other)
    orders.run(lambda draft: delete_topic(draft, "orders"))
    orders.topic(queue_count=2)
    assert (offset_of(orders), offset_of(orders, other)) == (3, None)
    assert orders.run(lambda draft: answer_reset(draft, "readers", QUEUE)) == 3
    assert offset_of(orders) is None


def test_offsets_go_with_their_group_and_with_no_other(orders: CoreHarness) -> None:
    orders.run(lambda draft: ensure_group(draft, "others"))
    for group in ("readers", "others"):
        update(orders, 4, group=group)
    orders.run(lambda draft: delete_group(draft, "readers"))
    # A young queue begins at 0 for a group that is new to it.
    assert (offset_of(orders), offset_of(orders, group="others")) == (0, 4)


def test_offsets_stay_where_they_are_when_a_topic_shrinks_and_grows(orders: CoreHarness) -> None:
    other = QUEUE._replace(queue_id=1)
    update(orders, 4, other)
    for queues in (1, 2):
        orders.run(partial(put_topic, topic=TopicConfig("orders", queues, queues)))
        assert offset_of(orders, other) == 4
    orders.send(Message(b"x", "ID"))
    assert orders.state.bounds(other).max_offset in (5, 6)


# --- compared with a model ------------------------------------------------------------------------------------------

ACTIONS = st.one_of(
    st.tuples(st.just("update"), st.integers(-1, 6)),
    st.tuples(st.just("commit"), st.integers(0, 6)),
    st.tuples(st.just("reset"), st.integers(0, 6)),
    st.tuples(st.sampled_from(["pull", "delete topic", "delete group"]), st.just(0)),
)


@given(st.lists(ACTIONS, max_size=12))
def test_whatever_happens_offset_and_pending_reset_are_those_of_two_numbers(actions: list[tuple[str, int]]) -> None:
    core = CoreHarness()
    core.topic()
    core.fill([b"x"] * 5)
    core.run(lambda draft: ensure_group(draft, "readers"))
    stored: int | None = None
    pending: int | None = None
    for action, offset in actions:
        if action == "update":
            update(core, offset)
            stored = offset if pending is None else stored
        elif action == "commit":
            core.run(partial(set_offsets, group="readers", offsets=[(QUEUE, offset)]))
            stored = offset if pending is None else stored
        elif action == "reset":
            core.run(partial(reset_offsets, group="readers", offsets=[(QUEUE, offset)]))
            stored = pending = offset
        elif action == "pull":
            assert core.run(lambda draft: answer_reset(draft, "readers", QUEUE)) == pending
            pending = None
        elif action == "delete topic":
            core.run(lambda draft: delete_topic(draft, "orders"))
            core.topic()
            core.fill([b"x"] * 5)
            stored = None
        else:
            core.run(lambda draft: delete_group(draft, "readers"))
            core.run(lambda draft: ensure_group(draft, "readers"))
            stored = pending = None
        expected = pending if pending is not None else stored
        assert offset_of(core) == (0 if expected in (None, -1) else expected)
