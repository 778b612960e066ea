"""Rules for all strategies (rules 2.1), and the properties that RocketMQ's own tests check (rules 2.8)."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import (
    Averagely,
    AveragelyByCircle,
    ConsistentHash,
    Strategy,
    make_consumer_ids,
)
from rmqpull_client.model import MessageQueue
from tests.harness.allocation_tables import queues

NEARBY = MachineRoomNearby(Averagely(), MachineRoomResolver())
CHECKING = [Averagely(), AveragelyByCircle(), ConsistentHash(), ByMachineRoom(frozenset({"r1"})), NEARBY]
ROOMS = ("r1", "r2", "r3")


@pytest.mark.parametrize("strategy", CHECKING, ids=lambda strategy: type(strategy).__name__)
@pytest.mark.parametrize(
    ("consumer", "owned", "consumers", "refusal"),
    [
        ("", queues(1), "A", "currentCID is empty"),
        ("A", [], "A", "mqAll is null or mqAll empty"),
        ("A", queues(1), "", "cidAll is null or cidAll empty"),
        ("", [], "", "currentCID is empty"),
        ("A", [], "", "mqAll is null or mqAll empty"),
    ],
)
def test_empty_arguments_are_refused_with_rocketmq_s_texts_and_in_its_order(
    strategy: Strategy, consumer: str, owned: list[MessageQueue], consumers: str, refusal: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(refusal)}$"):
        strategy.allocate(consumer, owned, consumers)


@pytest.mark.parametrize("strategy", CHECKING, ids=lambda strategy: type(strategy).__name__)
def test_a_consumer_that_is_not_in_the_group_gets_nothing(strategy: Strategy) -> None:
    assert strategy.allocate("Z", queues(4), "AB") == []


def test_consumer_ids_sort_by_number() -> None:
    for count in range(1, 1201):
        ids = make_consumer_ids(count)
        assert len(set(ids)) == count
        assert sorted(ids) == sorted(ids, key=int) == list(ids)


in_rooms = st.lists(
    st.builds(MessageQueue, st.just("orders"), st.sampled_from([f"{room}@a" for room in ROOMS]), st.integers(0, 30)),
    min_size=1,
    unique=True,
).map(sorted)
consumers_in_rooms = st.lists(
    st.sampled_from([f"{room}@{number}" for room in (*ROOMS, "r4") for number in range(6)]), min_size=1, unique=True
).map(sorted)
ALLOCATING_ALL = [
    Averagely(),
    AveragelyByCircle(),
    ConsistentHash(3),
    ByMachineRoom(frozenset(ROOMS)),
    NEARBY,
    MachineRoomNearby(ConsistentHash(), MachineRoomResolver()),
]


@pytest.mark.parametrize("strategy", ALLOCATING_ALL, ids=lambda strategy: type(strategy).__name__)
@given(owned=in_rooms, consumers=consumers_in_rooms)
def test_each_queue_goes_to_one_consumer_in_both_methods(
    strategy: Strategy, owned: list[MessageQueue], consumers: list[str]
) -> None:
    given_out = [queue for share in strategy.allocate_all(owned, consumers).values() for queue in share]
    asked_for = [queue for consumer in consumers for queue in strategy.allocate(consumer, owned, consumers)]
    assert Counter(given_out) == Counter(asked_for) == Counter(owned)


@given(owned=in_rooms, consumers=consumers_in_rooms)
def test_nearby_a_room_with_consumers_is_served_by_them_only(owned: list[MessageQueue], consumers: list[str]) -> None:
    inhabited = {consumer.split("@")[0] for consumer in consumers}
    for consumer, share in NEARBY.allocate_all(owned, consumers).items():
        rooms = {queue.broker_name.split("@")[0] for queue in share}
        assert rooms & inhabited <= {consumer.split("@")[0]}


@given(
    owned=in_rooms,
    consumers=consumers_in_rooms.filter(lambda consumers: len(consumers) > 1),
    place=st.integers(0, 23),
    nodes=st.sampled_from([3, 10]),
)
def test_a_consumer_that_leaves_or_joins_a_consistent_hash_moves_only_its_queues(
    owned: list[MessageQueue], consumers: list[str], place: int, nodes: int
) -> None:
    one = consumers[place % len(consumers)]
    others = [consumer for consumer in consumers if consumer != one]
    with_it = ConsistentHash(nodes).allocate_all(owned, consumers)
    without_it = ConsistentHash(nodes).allocate_all(owned, others)
    assert all(set(with_it[consumer]) == set(without_it[consumer]) - set(with_it[one]) for consumer in others)
