"""Allocation over several topics, and queues that nobody gets."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.planning.allocation import allocate_topics, allocated
from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import Allocation, Averagely, ByConfig
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds


def queue(name: str) -> MessageQueue:
    """``x/r1@a/0``."""
    topic, broker_name, queue_id = name.split("/")
    return MessageQueue(topic, broker_name, int(queue_id))


def queues(*names: str) -> list[MessageQueue]:
    return [queue(name) for name in names]


def topics(*names: str) -> dict[str, TopicBounds]:
    found = queues(*names)
    return {
        topic: TopicBounds("id", {queue: Bounds(0, 1) for queue in found if queue.topic == topic})
        for topic in sorted({queue.topic for queue in found})
    }


ROOM_1 = Allocation("MACHINE_ROOM", ByMachineRoom(frozenset({"r1"})), ("0", "1"))
LISTED = Allocation("CONFIG", ByConfig({"0": queues("x/a/0", "y/a/0"), "1": queues("x/a/1")}), ("0", "1"))


def test_each_topic_is_allocated_by_itself() -> None:
    wide_and_narrow = queues("y/a/0", "x/a/2", "x/a/0", "x/a/1")
    averagely = Allocation("AVG", Averagely(), ("0", "1"))
    assert allocate_topics(wide_and_narrow, averagely) == [queues("x/a/0", "x/a/1", "y/a/0"), queues("x/a/2")]


def test_without_a_number_there_is_a_consumer_for_each_queue_of_the_widest_topic() -> None:
    shares = allocate_topics(queues("x/a/0", "x/a/1", "y/a/0"), Allocation("AVG", Averagely()))
    assert shares == [queues("x/a/0", "y/a/0"), queues("x/a/1")]


def test_a_fixed_list_gives_each_queue_once_however_many_topics_it_names() -> None:
    assert allocate_topics(queues("x/a/0", "x/a/1", "y/a/0"), LISTED) == [queues("x/a/0", "y/a/0"), queues("x/a/1")]


def test_queues_that_nobody_gets_are_not_read() -> None:
    assert allocated(topics("x/r1@a/0", "x/r2@b/0", "y/r2@b/0"), [], ROOM_1) == {
        "x": TopicBounds("id", {queue("x/r1@a/0"): Bounds(0, 1)}),
        "y": TopicBounds("id", {}),
    }


@pytest.mark.parametrize("allocation", [Allocation("AVG", Averagely()), Allocation("BACKLOG", None)])
def test_most_strategies_leave_nothing_out(allocation: Allocation) -> None:
    everything = topics("x/r1@a/0", "x/r2@b/0", "y/r2@b/0")
    assert allocated(everything, queues("x/r1@a/0", "x/gone/0"), allocation) == everything


def test_a_listed_queue_that_does_not_exist_yet_may_come_later() -> None:
    assert allocated(topics("x/a/0"), [], LISTED) == topics("x/a/0")


def test_a_query_must_not_stop_reading_a_queue_unseen() -> None:
    with pytest.raises(OptionError) as refused:
        allocated(topics("x/r1@a/0", "x/r2@b/0"), queues("x/r1@a/0", "x/r2@b/0"), ROOM_1)
    assert str(refused.value) == (
        "The query reads x/r2@b/0 already, which allocateStrategy MACHINE_ROOM gives to no partition now. "
        "Add what is missing to its parameters, or start the query with a new checkpoint."
    )


def test_a_queue_that_is_gone_is_no_matter_of_allocation() -> None:
    assert allocated(topics("x/r1@a/0"), queues("x/r2@b/0"), ROOM_1) == topics("x/r1@a/0")


def test_an_allocation_that_reads_nothing_at_all_is_refused() -> None:
    with pytest.raises(OptionError) as refused:
        allocated(topics("x/broker-a/0", "x/broker-a/1"), [], ROOM_1)
    assert str(refused.value) == (
        "allocateStrategy MACHINE_ROOM gives no queue of x/broker-a/0, x/broker-a/1 to any partition, so nothing would "
        "be read. Change its parameters."
    )


def test_what_a_strategy_refuses_names_strategy_and_topic() -> None:
    nearby = Allocation("MACHINE_ROOM_NEARBY", MachineRoomNearby(Averagely(), MachineRoomResolver()), ("r1@c",))
    with pytest.raises(OptionError) as refused:
        allocated(topics("x/a/0"), [], nearby)
    assert str(refused.value) == (
        "allocateStrategy MACHINE_ROOM_NEARBY cannot allocate topic x: "
        "Machine room is null for mq MessageQueue [topic=x, brokerName=a, queueId=0]."
    )
