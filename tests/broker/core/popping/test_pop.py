"""The commands of pop on a core without a server: where a pop starts, what it reads, and what is stored again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from rmqpull_broker.core.admin.groups import delete_group, ensure_group
from rmqpull_broker.core.admin.topics import delete_topic
from rmqpull_broker.core.model import Message, MessageQueue, TopicType
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time
from rmqpull_broker.core.popping.pop import look_ahead, pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import InitMode, PopRequest, PopResult
from rmqpull_broker.core.popping.revival import revive_due
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import QueuesTrimmed
from tests.harness.core import CoreHarness

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(2)]
RETRY = MessageQueue("%RETRY%readers_orders", "broker-a", 0)
POP = PopRequest("readers", "orders", "broker-a", invisible_ms=10_000)


def draw(first: int) -> Callable[[int], int]:
    return lambda count: first % count


def pop(core: CoreHarness, request: PopRequest = POP, now_ms: int = 0, first: int = 21) -> PopResult:
    return core.run(lambda draft: pop_messages(draft, request, now_ms, draw(first)))


def revive(core: CoreHarness, now_ms: int) -> int:
    return core.run(lambda draft: revive_due(draft, now_ms, "here", lambda: "new"))


def read(result: PopResult) -> list[tuple[int, int]]:
    return [(part.queue.queue_id, offset) for part in result.parts for offset in part.offsets]


def receipts(result: PopResult) -> list[DeliveredMessage]:
    return [
        DeliveredMessage("readers", part.queue, result.make_receipt(part, offset, 0))
        for part in result.parts
        for offset in part.offsets
    ]


@pytest.fixture
def orders(core: CoreHarness) -> CoreHarness:
    """Two queues with two messages each."""
    core.topic(queue_count=2)
    core.run(lambda draft: ensure_group(draft, "readers"))
    for _ in range(4):
        core.send(Message(b"x", "id"))
    return core


@pytest.mark.parametrize(("first", "queues"), [(21, [0, 0, 1, 1]), (22, [1, 1, 0, 0])])
def test_a_random_queue_comes_first(orders: CoreHarness, first: int, queues: list[int]) -> None:
    assert [queue for queue, _ in read(pop(orders, first=first))] == queues


def test_one_queue_alone_may_be_asked_for(orders: CoreHarness) -> None:
    result = pop(orders, PopRequest("readers", "orders", "broker-a", 1, max_msg_nums=1))
    assert (read(result), result.rest_count) == ([(1, 0)], 1)


@pytest.mark.parametrize(("mode", "start"), [(InitMode.MIN, 1), (InitMode.MAX, 1), (InitMode.MAX, 0)])
def test_a_new_group_starts_at_the_first_message_while_the_queue_has_it(
    orders: CoreHarness, mode: InitMode, start: int
) -> None:
    if start:
        orders.state.apply([QueuesTrimmed(((QUEUES[0], start),))])
    request = PopRequest("readers", "orders", "broker-a", 0, init_mode=mode)
    assert read(pop(orders, request))[0] == (0, start)


def test_a_look_ahead_says_whether_a_pop_would_do_anything(orders: CoreHarness) -> None:
    assert look_ahead(orders.state, POP, 0).is_ready
    pop(orders)
    assert not look_ahead(orders.state, POP, 0).is_ready
    assert look_ahead(orders.state, PopRequest("others", "orders", "broker-a"), 0).is_ready
    assert look_ahead(orders.state, PopRequest("readers", "unknown", "broker-a"), 0).is_ready
    orders.run(lambda draft: reset_offsets(draft, "readers", [(QUEUES[0], 1)]))
    assert look_ahead(orders.state, POP, 0).is_ready
    assert read(pop(orders)) == [(0, 1)]


def test_what_is_redelivered_is_stored_once_with_one_retry_more(orders: CoreHarness) -> None:
    messages = receipts(pop(orders, now_ms=5))
    orders.run(lambda draft: acknowledge(draft, messages[0]))
    orders.run(lambda draft: change_invisible_time(draft, messages[1], 90_000, 100))
    assert revive(orders, 10_004) == 0
    assert revive(orders, 10_005) == 2
    assert revive(orders, 10_005) == 0
    assert orders.state.bounds(RETRY).max_offset == 2
    again = pop(orders, now_ms=20_000)
    assert [part.queue for part in again.parts] == [RETRY]
    assert revive(orders, 30_000) == 2  # back to the same topic
    assert orders.state.bounds(RETRY).max_offset == 4
    assert revive(orders, 90_100) == 1


@pytest.mark.parametrize("first", [19, 20])
def test_one_of_five_pops_looks_at_the_retries_first(orders: CoreHarness, first: int) -> None:
    pop(orders)
    revive(orders, 10_000)
    orders.send(Message(b"x", "id"))
    found = [part.queue.topic for part in pop(orders, now_ms=20_000, first=first).parts]
    assert found == ([RETRY.topic, "orders"] if first == 19 else ["orders", RETRY.topic])


@pytest.mark.parametrize("first", [0, 1, 19, 99])
def test_by_priority_the_last_queue_comes_first_and_the_retries_come_last(core: CoreHarness, first: int) -> None:
    core.topic(queue_count=4, topic_type=TopicType.PRIORITY)
    core.run(lambda draft: ensure_group(draft, "readers"))

    def send(*priorities: int) -> None:
        for priority in priorities:
            core.send(Message(b"x", "id", system_properties={"_SYS_MSG_PRIORITY_": str(priority)}))

    send(0, 2, 7, 3, 1)
    assert [read(pop(core, replace(POP, max_msg_nums=2), first=first)) for _ in range(2)] == [
        [(3, 0), (3, 1)],
        [(2, 0), (1, 0)],
    ]
    revive(core, 10_000)
    send(3)
    again = pop(core, now_ms=20_000, first=first)
    assert [(part.queue.topic, part.queue.queue_id) for part in again.parts] == [
        ("orders", 3),
        ("orders", 0),
        (RETRY.topic, 0),
    ]


def test_in_order_priorities_do_not_count(core: CoreHarness) -> None:
    core.topic(queue_count=2, topic_type=TopicType.PRIORITY)
    core.run(lambda draft: ensure_group(draft, "readers"))
    for priority in (0, 1):
        core.send(Message(b"x", "id", system_properties={"_SYS_MSG_PRIORITY_": str(priority)}))
    request = replace(POP, in_order=True)
    assert [queue for queue, _ in read(pop(core, request, first=21))] == [0, 1]


@pytest.mark.parametrize("delete", [lambda draft: delete_topic(draft, "orders"), lambda d: delete_group(d, "readers")])
def test_nothing_of_a_deleted_topic_or_group_is_redelivered(
    orders: CoreHarness, delete: Callable[[Draft], object]
) -> None:
    (message, *_) = receipts(pop(orders))
    draft = Draft(orders.state)
    delete(draft)
    draft.end_command()
    assert not acknowledge(draft, message)
    draft.drop_command()
    orders.run(delete)
    assert (len(orders.state.popped), revive(orders, 10_000)) == (0, 0)


def test_an_acknowledgement_and_a_revival_at_the_same_time_end_a_message_once(orders: CoreHarness) -> None:
    messages = receipts(pop(orders))
    draft = Draft(orders.state)
    assert acknowledge(draft, messages[0])
    draft.end_command()
    assert not acknowledge(draft, messages[0])
    assert revive_due(draft, 10_000, "here", lambda: "new") == 3


# --- in order ---------------------------------------------------------------------------------------------------------

IN_ORDER = PopRequest("readers", "orders", "broker-a", 0, invisible_ms=10_000, in_order=True, max_msg_nums=2)


def test_in_order_the_consumer_offset_waits_for_the_first_message(orders: CoreHarness) -> None:
    first, second = receipts(pop(orders, IN_ORDER))
    orders.run(lambda draft: acknowledge(draft, second))
    assert orders.state.consumer_offsets["readers", QUEUES[0]] == 0
    orders.run(lambda draft: acknowledge(draft, first))
    assert orders.state.consumer_offsets["readers", QUEUES[0]] == 2
    assert first.receipt.is_ordered


def test_in_order_a_batch_blocks_its_queue_until_it_is_visible_again(orders: CoreHarness) -> None:
    _, second = receipts(pop(orders, IN_ORDER))
    assert read(pop(orders, IN_ORDER, 9_999)) == []
    assert look_ahead(orders.state, IN_ORDER, 9_999) == (False, 10_000)
    orders.run(lambda draft: change_invisible_time(draft, second, 20_000, 5_000))
    assert look_ahead(orders.state, IN_ORDER, 10_000) == (False, 25_000)
    again = pop(orders, IN_ORDER, 25_000)
    assert (read(again), again.parts[0].consumed_times) == ([(0, 0), (0, 1)], {0: 1, 1: 1})
    assert not orders.run(lambda draft: acknowledge(draft, second))  # a receipt of the first delivery


def test_in_order_a_reset_ends_the_block(orders: CoreHarness) -> None:
    pop(orders, IN_ORDER)
    orders.run(lambda draft: reset_offsets(draft, "readers", [(QUEUES[0], 1)]))
    assert read(pop(orders, IN_ORDER, 1)) == [(0, 1)]
