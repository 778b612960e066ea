"""Messages in flight: compared with a plain dictionary, by any sequence of facts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.state.facts import PopEnded, Popped, PoppedInOrder
from rmqpull_broker.core.state.in_flight import InFlight, PoppedMessages, make_offsets
from rmqpull_broker.store.log import small_facts

QUEUES = [MessageQueue("orders", "broker-a", 0), MessageQueue("paid", "broker-a", 1)]
GROUPS = ["readers", "others"]
OFFSETS = st.sets(st.integers(0, 9), min_size=1).map(lambda offsets: make_offsets(sorted(offsets)))
TIMES = st.integers(0, 3)
POPS = st.builds(Popped, st.sampled_from(GROUPS), st.sampled_from(QUEUES), OFFSETS, TIMES, st.integers(1, 9))
ENDS = st.builds(PopEnded, st.sampled_from(GROUPS), st.sampled_from(QUEUES), OFFSETS, TIMES)
ORDERED = st.builds(
    PoppedInOrder,
    st.sampled_from(GROUPS),
    st.sampled_from(QUEUES),
    OFFSETS.map(tuple) | st.just(()),
    TIMES,
    st.integers(1, 9),
)

Model = dict[tuple[str, MessageQueue, int, int], int]
"""When a message is redelivered, by group, queue, offset and time of the pop."""


def apply_to_model(model: Model, fact: Popped | PopEnded) -> None:
    for offset in fact.offsets:
        key = fact.group, fact.queue, offset, fact.pop_time_ms
        if isinstance(fact, Popped):
            model[key] = fact.pop_time_ms + fact.invisible_ms
        else:
            model.pop(key, None)


def is_new(model: Model, fact: Popped | PopEnded) -> bool:
    """A queue delivers no message twice at the same time: the consumer offset has moved."""
    keys = ((fact.group, fact.queue, offset, fact.pop_time_ms) for offset in fact.offsets)
    return isinstance(fact, PopEnded) or not any(key in model for key in keys)


def list_all(popped: PoppedMessages) -> list[InFlight]:
    return sorted(each for key in popped.list_queues() for each in popped.list_in_flight(*key))


@given(st.lists(POPS | ENDS, max_size=20), st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 10)))
def test_what_retention_deletes_is_no_longer_in_flight(
    facts: list[Popped | PopEnded], min_offsets: dict[MessageQueue, int]
) -> None:
    popped, model = PoppedMessages(), Model()
    for fact in facts:
        if is_new(model, fact):
            popped.apply(fact)
            apply_to_model(model, fact)
    popped.trim(min_offsets.items())
    kept = {key: due_ms for key, due_ms in model.items() if key[2] >= min_offsets.get(key[1], 0)}
    assert list_all(popped) == sorted(InFlight(*key, due_ms) for key, due_ms in kept.items())
    assert (len(popped), popped.next_due_ms()) == (len(kept), min(kept.values(), default=None))


def test_offsets_that_are_there_twice_are_no_range() -> None:
    assert [make_offsets(offsets) for offsets in ([1, 2, 3], [0, 0, 2])] == [range(1, 4), (0, 0, 2)]


def test_a_batch_in_order_stays_while_retention_keeps_one_of_its_messages() -> None:
    popped, queue = PoppedMessages(), QUEUES[0]
    popped.apply(PoppedInOrder("readers", queue, (3, 4), 0, 9))
    popped.trim([(queue, 4)])
    assert [flight.queue_offset for flight in popped.list_in_flight("readers", queue)] == [4]
    assert popped.count("readers", queue) == 1
    popped.trim([(queue, 5)])
    assert popped.find_in_order("readers", queue) is None


@given(st.lists(POPS | ENDS, max_size=40))
def test_facts_say_what_is_in_flight(facts: list[Popped | PopEnded]) -> None:
    popped, model = PoppedMessages(), Model()
    for fact in facts:
        if is_new(model, fact):
            popped.apply(fact)
            apply_to_model(model, fact)
    assert list_all(popped) == sorted(InFlight(*key, due_ms) for key, due_ms in model.items())
    assert len(popped) == len(model)
    assert popped.next_due_ms() == min(model.values(), default=None)
    for key in popped.list_queues():
        assert popped.count(*key) == sum(each[:2] == key for each in model)
    for now_ms in range(13):
        due = {
            (each.group, each.queue, offset, each.pop_time_ms)
            for each in popped.list_due(now_ms, 10_000)
            for offset in each.list_left()
        }
        assert due == {key for key, due_ms in model.items() if due_ms <= now_ms}


@given(st.lists(POPS | ENDS | ORDERED, max_size=40))
def test_a_snapshot_says_the_same(facts: list[Any]) -> None:
    popped, model, again = PoppedMessages(), Model(), PoppedMessages()
    for fact in facts:
        if isinstance(fact, PoppedInOrder) or is_new(model, fact):
            popped.apply(fact)
            if not isinstance(fact, PoppedInOrder):
                apply_to_model(model, fact)
    for fact in popped.to_facts():
        codec = small_facts.BY_FACT[type(fact)]
        assert isinstance(fact, (Popped, PopEnded, PoppedInOrder))
        again.apply(fact)
        assert codec.kind in small_facts.BY_KIND
    assert list_all(again) == list_all(popped)


@given(st.lists(POPS | ORDERED, max_size=20), st.sampled_from(GROUPS))
def test_a_deleted_group_or_topic_has_nothing_in_flight(facts: list[Any], group: str) -> None:
    popped = PoppedMessages()
    for fact in facts:
        popped.apply(fact)
    expected = [each for each in list_all(popped) if each.group != group and each.queue.topic != "paid"]
    popped.drop_group(group)
    popped.drop_topic("paid")
    assert list_all(popped) == expected
