"""Deliveries, acknowledgements and retention in one draft. Each case is one that a random story has found."""

from __future__ import annotations

from rmqpull_broker.core.admin.groups import ensure_group
from rmqpull_broker.core.model import Message, MessageQueue
from rmqpull_broker.core.popping.acks import acknowledge, change_invisible_time
from rmqpull_broker.core.popping.ordered_acks import acknowledge_any
from rmqpull_broker.core.popping.pop import pop_messages
from rmqpull_broker.core.popping.receipts import DeliveredMessage
from rmqpull_broker.core.popping.request import InitMode, PopRequest
from rmqpull_broker.core.pulling.consumer_offsets import reset_offsets
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import ClockRead, OffsetsCommitted, PoppedInOrder
from rmqpull_broker.core.state.retention import trim
from tests.harness.core import CoreHarness

QUEUE = MessageQueue("orders", "broker-a", 0)


def pop(draft: Draft, now_ms: int = 1_000, *, in_order: bool = False) -> list[DeliveredMessage]:
    request = PopRequest("readers", "orders", "broker-a", in_order=in_order, init_mode=InitMode.MIN)
    result = pop_messages(draft, request, now_ms, lambda count: 0)
    return [
        DeliveredMessage("readers", QUEUE, result.make_receipt(part, offset, 0))
        for part in result.parts
        for offset in part.offsets
    ]


def start(core: CoreHarness, *, in_order: bool = False) -> list[DeliveredMessage]:
    """Delivers three messages to a group."""
    core.topic()
    core.run(lambda draft: ensure_group(draft, "readers"))
    for _ in range(3):
        core.send(Message(b"x", "id"))
    return core.run(lambda draft: pop(draft, in_order=in_order))


def test_a_message_whose_invisible_time_was_changed_is_in_flight_while_the_clock_stands_still(
    core: CoreHarness,
) -> None:
    first, *_ = start(core)
    draft = Draft(core.state)
    for invisible_ms in (5_000, 9_000):
        change_invisible_time(draft, first, invisible_ms, 1_000)
        draft.end_command()
    assert acknowledge(draft, first)
    draft.end_command()
    assert not acknowledge(draft, first)


def test_each_delivery_of_the_same_moment_is_acknowledged(core: CoreHarness) -> None:
    first, *_ = start(core)
    core.run(lambda draft: reset_offsets(draft, "readers", [(QUEUE, 0)]))
    assert core.run(pop)[0] == first
    draft, answers = Draft(core.state), []
    for _ in range(3):
        answers.append(acknowledge(draft, first))
        draft.end_command()
    assert answers == [True, True, False]


def test_a_group_moves_over_what_retention_deletes_of_a_batch_in_order(core: CoreHarness) -> None:
    deleted, *others = start(core, in_order=True)
    draft = Draft(core.state)
    trim(draft, [(QUEUE, 1)])
    draft.end_command()
    for message in others:
        acknowledge(draft, message)
        draft.end_command()
    assert not acknowledge(draft, deleted)
    assert draft.find_consumer_offset("readers", QUEUE) == 3


def test_what_retention_deletes_is_no_longer_in_flight(core: CoreHarness) -> None:
    deleted, kept, _ = start(core)
    draft = Draft(core.state)
    trim(draft, [(QUEUE, 1)])
    draft.end_command()
    assert (acknowledge(draft, deleted), acknowledge(draft, kept)) == (False, True)


def test_a_batch_without_messages_is_none(core: CoreHarness) -> None:
    first, *_ = start(core, in_order=True)
    draft = Draft(core.state)
    draft.add(PoppedInOrder("readers", QUEUE, (), 0, 0))
    draft.end_command()
    assert draft.find_in_order("readers", QUEUE) is None
    acknowledge_any(draft, first, "client")
    draft.end_command()
    assert draft.fact_batches[-1] == [OffsetsCommitted("readers", ((QUEUE, 1),))]


def test_of_two_clocks_the_earlier_one_counts(core: CoreHarness) -> None:
    start(core, in_order=True)
    draft = Draft(core.state)
    for time_ms in (300, 700):
        draft.add(ClockRead(time_ms))
        draft.end_command()
    batch = draft.find_in_order("readers", QUEUE)
    assert batch is not None
    assert batch.begin_ms == 300
