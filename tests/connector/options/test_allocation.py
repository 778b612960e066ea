"""Which allocation the options describe, and which of them contradict each other."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import Allocation, Averagely, AveragelyByCircle, ByConfig, ConsistentHash
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

LISTS = '[{"orders":{"a":[0,1]}},{"orders":{"a":[2]}}]'
FIRST, SECOND, THIRD = (MessageQueue("orders", "a", queue_id) for queue_id in range(3))


def options(**given: str) -> SourceOptions:
    return SourceOptions.from_options({"endpoints": "127.0.0.1:8081", "topic": "orders"} | given)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Allocation("AVG", Averagely())),
        ({"numPartitions": "2"}, Allocation("AVG", Averagely(), ("0", "1"))),
        ({"consumerIds": "c2,c1"}, Allocation("AVG", Averagely(), ("c1", "c2"))),
        ({"consumerIds": "c2,c1", "numPartitions": "2"}, Allocation("AVG", Averagely(), ("c1", "c2"))),
        ({"allocateStrategy": "avg_by_circle"}, Allocation("AVG_BY_CIRCLE", AveragelyByCircle())),
        ({"allocateStrategy": "BACKLOG", "numPartitions": "2"}, Allocation("BACKLOG", None, ("0", "1"))),
        ({"allocateStrategy": "CONSISTENT_HASH"}, Allocation("CONSISTENT_HASH", ConsistentHash(10))),
        (
            {"allocateStrategy": "CONSISTENT_HASH", "virtualNodeCnt": "3", "consumerIds": "c1"},
            Allocation("CONSISTENT_HASH", ConsistentHash(3), ("c1",)),
        ),
        (
            {"allocateStrategy": "CONFIG", "messageQueueList": LISTS, "numPartitions": "2"},
            Allocation("CONFIG", ByConfig({"0": (FIRST, SECOND), "1": (THIRD,)}), ("0", "1")),
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM", "consumeridcs": "r1,r2"},
            Allocation("MACHINE_ROOM", ByMachineRoom(frozenset({"r1", "r2"}))),
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@c"},
            Allocation("MACHINE_ROOM_NEARBY", MachineRoomNearby(Averagely(), MachineRoomResolver()), ("r1@c",)),
        ),
        (
            {
                "allocateStrategy": "MACHINE_ROOM_NEARBY",
                "consumerIds": "c",
                "allocateMessageQueueStrategy": "CONSISTENT_HASH",
                "virtualNodeCnt": "3",
                "machineRoomResolver": '{"consumerDeployIn":{"c":"r1"}}',
            },
            Allocation(
                "MACHINE_ROOM_NEARBY",
                MachineRoomNearby(ConsistentHash(3), MachineRoomResolver({}, {"c": "r1"})),
                ("c",),
            ),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, Allocation) else "",
)
def test_options_describe_an_allocation(given: dict[str, str], expected: Allocation) -> None:
    assert options(**given).allocation == expected


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"allocateStrategy": "CONFIG"}, "Option messageQueueList is missing: allocateStrategy CONFIG requires it."),
        (
            {"allocateStrategy": "MACHINE_ROOM"},
            "Option consumeridcs is missing: allocateStrategy MACHINE_ROOM requires it.",
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "numPartitions": "3"},
            "Option consumerIds is missing: allocateStrategy MACHINE_ROOM_NEARBY requires it.",
        ),
        (
            {"virtualNodeCnt": "10"},
            "Option virtualNodeCnt has no effect with allocateStrategy AVG. "
            "Remove it, or set allocateStrategy to CONSISTENT_HASH.",
        ),
        (
            {"MESSAGEQUEUELIST": LISTS},
            "Option messageQueueList has no effect with allocateStrategy AVG. "
            "Remove it, or set allocateStrategy to CONFIG.",
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@c", "consumeridcs": "r1"},
            "Option consumeridcs has no effect with allocateStrategy MACHINE_ROOM_NEARBY. "
            "Remove it, or set allocateStrategy to MACHINE_ROOM.",
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@c", "virtualNodeCnt": "3"},
            "Option virtualNodeCnt has no effect with allocateStrategy MACHINE_ROOM_NEARBY. "
            "Remove it, or set allocateStrategy to CONSISTENT_HASH.",
        ),
        (
            {"allocateStrategy": "CONFIG", "messageQueueList": LISTS, "numPartitions": "3"},
            "Option numPartitions is 3, but messageQueueList has 2 lists, one for each partition. "
            "Remove numPartitions.",
        ),
        (
            {"numPartitions": "3", "consumerIds": "a,b"},
            "Option numPartitions is 3, but consumerIds names 2 consumers, one for each partition. "
            "Remove numPartitions.",
        ),
        (
            {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@a,b"},
            "Machine room is null for consumer id b. Name consumers as ROOM@NAME in consumerIds, or set the room of "
            "each in consumerDeployIn of machineRoomResolver.",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(given: dict[str, str], refusal: str) -> None:
    with pytest.raises(OptionError) as refused:
        options(**given)
    assert str(refused.value) == refusal


def test_config_takes_no_consumer_ids() -> None:
    with pytest.raises(OptionError, match=r"^Option consumerIds has no effect with allocateStrategy CONFIG"):
        options(allocateStrategy="CONFIG", messageQueueList=LISTS, consumerIds="a,b")
