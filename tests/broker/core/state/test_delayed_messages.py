"""When delayed messages are due, however many there are, in little memory."""

from __future__ import annotations

import random
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state import delayed_messages as timetable
from rmqpull_broker.core.state.delayed_messages import DelayedMessages, hash_id
from rmqpull_broker.core.state.waiting_messages import DelayedMessage, PendingMessage, StoredAt

QUEUE = MessageQueue("rmq_sys_wheel_timer", "broker-a", 0)
LEVEL = MessageQueue("SCHEDULE_TOPIC_XXXX", "broker-a", 3)


def entry(offset: int, due_ms: int, queue: MessageQueue = QUEUE) -> DelayedMessage:
    return DelayedMessage(StoredAt(queue, offset), due_ms)


def filled(*entries: DelayedMessage) -> DelayedMessages:
    delayed = DelayedMessages()
    for place, due_ms in entries:
        delayed.add(PendingMessage(place, due_ms, f"id {place.queue_offset}"))
    return delayed


def test_what_is_due_comes_by_time_and_then_as_it_was_stored() -> None:
    delayed = filled(entry(0, 30), entry(1, 10), entry(2, 30), entry(3, 10), entry(0, 20, LEVEL))
    assert [entry.stored_at.queue_offset for entry in delayed.list_due(30, 9)] == [1, 3, 0, 0, 2]
    assert delayed.list_due(30, 3) == [entry(1, 10), entry(3, 10), entry(0, 20, LEVEL)]
    assert delayed.list_due(9, 9) == []
    assert delayed.next_due_ms() == 10


def test_a_message_is_found_by_its_time_and_id() -> None:
    delayed = filled(entry(0, 30), entry(1, 10))
    delayed.add(PendingMessage(StoredAt(QUEUE, 2), 30, "id 0"))
    assert delayed.find(QUEUE, 30, "id 0") == [entry(0, 30), entry(2, 30)]
    assert (delayed.find(QUEUE, 10, "id 0"), delayed.find(LEVEL, 30, "id 0")) == ([], [])


def test_a_message_that_is_added_twice_waits_once() -> None:
    assert list(filled(entry(0, 30), entry(1, 30), entry(0, 30))) == [entry(0, 30), entry(1, 30)]


def test_ids_have_the_same_hash_in_every_process() -> None:
    assert (hash_id("ID"), hash_id("")) == (-5758904128658856361, -5426141060434712860)


STEPS = st.lists(st.tuples(st.sampled_from(["add", "end", "end by time", "trim"]), st.integers(0, 30)))


@given(STEPS, st.integers(2, 5), st.randoms(use_true_random=False))
def test_it_is_a_sorted_list_that_forgets(steps: list[tuple[str, int]], block: int, dice: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(timetable, "_BLOCK_MAX", block)
        patch.setattr(timetable, "_OBJECTS_MAX", 3)
        delayed, model, next_offset = DelayedMessages(), dict[int, int](), 0
        for step, number in steps:
            known = dice.sample(sorted(model), min(len(model), number % 4))
            match step:
                case "add":
                    for _ in range(number):
                        model[next_offset] = dice.randrange(8)
                        delayed.add(
                            PendingMessage(StoredAt(QUEUE, next_offset), model[next_offset], f"id {next_offset}")
                        )
                        next_offset += 1
                case "end":
                    delayed.remove(QUEUE, [*known, 1_000])
                    model = {offset: due_ms for offset, due_ms in model.items() if offset not in known}
                case "end by time":
                    delayed.remove(QUEUE, known, [model.pop(offset) for offset in known])
                case "trim":
                    assert [one for some in delayed.list_before(QUEUE, number) for one in some] == [
                        entry(offset, model[offset]) for offset in sorted(model) if offset < number
                    ]
                    delayed.trim(QUEUE, number)
                    model = {offset: due_ms for offset, due_ms in model.items() if offset >= number}
            in_order = [entry(offset, due_ms) for due_ms, offset in sorted((due, at) for at, due in model.items())]
            assert (list(delayed), len(delayed)) == (in_order, len(model))
            assert delayed.list_due(5, 1_000) == [one for one in in_order if one.due_ms <= 5]
            assert delayed.next_due_ms() == min(model.values(), default=None)
            assert all(one in delayed for one in in_order)
            assert entry(1_000, 3) not in delayed
        again = DelayedMessages()
        for fact in delayed.to_facts():
            again.restore(replace(fact))
        assert list(again) == list(delayed)
        for offset, due_ms in model.items():
            assert again.find(QUEUE, due_ms, f"id {offset}") == [entry(offset, due_ms)]


@pytest.mark.parametrize(
    "due_ms", [lambda n: n, lambda n: n * 7_919 % 86_400_000, lambda n: 5], ids=["rising", "any", "one"]
)
def test_many_messages_take_less_than_sixty_bytes_each(due_ms: object) -> None:
    assert callable(due_ms)
    count = 20_000
    tracemalloc.start()
    try:
        delayed = DelayedMessages()
        for number in range(count):
            delayed.add(PendingMessage(StoredAt(QUEUE, number), due_ms(number), "ID"))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(delayed) == count
    assert taken < 60 * count
