"""The allocation strategies MACHINE_ROOM and MACHINE_ROOM_NEARBY, which prefer consumers near the broker."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rmqpull_client.allocation.strategies import Shares, Strategy, format_queue
from rmqpull_client.model import MessageQueue


@dataclass(frozen=True)
class ByMachineRoom(Strategy):
    """``AllocateMessageQueueByMachineRoom`` (rules 2.5): only the queues of some rooms are allocated.

    The room of a broker is the part of its name before ``@``. Queues are divided evenly; the first consumers get one
    more each while queues remain.
    """

    consumeridcs: frozenset[str]

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
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
    """Finds the rooms of brokers and consumers, like ``AllocateMachineRoomNearby.MachineRoomResolver``.

    A table maps broker names or consumer ids to rooms. Without the table, the room is the part of the name before its
    first ``@``.
    """

    broker_deploy_in: Mapping[str, str] = field(default_factory=dict)
    consumer_deploy_in: Mapping[str, str] = field(default_factory=dict)

    def find_queue_room(self, queue: MessageQueue) -> str | None:
        """Returns the room of the queue's broker, or None."""
        return _find_room(queue.broker_name, self.broker_deploy_in)

    def find_consumer_room(self, consumer_id: str) -> str | None:
        """Returns the room of a consumer, or None."""
        return _find_room(consumer_id, self.consumer_deploy_in)


def _find_room(name: str, table: Mapping[str, str]) -> str | None:
    if table:
        return table.get(name)
    room, separator, _ = name.partition("@")
    return room if separator else None


@dataclass(frozen=True)
class MachineRoomNearby(Strategy):
    """``AllocateMachineRoomNearby`` (rules 2.6): the queues of a room go to the consumers of the room, if it has any.

    Otherwise they go to all consumers. ``inner`` divides the queues of each room.
    """

    inner: Strategy
    resolver: MachineRoomResolver

    def allocate_all(self, queues: Sequence[MessageQueue], consumers: Sequence[str]) -> Shares:
        queues_by_room = self._queues_by_room(queues)
        consumers_by_room = self._consumers_by_room(consumers)
        with_consumers = [room for room in sorted(queues_by_room) if room in consumers_by_room]
        without_consumers = [room for room in sorted(queues_by_room) if room not in consumers_by_room]
        shares: defaultdict[str, list[MessageQueue]] = defaultdict(list)
        for room in with_consumers + without_consumers:
            share = self.inner.allocate_all(queues_by_room[room], consumers_by_room.get(room, consumers))
            for consumer, mine in share.items():
                shares[consumer] += mine
        return shares

    def _queues_by_room(self, queues: Sequence[MessageQueue]) -> dict[str, list[MessageQueue]]:
        rooms: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            room = self.resolver.find_queue_room(queue)
            if not room:
                raise ValueError(f"Machine room is null for mq {format_queue(queue)}")
            rooms.setdefault(room, []).append(queue)
        return rooms

    def _consumers_by_room(self, consumers: Sequence[str]) -> dict[str, list[str]]:
        rooms: dict[str, list[str]] = {}
        for consumer in consumers:
            room = self.resolver.find_consumer_room(consumer)
            if not room:
                raise ValueError(f"Machine room is null for consumer id {consumer}")
            rooms.setdefault(room, []).append(consumer)
        return rooms
