"""Options that say how queues become Spark partitions, and how large partitions are split."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark_rmqpull.options.declaration import option
from pyspark_rmqpull.options.json_parsers import parse_machine_room_resolver, parse_message_queue_list
from pyspark_rmqpull.options.parsers import integer, one_of, parse_consumers, size_in_bytes
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
from rmqpull_client.model import MessageQueue

CONFIG, MACHINE_ROOM, NEARBY, CONSISTENT_HASH = "CONFIG", "MACHINE_ROOM", "MACHINE_ROOM_NEARBY", "CONSISTENT_HASH"
BACKLOG = "BACKLOG"
STRATEGIES = ("AVG", "AVG_BY_CIRCLE", CONFIG, MACHINE_ROOM, NEARBY, CONSISTENT_HASH, BACKLOG)
"""Values of option ``allocateStrategy``."""
INNER_STRATEGIES = ("AVG", "AVG_BY_CIRCLE", CONSISTENT_HASH)
"""Values of option ``allocateMessageQueueStrategy``."""


@dataclass(frozen=True, kw_only=True)
class AllocationOptions:
    """The options of allocation become an :class:`Allocation`; the last three limit what one task reads."""

    num_partitions: int | None = option(
        integer(1, 10_000),
        unit="partitions",
        doc="Number of Spark partitions. The queues of each topic are allocated to them as to RocketMQ's consumers; "
        "this option never splits a queue, see `minPartitions`. Default: one for each entry of `consumerIds` or "
        "`messageQueueList`, or else one for each queue of the topic that has the most.",
    )
    allocate_strategy: str = option(
        one_of(*STRATEGIES),
        unit="name",
        doc="How queues are allocated to partitions: RocketMQ's `AVG`, `AVG_BY_CIRCLE`, `CONFIG`, `MACHINE_ROOM`, "
        "`MACHINE_ROOM_NEARBY` and `CONSISTENT_HASH`, or `BACKLOG`, which balances the messages to read over all "
        "topics.",
        default="AVG",
    )
    consumer_ids: tuple[str, ...] | None = option(
        parse_consumers,
        unit="names",
        doc="Consumer id of each partition, separated by commas, such as `room1@c1,room2@c2`. `MACHINE_ROOM_NEARBY` "
        "requires them, and `CONSISTENT_HASH` hashes them. Default: numbers.",
    )
    message_queue_list: tuple[tuple[MessageQueue, ...], ...] | None = option(
        parse_message_queue_list,
        unit="JSON",
        doc="For `CONFIG`: the queues of each partition, such as "
        '`[{"orders":{"broker-a":[0,1]}},{"orders":{"broker-a":[2]}}]`. Each queue may occur once.',
    )
    consumeridcs: tuple[str, ...] | None = option(
        parse_consumers,
        unit="names",
        doc="For `MACHINE_ROOM`: the rooms to read, separated by commas. A broker named `room1@broker-a` is in room "
        "`room1`.",
    )
    allocate_message_queue_strategy: str = option(
        one_of(*INNER_STRATEGIES),
        unit="name",
        doc="For `MACHINE_ROOM_NEARBY`: the strategy within a room: `AVG`, `AVG_BY_CIRCLE` or `CONSISTENT_HASH`.",
        default="AVG",
    )
    machine_room_resolver: MachineRoomResolver | None = option(
        parse_machine_room_resolver,
        unit="JSON",
        doc="For `MACHINE_ROOM_NEARBY`: the rooms of brokers, of consumers, or of both, such as "
        '`{"brokerDeployIn":{"broker-a":"room1"},"consumerDeployIn":{"c1":"room1"}}`. Default: the part of each name '
        "before its first `@`.",
    )
    virtual_node_cnt: int = option(
        integer(1, 1000),
        unit="nodes",
        doc="For `CONSISTENT_HASH`: number of nodes of each consumer on the hash ring.",
        default="10",
    )
    min_partitions: int | None = option(
        integer(1, 10_000),
        unit="partitions",
        doc="Approximate minimum number of tasks of a micro-batch. If allocation makes fewer partitions, the large "
        "ones are split, also within a queue; each task keeps the order of its messages. Default: no splitting.",
    )
    max_records_per_partition: int | None = option(
        integer(1, 2**63 - 1),
        unit="messages",
        doc="Maximum number of messages that a task reads. A larger partition is split, also within a queue. Default: "
        "no limit.",
    )
    max_bytes_per_partition: int | None = option(
        size_in_bytes(1, 2**63 - 1),
        unit="bytes",
        doc="Maximum bytes of bodies, tags, keys and properties that a task reads, such as `64m`. A larger partition "
        "is split, also within a queue; a message above the limit gets a task of its own. Needs a server with the "
        "columnar extension, so it cannot be used with `nameServers`. Default: no limit.",
    )

    @property
    def allocation(self) -> Allocation:
        """How queues become Spark partitions."""
        name, consumers = self.allocate_strategy, self.consumer_ids
        if name == CONFIG:
            lists = self.message_queue_list or ()
            consumers = make_consumer_ids(len(lists))
            return Allocation(name, ByConfig(dict(zip(consumers, lists, strict=True))), consumers)
        if consumers is None and self.num_partitions is not None:
            consumers = make_consumer_ids(self.num_partitions)
        return Allocation(name, self._make_strategy(name), consumers)

    def _make_strategy(self, name: str) -> Strategy | None:
        if name == BACKLOG:
            return None
        if name == MACHINE_ROOM:
            return ByMachineRoom(frozenset(self.consumeridcs or ()))
        if name == NEARBY:
            inner = self._make_inner_strategy(self.allocate_message_queue_strategy)
            return MachineRoomNearby(inner, self.room_resolver)
        return self._make_inner_strategy(name)

    def _make_inner_strategy(self, name: str) -> Strategy:
        if name == CONSISTENT_HASH:
            return ConsistentHash(self.virtual_node_cnt)
        return Averagely() if name == "AVG" else AveragelyByCircle()

    @property
    def room_resolver(self) -> MachineRoomResolver:
        """Which room brokers and consumers are in."""
        return self.machine_room_resolver or MachineRoomResolver()
