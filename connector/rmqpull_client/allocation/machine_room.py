"""MACHINE_ROOM and MACHINE_ROOM_NEARBY: rooms, read from the names of brokers and consumers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmqpull_client.allocation.strategy import Shares, Strategy
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class ByMachineRoom(Strategy):
    """``AllocateMessageQueueByMachineRoom`` (rules 2.5): the queues of some rooms, the rest to nobody.

    A broker's room is the part of its name before ``@``. What is left of an even division is given out at the end,
    one queue each to the first consumers.
    """

    consumeridcs: frozenset[str]

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        mine = [queue for queue in queues if self._is_in_room(queue.broker_name)]
        share, rest = divmod(len(mine), len(consumers))
        last = share * len(consumers)
        return {
            consumer: mine[index * share : (index + 1) * share] + mine[last + index : last + index + (index < rest)]
            for index, consumer in enumerate(consumers)
        }

    def _is_in_room(self, broker_name: str) -> bool:
        parts = broker_name.rstrip("@").split("@")  # Java's split drops empty parts at the end
        return len(parts) == 2 and parts[0] in self.consumeridcs


@dataclass(frozen=True)
class MachineRoomResolver:
    """``AllocateMachineRoomNearby.MachineRoomResolver``: which room a broker and a consumer are in.

    By tables, or, where there is none, by the part of the name before its first ``@``. None for what has no room.
    """

    broker_deploy_in: Mapping[str, str] = field(default_factory=dict)
    consumer_deploy_in: Mapping[str, str] = field(default_factory=dict)

    def room_of_queue(self, queue: MessageQueue) -> str | None:
        """The room of the queue's broker."""
        return _room(queue.broker_name, self.broker_deploy_in)

    def room_of_consumer(self, consumer_id: str) -> str | None:
        """The room of a consumer."""
        return _room(consumer_id, self.consumer_deploy_in)


def _room(name: str, table: Mapping[str, str]) -> str | None:
    if table:
        return table.get(name)
    room, separator, _ = name.partition("@")
    return room if separator else None


@dataclass(frozen=True)
class MachineRoomNearby(Strategy):
    """``AllocateMachineRoomNearby`` (rules 2.6): own room first, by another strategy within the room.

    A room without consumers is served by all of them; one with consumers by nobody else.
    """

    inner: Strategy
    resolver: MachineRoomResolver

    def shares(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        rooms = self._rooms_of_queues(queues)
        consumers_of = self._rooms_of_consumers(consumers)
        own = [room for room in sorted(rooms) if room in consumers_of]
        deserted = [room for room in sorted(rooms) if room not in consumers_of]
        shares: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for room in own + deserted:
            for consumer, mine in self.inner.shares(rooms[room], consumers_of.get(room, consumers)).items():
                shares[consumer] += mine
        return shares

    def _rooms_of_queues(self, queues: Sequence[MessageQueue]) -> dict[str, list[MessageQueue]]:
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = self.resolver.room_of_queue(queue)
            if not room:
                topic, broker_name, queue_id = queue
                raise ValueError(
                    "Machine room is null for mq "
                    f"MessageQueue [topic={topic}, brokerName={broker_name}, queueId={queue_id}]"
                )
            rooms.setdefault(room, []).append(queue)
        return rooms

    def _rooms_of_consumers(self, consumers: Sequence[str]) -> dict[str, list[str]]:
        rooms: dict[str, list[str]] = {}
        for consumer in consumers:
            room = self.resolver.room_of_consumer(consumer)
            if not room:
                raise ValueError(f"Machine room is null for consumer id {consumer}")
            rooms.setdefault(room, []).append(consumer)
        return rooms
