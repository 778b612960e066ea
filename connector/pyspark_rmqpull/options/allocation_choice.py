"""The allocation of a query, made from its options; what contradicts itself there is refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, TypeVar

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
from rmqpull_client.model import MessageQueue

_Value = TypeVar("_Value")

BACKLOG = "BACKLOG"
_NEARBY = "MACHINE_ROOM_NEARBY"
INNER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONSISTENT_HASH")
STRATEGIES = ("AVG", "AVG_BY_CIRCLE", "CONFIG", "MACHINE_ROOM", _NEARBY, "CONSISTENT_HASH", BACKLOG)

_BELONGS_TO = {
    "messageQueueList": ("CONFIG",),
    "consumeridcs": ("MACHINE_ROOM",),
    "allocateMessageQueueStrategy": (_NEARBY,),
    "machineRoomResolver": (_NEARBY,),
    "virtualNodeCnt": ("CONSISTENT_HASH",),
    "consumerIds": tuple(name for name in STRATEGIES if name != "CONFIG"),
}
_NEEDS = {"CONFIG": "messageQueueList", "MACHINE_ROOM": "consumeridcs", _NEARBY: "consumerIds"}


class AllocationOptions(Protocol):
    """The options of a query that this module reads."""

    @property
    def allocate_strategy(self) -> str: ...
    @property
    def num_partitions(self) -> int | None: ...
    @property
    def consumer_ids(self) -> tuple[str, ...] | None: ...
    @property
    def message_queue_list(self) -> tuple[tuple[MessageQueue, ...], ...] | None: ...
    @property
    def consumeridcs(self) -> tuple[str, ...] | None: ...
    @property
    def allocate_message_queue_strategy(self) -> str: ...
    @property
    def machine_room_resolver(self) -> MachineRoomResolver | None: ...
    @property
    def virtual_node_cnt(self) -> int: ...


def choose(options: AllocationOptions) -> Allocation:
    """The allocation that the options describe. Raises OptionError when they miss or contradict each other."""
    name = options.allocate_strategy
    if name == "CONFIG":
        return _by_config(options)
    consumers = _consumers(options)
    if name == BACKLOG:
        return Allocation(name, None, consumers)
    if name == "MACHINE_ROOM":
        return Allocation(name, ByMachineRoom(frozenset(_needed(name, options.consumeridcs))), consumers)
    if name == _NEARBY:
        return Allocation(name, _nearby(options, _needed(name, options.consumer_ids)), consumers)
    return Allocation(name, _simple(name, options), consumers)


def refuse_stray(given: Mapping[str, str], options: AllocationOptions) -> None:
    """Raises OptionError for a parameter, by its name in small letters, of a strategy that is not the query's."""
    chosen = options.allocate_strategy
    used = {chosen, options.allocate_message_queue_strategy} if chosen == _NEARBY else {chosen}
    for parameter, strategies in _BELONGS_TO.items():
        if parameter.lower() in given and not used & set(strategies):
            raise OptionError(
                f"Option {parameter} means nothing to allocateStrategy {chosen}. "
                f"Leave it out, or set allocateStrategy to {' or '.join(strategies)}."
            )


def _simple(name: str, options: AllocationOptions) -> Strategy:
    if name == "CONSISTENT_HASH":
        return ConsistentHash(options.virtual_node_cnt)
    return Averagely() if name == "AVG" else AveragelyByCircle()


def _by_config(options: AllocationOptions) -> Allocation:
    lists = _needed("CONFIG", options.message_queue_list)
    consumers = make_consumer_ids(len(lists))
    _refuse_other_count(options.num_partitions, len(lists), "messageQueueList has", "lists")
    return Allocation("CONFIG", ByConfig(dict(zip(consumers, lists, strict=True))), consumers)


def _nearby(options: AllocationOptions, consumers: tuple[str, ...]) -> Strategy:
    resolver = options.machine_room_resolver or MachineRoomResolver()
    for consumer in consumers:
        if not resolver.find_consumer_room(consumer):
            raise OptionError(
                f"Machine room is null for consumer id {consumer}. Name consumers as ROOM@NAME in consumerIds, or give "
                "the room of each in consumerDeployIn of machineRoomResolver."
            )
    return MachineRoomNearby(_simple(options.allocate_message_queue_strategy, options), resolver)


def _consumers(options: AllocationOptions) -> tuple[str, ...] | None:
    if options.consumer_ids is None:
        return make_consumer_ids(options.num_partitions) if options.num_partitions else None
    _refuse_other_count(options.num_partitions, len(options.consumer_ids), "consumerIds names", "consumers")
    return options.consumer_ids


def _refuse_other_count(num_partitions: int | None, count: int, what: str, unit: str) -> None:
    if num_partitions not in (None, count):
        raise OptionError(
            f"Option numPartitions is {num_partitions}, but {what} {count} {unit}, one for each partition. "
            "Leave numPartitions out."
        )


def _needed(strategy: str, value: tuple[_Value, ...] | None) -> tuple[_Value, ...]:
    if value is None:
        raise OptionError(f"Option {_NEEDS[strategy]} is missing: allocateStrategy {strategy} needs it.")
    return value
