"""MACHINE_ROOM and MACHINE_ROOM_NEARBY: the tables of rules 2.5 and 2.6, which RocketMQ's own classes confirmed."""

from __future__ import annotations

import re

import pytest

from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import Averagely, AveragelyByCircle, Strategy
from rmqpull_client.model import MessageQueue
from tests.harness.allocation_tables import queues, shares


def in_room(broker_name: str, count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", broker_name, queue_id) for queue_id in range(count)]


def abbreviate(share: str) -> str:
    """Writes ``r1-0`` for queue 0 of room 1, as the tables do."""
    return re.sub(r"room(\d)@broker-[a-z]", r"r\1-", share)


TWO_ROOMS = in_room("room1@broker-a", 5) + in_room("room2@broker-b", 5)


@pytest.mark.parametrize(
    ("consumeridcs", "consumers", "expected"),
    [
        ("room1", "A", ["r1-0 r1-1 r1-2 r1-3 r1-4"]),
        ("room1", "AB", ["r1-0 r1-1 r1-4", "r1-2 r1-3"]),
        ("room1 room2", "AB", ["r1-0 r1-1 r1-2 r1-3 r1-4", "r2-0 r2-1 r2-2 r2-3 r2-4"]),
        ("room1 room2", "ABC", ["r1-0 r1-1 r1-2 r2-4", "r1-3 r1-4 r2-0", "r2-1 r2-2 r2-3"]),
        ("room2", "ABC", ["r2-0 r2-3", "r2-1 r2-4", "r2-2"]),
        ("room1", "ABCDEF", ["r1-0", "r1-1", "r1-2", "r1-3", "r1-4", ""]),
        ("room9", "AB", ["", ""]),
    ],
)
def test_the_queues_that_remain_are_allocated_at_the_end(
    consumeridcs: str, consumers: str, expected: list[str]
) -> None:
    strategy = ByMachineRoom(frozenset(consumeridcs.split()))
    assert [abbreviate(share) for share in shares(strategy, TWO_ROOMS, consumers)] == expected


def test_the_queues_of_brokers_without_a_room_are_not_allocated() -> None:
    assert shares(ByMachineRoom(frozenset({"room1"})), queues(4), "AB") == ["", ""]


@pytest.mark.parametrize(
    ("broker_name", "is_in_room"),
    [
        ("room1@q", True),
        ("room1@y@z", False),
        ("room1@q@", True),  # Java's split drops empty parts at the end
        ("room1@", False),
        ("room1", False),
        ("@", False),
        ("", False),
    ],
)
def test_a_broker_is_in_a_room_if_its_name_has_two_parts(broker_name: str, is_in_room: bool) -> None:
    queue = MessageQueue("orders", broker_name, 1)
    assert ByMachineRoom(frozenset({"room1"})).allocate("A", [queue], "A") == [queue] * is_in_room


def test_a_broker_whose_name_has_three_parts_is_skipped() -> None:
    """Row 8 of the table: even if the first part is a configured room."""
    owned = [MessageQueue("orders", "x@y@z", 0), MessageQueue("orders", "room1@q", 1)]
    assert shares(ByMachineRoom(frozenset({"room1", "x"})), owned, "A") == ["room1@q1"]


def test_an_unknown_consumer_gets_nothing_of_a_machine_room() -> None:
    """Row 10 of the table."""
    assert ByMachineRoom(frozenset({"room1"})).allocate("X", TWO_ROOMS, "AB") == []


def in_rooms(**counts: int) -> list[MessageQueue]:
    """Makes queues in each room. The tables write the room instead of the broker."""
    return [queue for room, count in counts.items() for queue in in_room(f"{room}@", count)]


def nearby(consumers: str, inner: Strategy, **counts: int) -> list[str]:
    found = shares(MachineRoomNearby(inner, MachineRoomResolver()), in_rooms(**counts), consumers.split())
    return [share.replace("@", "-") for share in found]


AVG = Averagely()


@pytest.mark.parametrize(
    ("consumers", "inner", "more", "expected"),
    [
        ("r1@A r2@B", AVG, {}, ["r1-0 r1-1 r1-2 r1-3", "r2-0 r2-1 r2-2 r2-3"]),
        ("r1@A r1@B r2@C", AVG, {}, ["r1-0 r1-1", "r1-2 r1-3", "r2-0 r2-1 r2-2 r2-3"]),
        ("r1@A r1@B", AVG, {}, ["r1-0 r1-1 r2-0 r2-1", "r1-2 r1-3 r2-2 r2-3"]),
        ("r1@A r1@B r1@C", AVG, {}, ["r1-0 r1-1 r2-0 r2-1", "r1-2 r2-2", "r1-3 r2-3"]),
        ("r3@A r3@B", AVG, {}, ["r1-0 r1-1 r2-0 r2-1", "r1-2 r1-3 r2-2 r2-3"]),
        ("r1@A r3@B", AVG, {}, ["r1-0 r1-1 r1-2 r1-3 r2-0 r2-1", "r2-2 r2-3"]),
        (
            "r1@A r1@B r1@C r1@D r1@E r2@F",
            AVG,
            {},
            ["r1-0", "r1-1", "r1-2", "r1-3", "", "r2-0 r2-1 r2-2 r2-3"],
        ),
        ("r1@A r1@B r2@C", AveragelyByCircle(), {}, ["r1-0 r1-2", "r1-1 r1-3", "r2-0 r2-1 r2-2 r2-3"]),
        ("r1@A r2@B", AVG, {"r3": 3}, ["r1-0 r1-1 r1-2 r1-3 r3-0 r3-1", "r2-0 r2-1 r2-2 r2-3 r3-2"]),
    ],
)
def test_nearby_rooms_without_consumers_are_served_by_all(
    consumers: str, inner: Strategy, more: dict[str, int], expected: list[str]
) -> None:
    assert nearby(consumers, inner, r1=4, r2=4, **more) == expected


NEARBY = MachineRoomNearby(AVG, MachineRoomResolver())


def test_nearby_an_unknown_consumer_gets_nothing() -> None:
    assert NEARBY.allocate("r1@X", in_rooms(r1=4), ["r1@A"]) == []


def test_nearby_refuses_a_queue_without_a_room_with_rocketmq_s_text() -> None:
    words = "Machine room is null for mq MessageQueue [topic=orders, brokerName=a, queueId=0]"
    with pytest.raises(ValueError, match=f"^{re.escape(words)}$"):
        NEARBY.allocate("r1@A", queues(1), ["r1@A"])


def test_nearby_refuses_a_consumer_without_a_room_with_rocketmq_s_text() -> None:
    with pytest.raises(ValueError, match=r"^Machine room is null for consumer id A$"):
        NEARBY.allocate("A", in_rooms(r1=1), ["A"])


def test_tables_decide_the_rooms() -> None:
    resolver = MachineRoomResolver({"a": "r1", "b": "r2"}, {"A": "r2", "B": "r1"})
    assert shares(MachineRoomNearby(AVG, resolver), queues(2, "ab"), "AB") == ["b0 b1", "a0 a1"]
    assert resolver.find_queue_room(MessageQueue("orders", "r1@c", 0)) is None
    assert resolver.find_consumer_room("r1@C") is None
