"""Commands that are drafted together: they see each other, and a refused one leaves nothing."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest

from rmqpull_broker.core.admin.groups import delete_group, drop_group, ensure_group, put_group
from rmqpull_broker.core.admin.topics import create_topic, delete_topic
from rmqpull_broker.core.errors import (
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    IllegalTopic,
    OffsetNotFound,
    TopicNotFound,
)
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import GroupConfig, Message, MessageQueue, StoredMessage, TopicConfig, TopicType
from rmqpull_broker.core.pulling.consumer_offsets import report_lost, reset_offsets, set_offsets, update_offset
from rmqpull_broker.core.pulling.group_offsets import clone_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import (
    GroupPut,
    LostRange,
    OffsetsCommitted,
    RowsLost,
    RowsStored,
    TopicDeleted,
    TopicPut,
)
from rmqpull_broker.core.state.names import name_pop_retry_topic
from tests.harness.core import CoreHarness

QUEUE = MessageQueue("orders", "broker-a", 0)
ORDERS = TopicConfig("orders", 2, 2, TopicType.NORMAL, "first")


@pytest.fixture
def draft(core: CoreHarness) -> Draft:
    return Draft(core.state)


@pytest.fixture
def orders(core: CoreHarness, draft: Draft) -> Draft:
    """A draft over a state with the topic ``orders`` and the group ``readers``."""
    core.topic(queue_count=2)
    core.run(lambda draft: ensure_group(draft, "readers"))
    return draft


def rows(first_offset: int, count: int) -> RowsStored:
    offsets = range(first_offset, first_offset + count)
    return RowsStored(QUEUE, tuple(StoredMessage(Message(b"x", "ID"), offset, 0, "host") for offset in offsets))


def test_a_command_sees_what_earlier_commands_drafted(draft: Draft) -> None:
    create_topic(draft, ORDERS)
    ensure_group(draft, "readers")
    draft.end_command()
    assert draft.require_topic("orders") == ORDERS
    update_offset(draft, "readers", QUEUE, 3)
    draft.add(rows(0, 2))
    draft.end_command()
    assert draft.find_next_offset(QUEUE) == 2
    assert [len(facts) for facts in draft.fact_batches] == [2, 2]


def test_the_state_sees_nothing_of_a_draft(core: CoreHarness, draft: Draft) -> None:
    create_topic(draft, ORDERS)
    ensure_group(draft, "readers")
    draft.add(rows(0, 2))
    draft.end_command()
    assert (core.state.topics, core.state.groups, core.state.bounds(QUEUE).max_offset) == ({}, {}, 0)


def test_a_dropped_command_leaves_nothing(draft: Draft) -> None:
    create_topic(draft, ORDERS)
    ensure_group(draft, "readers")
    draft.add(rows(0, 2))
    draft.drop_command()
    draft.end_command()
    assert draft.fact_batches == []
    assert draft.find_next_offset(QUEUE) == 0
    with pytest.raises(TopicNotFound):
        draft.require_topic("orders")
    with pytest.raises(ConsumerGroupNotFound):
        update_offset(draft, "readers", QUEUE, 0)


def test_a_dropped_command_leaves_its_predecessors_alone(draft: Draft) -> None:
    draft.add(rows(0, 2))
    draft.end_command()
    draft.add(rows(2, 5))
    draft.drop_command()
    assert draft.find_next_offset(QUEUE) == 2
    assert draft.fact_batches == [[rows(0, 2)]]


def test_offsets_go_on_where_the_state_ends(core: CoreHarness) -> None:
    core.topic()
    core.send(Message(b"x", "1"), Message(b"x", "2"))
    assert Draft(core.state).find_next_offset(QUEUE) == 2


def test_a_command_that_changes_nothing_is_no_group(orders: Draft) -> None:
    ensure_group(orders, "readers")
    orders.end_command()
    set_offsets(orders, "readers", [])
    orders.end_command()
    report_lost(orders, "q", 1, [])
    orders.end_command()
    assert orders.fact_batches == []


def test_a_topic_is_created_once(core: CoreHarness, draft: Draft) -> None:
    again = TopicConfig("orders", 2, 2, TopicType.NORMAL, "second")
    for topic in (ORDERS, again):
        create_topic(draft, topic)
        draft.end_command()
    assert draft.fact_batches == [[TopicPut(ORDERS)]]
    core.run(lambda later: create_topic(later, ORDERS))
    core.run(lambda later: create_topic(later, again))
    assert core.state.require_topic("orders").creation_id == "first"


@pytest.mark.parametrize("shape", [(3, TopicType.NORMAL), (2, TopicType.FIFO)])
def test_a_topic_that_exists_in_another_shape_is_refused(core: CoreHarness, shape: tuple[int, TopicType]) -> None:
    core.run(lambda draft: create_topic(draft, ORDERS))
    with pytest.raises(
        BadRequest, match=r"orders exists with 2 queues of type NORMAL, but the request has \d queues of type"
    ):
        core.run(lambda draft: create_topic(draft, TopicConfig("orders", shape[0], *shape, "second")))


@pytest.mark.parametrize(
    ("queue_count", "is_legal"), [(-1, False), (0, False), (1, True), (QUEUES_MAX, True), (1_025, False)]
)
def test_a_topic_has_1_to_1024_queues(draft: Draft, queue_count: int, is_legal: bool) -> None:
    topic = TopicConfig("orders", queue_count, queue_count, TopicType.NORMAL, "first")
    with nullcontext() if is_legal else pytest.raises(BadRequest, match="1 to 1024 queues"):
        create_topic(draft, topic)


def test_a_topic_of_an_illegal_name_is_refused(draft: Draft) -> None:
    with pytest.raises(IllegalTopic):
        create_topic(draft, TopicConfig("or ders", 1, 1))


@pytest.mark.parametrize(("queue_id", "offset"), [(0, 5), (0, -1), (7, 0)])
def test_one_consumer_offset_is_taken_as_it_is(orders: Draft, queue_id: int, offset: int) -> None:
    queue = MessageQueue("orders", "broker-a", queue_id)
    update_offset(orders, "readers", queue, offset)
    orders.end_command()
    assert orders.fact_batches == [[OffsetsCommitted("readers", ((queue, offset),))]]


def test_minus_1_reads_as_not_found(core: CoreHarness) -> None:
    core.topic()
    core.run(lambda draft: ensure_group(draft, "readers"))
    core.run(lambda draft: update_offset(draft, "readers", QUEUE, -1))
    with pytest.raises(OffsetNotFound):
        core.state.find_consumer_offset("readers", QUEUE)


def test_many_consumer_offsets_create_their_group(orders: Draft) -> None:
    offsets = ((QUEUE, 5), (QUEUE._replace(queue_id=1), 0))
    set_offsets(orders, "new", offsets)
    orders.end_command()
    assert orders.fact_batches == [[GroupPut(GroupConfig("new")), OffsetsCommitted("new", offsets)]]


def test_a_report_of_lost_rows_is_kept(orders: Draft) -> None:
    ranges = (LostRange(QUEUE, 3, 5), LostRange(QUEUE, 0, 1))
    report_lost(orders, "q", 1, ranges)
    orders.end_command()
    assert orders.fact_batches == [[RowsLost("q", 1, ranges)]]


ELSEWHERE = MessageQueue("unknown", "broker-a", 0)
BEYOND = MessageQueue("orders", "broker-a", 2)
ABROAD = MessageQueue("orders", "broker-b", 0)
REFUSED: list[tuple[Callable[[Draft], object], str]] = [
    (lambda draft: ensure_group(draft, ""), "ILLEGAL_CONSUMER_GROUP"),
    (lambda draft: update_offset(draft, "strangers", ELSEWHERE, 0), "CONSUMER_GROUP_NOT_FOUND"),
    (lambda draft: update_offset(draft, "", QUEUE, 0), "CONSUMER_GROUP_NOT_FOUND"),
    (lambda draft: update_offset(draft, "readers", ELSEWHERE, 0), "TOPIC_NOT_FOUND"),
    (lambda draft: set_offsets(draft, " ", [(QUEUE, 0)]), "ILLEGAL_CONSUMER_GROUP"),
    (lambda draft: set_offsets(draft, "new", [(QUEUE, 0), (ELSEWHERE, 0)]), "TOPIC_NOT_FOUND"),
    (lambda draft: set_offsets(draft, "new", [(QUEUE, 0), (BEYOND, 0)]), "BAD_REQUEST"),
    (lambda draft: set_offsets(draft, "new", [(QUEUE, 0), (ABROAD, 0)]), "BAD_REQUEST"),
    (lambda draft: set_offsets(draft, "new", [(QUEUE, 0), (QUEUE, -1)]), "ILLEGAL_OFFSET"),
    (lambda draft: report_lost(draft, "", 1, [LostRange(QUEUE, 0, 1)]), "BAD_REQUEST"),
    (lambda draft: report_lost(draft, "q", 1, [LostRange(ELSEWHERE, 0, 1)]), "TOPIC_NOT_FOUND"),
    (lambda draft: report_lost(draft, "q", 1, [LostRange(BEYOND, 0, 1)]), "BAD_REQUEST"),
    (lambda draft: report_lost(draft, "q", 1, [LostRange(QUEUE, 1, 1)]), "ILLEGAL_OFFSET"),
    (lambda draft: report_lost(draft, "q", 1, [LostRange(QUEUE, -1, 1)]), "ILLEGAL_OFFSET"),
]


@pytest.mark.parametrize(("command", "code"), REFUSED)
def test_a_refused_command_keeps_nothing(orders: Draft, command: Callable[[Draft], object], code: str) -> None:
    with pytest.raises(BrokerError) as refusal:
        command(orders)
    assert refusal.value.code == code
    orders.drop_command()
    orders.end_command()
    assert orders.fact_batches == []


def test_a_reset_of_a_draft_goes_with_its_group(core: CoreHarness) -> None:
    core.topic()
    draft = Draft(core.state)
    commands: list[Callable[[Draft], object]] = [
        lambda draft: put_group(draft, GroupConfig("readers")),
        lambda draft: reset_offsets(draft, "readers", [(core.queue(), 0)]),
        lambda draft: delete_group(draft, "readers"),
        lambda draft: put_group(draft, GroupConfig("readers")),
    ]
    for command in commands:
        command(draft)
        draft.end_command()
    assert update_offset(draft, "readers", core.queue(), 1)


def test_a_dropped_group_keeps_the_offsets_of_its_draft(core: CoreHarness, orders: Draft) -> None:
    core.run(lambda before: update_offset(before, "readers", QUEUE, 1))
    commands: list[Callable[[Draft], object]] = [
        lambda draft: update_offset(draft, "readers", QUEUE, 5),
        lambda draft: drop_group(draft, "readers", keeps_offsets=True),
    ]
    for command in commands:
        command(orders)
        orders.end_command()
    assert orders.find_consumer_offset("readers", QUEUE) == 5


def test_a_clone_has_the_offsets_of_its_draft(orders: Draft) -> None:
    update_offset(orders, "readers", QUEUE, 5)
    orders.end_command()
    clone_offsets(orders, "readers", "others", "orders", "broker-a")
    orders.end_command()
    assert orders.find_consumer_offset("others", QUEUE) == 5


def test_a_topic_takes_no_retries_of_a_group_with_it_that_was_deleted_before(core: CoreHarness, orders: Draft) -> None:
    core.topic(name=name_pop_retry_topic("readers", "orders"))
    commands: list[Callable[[Draft], object]] = [
        lambda draft: delete_group(draft, "readers"),
        lambda draft: delete_topic(draft, "orders"),
    ]
    for command in commands:
        command(orders)
        orders.end_command()
    assert orders.fact_batches[-1] == [TopicDeleted("orders")]
