"""The options that say how queues become Spark partitions, and how these are cut."""

from __future__ import annotations

from pyspark_rmqpull.options.allocation_choice import INNER_STRATEGIES, STRATEGIES
from pyspark_rmqpull.options.allocation_json import (
    parse_machine_room_resolver,
    parse_message_queue_list,
    parse_names,
)
from pyspark_rmqpull.options.declaration import Option, integer, one_of, size_in_bytes

ALLOCATION_OPTIONS = (
    Option(
        "numPartitions",
        None,
        "partitions",
        "Spark partitions among which the queues of each topic are allocated, as among RocketMQ's consumers; unset, "
        "one for each of `consumerIds` or `messageQueueList`, else one for each queue of the widest topic. No queue is "
        "split here: `minPartitions` does that.",
        integer(1, 10_000),
    ),
    Option(
        "allocateStrategy",
        "AVG",
        "name",
        "RocketMQ's allocation strategy: `AVG`, `AVG_BY_CIRCLE`, `CONFIG`, `MACHINE_ROOM`, `MACHINE_ROOM_NEARBY`, "
        "`CONSISTENT_HASH`; or `BACKLOG`, which balances the messages that wait, over all topics.",
        one_of(*STRATEGIES),
    ),
    Option(
        "consumerIds",
        None,
        "names",
        "Names of the consumers for which partitions stand, separated by commas, such as `room1@c1,room2@c2`: "
        "`CONSISTENT_HASH` and `MACHINE_ROOM_NEARBY` (which needs them) look at them. Unset, numbers.",
        parse_names,
    ),
    Option(
        "messageQueueList",
        None,
        "JSON",
        "For `CONFIG`: the queues of each partition, as "
        '`[{"orders":{"broker-a":[0,1]}},{"orders":{"broker-a":[2]}}]`; no queue may come twice.',
        parse_message_queue_list,
    ),
    Option(
        "consumeridcs",
        None,
        "names",
        "For `MACHINE_ROOM`: the rooms to read, separated by commas. The room of a broker named `room1@broker-a` is "
        "`room1`.",
        parse_names,
    ),
    Option(
        "allocateMessageQueueStrategy",
        "AVG",
        "name",
        "For `MACHINE_ROOM_NEARBY`: the strategy within a room, `AVG`, `AVG_BY_CIRCLE` or `CONSISTENT_HASH`.",
        one_of(*INNER_STRATEGIES),
    ),
    Option(
        "machineRoomResolver",
        None,
        "JSON",
        "For `MACHINE_ROOM_NEARBY`: the rooms of brokers, of consumers, or of both, as "
        '`{"brokerDeployIn":{"broker-a":"room1"},"consumerDeployIn":{"c1":"room1"}}`; unset, what stands before the '
        "first `@` of their names.",
        parse_machine_room_resolver,
    ),
    Option(
        "virtualNodeCnt",
        "10",
        "nodes",
        "For `CONSISTENT_HASH`: how often each consumer stands in the ring.",
        integer(1, 1000),
    ),
    Option(
        "minPartitions",
        None,
        "partitions",
        "About how many tasks a micro-batch has at least: where allocation makes fewer, large partitions are cut, also "
        "within a queue, whose order each task keeps.",
        integer(1, 10_000),
    ),
    Option(
        "maxRecordsPerPartition",
        None,
        "messages",
        "How many messages a task reads at most: a partition above is cut, also within a queue.",
        integer(1, 2**63 - 1),
    ),
    Option(
        "maxBytesPerPartition",
        None,
        "bytes",
        "How many bytes (of bodies, tags, keys and properties) a task reads at most, as `64m` or a number: a partition "
        "above is cut, also within a queue. A message above is a task of its own. Needs a server with the columnar "
        "extension.",
        size_in_bytes(1, 2**63 - 1),
    ),
)
