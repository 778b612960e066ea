"""Which allocation the options describe, and which of them contradict each other."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import Allocation, Averagely, AveragelyByCircle, ByConfig, ConsistentHash
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
