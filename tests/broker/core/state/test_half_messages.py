"""What waits, in the order of its time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import BrokerProperties
from rmqpull_broker.core.state.half_messages import HalfMessages, find_next_check_ms
from rmqpull_broker.core.state.waiting_messages import PendingMessage, StoredAt

QUEUE = MessageQueue("RMQ_SYS_TRANS_HALF_TOPIC", "broker-a", 0)


def waiting(offset: int, due_ms: int, msg_id: str = "") -> PendingMessage:
    return PendingMessage(StoredAt(QUEUE, offset), due_ms, msg_id or f"id {offset}")


def filled(*entries: PendingMessage) -> HalfMessages:
    pending = HalfMessages()
    for entry in entries:
        pending.add(entry)
    return pending


def test_what_is_due_comes_by_time_and_then_as_it_was_stored() -> None:
    pending = filled(waiting(0, 30), waiting(1, 10), waiting(2, 30), waiting(3, 10))
    assert [entry.stored_at.queue_offset for entry in pending.list_due(30, 9)] == [1, 3, 0, 2]
    assert [entry.stored_at.queue_offset for entry in pending.list_due(30, 3)] == [1, 3, 0]
    assert [entry.stored_at.queue_offset for entry in pending.list_due(29, 9)] == [1, 3]
    assert pending.list_due(9, 9) == []


def test_the_next_time_is_known() -> None:
    pending = filled(waiting(0, 30), waiting(1, 10))
    assert pending.next_due_ms() == 10
    pending.remove(QUEUE, [1])
    assert pending.next_due_ms() == 30
    pending.remove(QUEUE, [0, 0, 77])
    assert (pending.next_due_ms(), len(pending)) == (None, 0)


def test_messages_are_found_by_their_id() -> None:
    pending = filled(waiting(0, 30, "a"), waiting(1, 10, "b"), waiting(2, 20, "a"))
    assert [entry.stored_at.queue_offset for entry in pending.find_by_id("a")] == [0, 2]
    pending.remove(QUEUE, [0, 2])
    assert pending.find_by_id("a") == []


def test_messages_keep_their_age_when_the_clock_is_set_back() -> None:
    pending = filled(waiting(0, 90, "a"), waiting(1, 10, "a"))
    pending.read_clock(20, lambda queue, offsets: {})
    assert [entry.stored_at.queue_offset for entry in pending.find_by_id("a")] == [0, 1]


def test_what_retention_deletes_waits_no_longer() -> None:
    other = PendingMessage(StoredAt(QUEUE._replace(broker_name="broker-b"), 0), 5, "x")
    pending = filled(waiting(0, 30), waiting(1, 10), other)
    pending.trim(QUEUE, 1)
    assert list(pending) == [waiting(1, 10), other]
    assert waiting(0, 30) not in pending


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20), st.integers(0, 5))))
def test_it_is_a_sorted_list_that_forgets(steps: list[tuple[bool, int, int]]) -> None:
    pending, model = HalfMessages(), dict[int, PendingMessage]()
    for adds, offset, due_ms in steps:
        if adds and offset not in model:
            model[offset] = waiting(offset, due_ms)
            pending.add(model[offset])
        elif not adds:
            model.pop(offset, None)
            pending.remove(QUEUE, [offset])
    assert list(pending) == list(model.values())
    assert pending.list_due(5, 99) == sorted(model.values(), key=lambda entry: entry.due_ms)
    assert pending.next_due_ms() == min((entry.due_ms for entry in model.values()), default=None)


@pytest.mark.parametrize(
    ("properties", "check_ms"),
    [
        ({}, 7_000),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "20"}, 21_000),
        ({"CHECK_IMMUNITY_TIME_IN_SECONDS": "soon"}, 1_000),
        ({"TRANSACTION_CHECK_TIMES": "1"}, 35_000),
    ],
)
def test_a_half_message_is_immune_and_then_checked_at_every_look(properties: dict[str, str], check_ms: int) -> None:
    message = Message(b"x", "ID", born_timestamp_ms=1_000, system_properties=properties)
    assert find_next_check_ms(BrokerProperties(), StoredMessage(message, 0, 5_000, "store")) == check_ms
