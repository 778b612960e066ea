"""Which queues each Spark partition gets, and what it reads of them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.planning.partitions import allocate_topics, assign_ranges, keep_allocated, plan_ranges
from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import (
    Allocation,
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    Strategy,
    make_consumer_ids,
)
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds, MessageQueue, QueueRange, TopicBounds


def queue(queue_id: int, topic: str = "orders") -> MessageQueue:
    return MessageQueue(topic, "a", queue_id)


def ranges(*sizes: int, topic: str = "orders") -> list[QueueRange]:
    """Returns one range for each size, each of its own queue."""
    return [QueueRange(queue(queue_id, topic), 100, 100 + size) for queue_id, size in enumerate(sizes)]


AVG = Averagely()


def among(count: int | None, strategy: Strategy | None = AVG) -> Allocation:
    """Returns an allocation to this number of consumers."""
    return Allocation("AVG" if strategy else "BACKLOG", strategy, make_consumer_ids(count) if count else None)


def queue_ids(tasks: list[tuple[QueueRange, ...]]) -> list[list[int]]:
    return [[entry.queue.queue_id for entry in mine] for mine in tasks]


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        pytest.param(
            QueueOffsets({queue(0): 3, queue(1): 5}),
            QueueOffsets({queue(0): 7, queue(1): 5}),
            [(0, 3, 7), (1, 5, 5)],
            id="from the last end to the next",
        ),
        pytest.param(
            QueueOffsets(),
            QueueOffsets({queue(0): 7}, starts={queue(0): 2}),
            [(0, 2, 7)],
            id="the first batch starts where its end says",
        ),
        pytest.param(
            QueueOffsets({queue(0): 3}),
            QueueOffsets({queue(0): 4, queue(1): 9}, starts={queue(1): 6}),
            [(0, 3, 4), (1, 6, 9)],
            id="a new queue starts where the end says",
        ),
        pytest.param(
            QueueOffsets({queue(0): 3}, starts={queue(0): 1}),
            QueueOffsets({queue(0): 4}),
            [(0, 3, 4)],
            id="the starts of an earlier batch do not count",
        ),
        pytest.param(QueueOffsets(), QueueOffsets(), [], id="no queue at all"),
    ],
)
def test_ranges_between_two_offsets(start: QueueOffsets, end: QueueOffsets, expected: list[tuple[int, ...]]) -> None:
    assert plan_ranges(start, end) == {
        queue(queue_id): QueueRange(queue(queue_id), first, until) for queue_id, first, until in expected
    }


@pytest.mark.parametrize(
    ("sizes", "partition_count", "expected"),
    [
        pytest.param((1, 1, 1), None, [[0], [1], [2]], id="unset: one for each queue"),
        pytest.param((1, 1, 1, 1, 1), 2, [[0, 1, 2], [3, 4]], id="contiguous blocks"),
        pytest.param((1, 1, 1, 1, 1, 1, 1, 1), 3, [[0, 1, 2], [3, 4, 5], [6, 7]], id="as RocketMQ's table"),
        pytest.param((0, 0, 1, 1), 2, [[2, 3]], id="idle queues are allocated too, and make no task"),
        pytest.param((1, 0, 0, 1), 2, [[0], [3]], id="an idle queue keeps its place"),
        pytest.param((1, 1), 5, [[0], [1]], id="more consumers than queues"),
        pytest.param((0, 0), 2, [], id="nothing new"),
        pytest.param((), None, [], id="no queue"),
    ],
)
def test_tasks_of_one_topic(sizes: tuple[int, ...], partition_count: int | None, expected: list[list[int]]) -> None:
    assert queue_ids(assign_ranges(ranges(*sizes), among(partition_count))) == expected


def test_each_topic_is_allocated_by_itself() -> None:
    tasks = assign_ranges(ranges(1, 1, 1, topic="wide") + ranges(1, topic="narrow"), among(2))
    assert [[(entry.queue.topic, entry.queue.queue_id) for entry in mine] for mine in tasks] == [
        [("narrow", 0), ("wide", 0), ("wide", 1)],
        [("wide", 2)],
    ]


def test_more_than_ten_consumers_keep_the_order_of_queues() -> None:
    assert queue_ids(assign_ranges(ranges(*[1] * 24), among(12))) == [
        [2 * number, 2 * number + 1] for number in range(12)
    ]


positions = st.dictionaries(
    st.builds(MessageQueue, st.sampled_from(["x", "y"]), st.sampled_from("ab"), st.integers(0, 20)),
    st.tuples(st.integers(0, 9), st.integers(0, 9)),
)


def test_backlog_balances_messages_over_all_topics() -> None:
    tasks = assign_ranges(ranges(6, 1, 0, topic="wide") + ranges(5, topic="narrow"), among(2, None))
    assert [[(entry.queue.topic, entry.queue.queue_id) for entry in mine] for mine in tasks] == [
        [("wide", 0)],
        [("narrow", 0), ("wide", 1)],
    ]


def test_messages_of_an_unallocated_queue_are_not_skipped() -> None:
    nobody = among(2, ByMachineRoom(frozenset({"r1"})))
    assert assign_ranges(ranges(0, 0), nobody) == []
    with pytest.raises(OptionError, match=r"^The query already reads orders/a/1, but allocateStrategy"):
        assign_ranges(ranges(0, 1), nobody)


@pytest.mark.parametrize("strategy", [Averagely(), AveragelyByCircle(), ConsistentHash(), None])
@given(sizes=positions, count=st.none() | st.integers(1, 30), data=st.data())
def test_every_range_is_read_exactly_once_and_planned_the_same_each_time(
    strategy: Strategy | None, sizes: dict[MessageQueue, tuple[int, int]], count: int | None, data: st.DataObject
) -> None:
    start = QueueOffsets({q: first for q, (first, _) in sizes.items()})
    end = QueueOffsets({q: first + size for q, (first, size) in sizes.items()})
    planned = plan_ranges(start, end)
    tasks = assign_ranges(planned.values(), among(count, strategy))
    assert Counter(entry for mine in tasks for entry in mine) == Counter(
        entry for entry in planned.values() if entry.from_offset < entry.until_offset
    )
    assert all(tasks)
    assert count is None or len(tasks) <= count
    # Spark plans each batch several times (rules 7.3).
    assert assign_ranges(data.draw(st.permutations(list(planned.values()))), among(count, strategy)) == tasks


def queue_of(name: str) -> MessageQueue:
    """``x/r1@a/0``."""
    topic, broker_name, queue_id = name.split("/")
    return MessageQueue(topic, broker_name, int(queue_id))


def queues(*names: str) -> list[MessageQueue]:
    return [queue_of(name) for name in names]


def topics(*names: str) -> dict[str, TopicBounds]:
    found = queues(*names)
    return {
        topic: TopicBounds("id", {queue: Bounds(0, 1) for queue in found if queue.topic == topic})
        for topic in sorted({queue.topic for queue in found})
    }


ROOM_1 = Allocation("MACHINE_ROOM", ByMachineRoom(frozenset({"r1"})), ("0", "1"))
LISTED = Allocation("CONFIG", ByConfig({"0": queues("x/a/0", "y/a/0"), "1": queues("x/a/1")}), ("0", "1"))


def test_queues_are_allocated_topic_by_topic() -> None:
    wide_and_narrow = queues("y/a/0", "x/a/2", "x/a/0", "x/a/1")
    averagely = Allocation("AVG", Averagely(), ("0", "1"))
    assert allocate_topics(wide_and_narrow, averagely) == [queues("x/a/0", "x/a/1", "y/a/0"), queues("x/a/2")]


def test_without_a_number_there_is_a_consumer_for_each_queue_of_the_widest_topic() -> None:
    shares = allocate_topics(queues("x/a/0", "x/a/1", "y/a/0"), Allocation("AVG", Averagely()))
    assert shares == [queues("x/a/0", "y/a/0"), queues("x/a/1")]


def test_a_fixed_list_gives_each_queue_once_however_many_topics_it_names() -> None:
    assert allocate_topics(queues("x/a/0", "x/a/1", "y/a/0"), LISTED) == [queues("x/a/0", "y/a/0"), queues("x/a/1")]


def test_queues_that_nobody_gets_are_not_read() -> None:
    assert keep_allocated(topics("x/r1@a/0", "x/r2@b/0", "y/r2@b/0"), [], ROOM_1) == {
        "x": TopicBounds("id", {queue_of("x/r1@a/0"): Bounds(0, 1)}),
        "y": TopicBounds("id", {}),
    }


@pytest.mark.parametrize("allocation", [Allocation("AVG", Averagely()), Allocation("BACKLOG", None)])
def test_most_strategies_leave_nothing_out(allocation: Allocation) -> None:
    everything = topics("x/r1@a/0", "x/r2@b/0", "y/r2@b/0")
    assert keep_allocated(everything, queues("x/r1@a/0", "x/gone/0"), allocation) == everything


def test_a_listed_queue_that_does_not_exist_yet_may_come_later() -> None:
    assert keep_allocated(topics("x/a/0"), [], LISTED) == topics("x/a/0")


def test_a_query_does_not_stop_reading_a_queue_silently() -> None:
    with pytest.raises(OptionError) as refused:
        keep_allocated(topics("x/r1@a/0", "x/r2@b/0"), queues("x/r1@a/0", "x/r2@b/0"), ROOM_1)
    assert str(refused.value) == (
        "The query already reads x/r2@b/0, but allocateStrategy MACHINE_ROOM no longer gives them to any partition. "
        "Add these queues to its parameters, or start the query with a new checkpoint."
    )


def test_a_deleted_queue_needs_no_partition() -> None:
    assert keep_allocated(topics("x/r1@a/0"), queues("x/r2@b/0"), ROOM_1) == topics("x/r1@a/0")


def test_an_allocation_that_reads_nothing_at_all_is_refused() -> None:
    with pytest.raises(OptionError) as refused:
        keep_allocated(topics("x/broker-a/0", "x/broker-a/1"), [], ROOM_1)
    assert str(refused.value) == (
        "allocateStrategy MACHINE_ROOM gives no queue of x/broker-a/0, x/broker-a/1 to any partition, so nothing would "
        "be read. Change its parameters."
    )


def test_what_a_strategy_refuses_names_strategy_and_topic() -> None:
    nearby = Allocation("MACHINE_ROOM_NEARBY", MachineRoomNearby(Averagely(), MachineRoomResolver()), ("r1@c",))
    with pytest.raises(OptionError) as refused:
        keep_allocated(topics("x/a/0"), [], nearby)
    assert str(refused.value) == (
        "allocateStrategy MACHINE_ROOM_NEARBY cannot allocate topic x: "
        "Machine room is null for mq MessageQueue [topic=x, brokerName=a, queueId=0]."
    )
