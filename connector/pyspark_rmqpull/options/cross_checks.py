"""Which options contradict each other: one function for each rule, in the order in which they are checked.

Each function raises OptionError when its rule is broken. It gets the names that the user has set, and the group of
options that it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark_rmqpull.options.allocation import (
    CONFIG,
    CONSISTENT_HASH,
    MACHINE_ROOM,
    NEARBY,
    STRATEGIES,
    AllocationOptions,
)
from pyspark_rmqpull.options.connection import ConnectionOptions
from pyspark_rmqpull.options.declaration import Given, Mode, list_options
from pyspark_rmqpull.options.light_queue_checks import (
    refuse_light_queues_elsewhere,
    refuse_stray_light_queues,
    refuse_writes_to_light_queues,
)
from pyspark_rmqpull.options.micro_batch import MicroBatchOptions
from pyspark_rmqpull.options.progress import ProgressOptions
from pyspark_rmqpull.options.selection import SelectionOptions
from pyspark_rmqpull.options.sending import AT_LEAST_ONCE, DEAD_LETTER, EXACTLY_ONCE, FAIL, SendingOptions
from pyspark_rmqpull.planning.offset_specs import GROUP, LATEST, describe_scope
from pyspark_rmqpull.planning.starts_and_ends import refuse_start_after_end
from rmqpull_client.errors import OptionError
from rmqpull_client.model import SQL92
from rmqpull_client.offsets.stores import BROADCASTING, CLUSTERING

_TOPIC_CHOICES = ("topic", "topicPattern", "assign")
_PAIRS = (("accessKey", "secretKey"), ("tlsCertFile", "tlsKeyFile"))
_TLS_FILES = ("tlsCaFile", "tlsCertFile", "tlsKeyFile")
_WITH_NAME_SERVERS = ("brokerAddresses", "pollNameServerInterval")
_INSTEAD_OF_BYTES = {
    "maxBytesPerTrigger": "maxOffsetsPerTrigger",
    "maxBytesPerPartition": "maxRecordsPerPartition",
}
"""The limits of bytes, and the limits of messages that come nearest."""
_STRATEGIES_OF = {
    "messageQueueList": (CONFIG,),
    "consumeridcs": (MACHINE_ROOM,),
    "allocateMessageQueueStrategy": (NEARBY,),
    "machineRoomResolver": (NEARBY,),
    "virtualNodeCnt": (CONSISTENT_HASH,),
    "consumerIds": tuple(name for name in STRATEGIES if name != CONFIG),
}
"""The strategies that use a parameter."""
_PARAMETER_OF = {CONFIG: "messageQueueList", MACHINE_ROOM: "consumeridcs", NEARBY: "consumerIds"}
"""The parameter that a strategy requires."""


def refuse_topic_choice(given: Given) -> None:
    """Exactly one option names the topics. Checked before any value is parsed."""
    chosen = [name for name in _TOPIC_CHOICES if name in given]
    if len(chosen) > 1:
        raise OptionError(
            f"Options {' and '.join(chosen)} exclude each other. Set only one of {', '.join(_TOPIC_CHOICES)}."
        )
    if not chosen:
        raise OptionError("Option topic is missing. Name one topic or several, or set topicPattern or assign.")
    if chosen == ["topicPattern"] and "waitForTopic" in given:
        raise OptionError(
            "Option waitForTopic has no effect with topicPattern: a pattern may match no topic, and the query finds "
            "new topics later. Remove it, or name the topics with option topic."
        )


def refuse_server_choice(given: Given) -> None:
    """Exactly one option names the servers. Checked before any value is parsed."""
    if "endpoints" in given and "nameServers" in given:
        raise OptionError(
            "Options endpoints and nameServers exclude each other. Set only endpoints for rmqpull-broker, and only "
            "nameServers for an Apache RocketMQ cluster."
        )
    if "endpoints" not in given and "nameServers" not in given:
        raise OptionError(
            "Option endpoints or nameServers is missing. Set endpoints to the address of rmqpull-broker, such as "
            "127.0.0.1:8081, or nameServers to the name servers of an Apache RocketMQ cluster, such as 127.0.0.1:9876."
        )


def refuse_stray_name_server_options(given: Given, options: object) -> None:
    """Addresses of brokers and the interval of routes need name servers."""
    stray = [name for name in _WITH_NAME_SERVERS if name in given and "nameServers" not in given]
    if stray:
        raise OptionError(
            f"Option {stray[0]} has no effect without nameServers. Remove it, or set nameServers instead of endpoints."
        )


def refuse_byte_limits_of_clusters(given: Given, options: object) -> None:
    """A limit of bytes needs message sizes, which RocketMQ's brokers do not report."""
    limits = [name for name in _INSTEAD_OF_BYTES if name in given and "nameServers" in given]
    if limits:
        raise OptionError(
            f"Option {limits[0]} cannot be used with nameServers: Apache's brokers do not report the sizes of unread "
            f"messages. Remove it, or set {_INSTEAD_OF_BYTES[limits[0]]} instead."
        )


def refuse_half_connection(given: Given, options: ConnectionOptions) -> None:
    """Keys and client certificates come in pairs, and files of TLS need TLS."""
    for one, other in (*_PAIRS, *(pair[::-1] for pair in _PAIRS)):
        if one in given and other not in given:
            raise OptionError(f"Option {one} has no effect without {other}. Set both or neither.")
    stray = [name for name in _TLS_FILES if name in given and not options.tls_enabled]
    if stray:
        raise OptionError(f"Option {stray[0]} has no effect without TLS. Set tlsEnabled to true, or remove it.")


def refuse_stray_parameters(given: Given, options: AllocationOptions) -> None:
    """A parameter of an allocation strategy needs that strategy."""
    chosen = options.allocate_strategy
    used = {chosen, options.allocate_message_queue_strategy} if chosen == NEARBY else {chosen}
    for parameter, strategies in _STRATEGIES_OF.items():
        if parameter in given and not used & set(strategies):
            raise OptionError(
                f"Option {parameter} has no effect with allocateStrategy {chosen}. "
                f"Remove it, or set allocateStrategy to {' or '.join(strategies)}."
            )


def refuse_stray_progress(given: Given, options: ProgressOptions) -> None:
    """Options of the group's offsets need a group, and the directory needs BROADCASTING."""
    is_broadcasting = options.message_model == BROADCASTING
    if options.consumer_group is None and is_broadcasting:
        raise OptionError(
            f"Option messageModel is {BROADCASTING}, which stores the offsets of a consumer group, but no group is "
            "named. Set option consumerGroup."
        )
    if options.consumer_group is None and options.commit_offsets and "commitOffsets" in given:
        raise OptionError(
            "Option commitOffsets is true, but no consumer group is named. Set option consumerGroup, or remove "
            "commitOffsets."
        )
    if "localOffsetStoreDir" in given and not is_broadcasting:
        raise OptionError(
            f"Option localOffsetStoreDir is for messageModel {BROADCASTING}; with {CLUSTERING} the broker stores the "
            f"offsets. Set messageModel to {BROADCASTING}, or remove localOffsetStoreDir."
        )


def refuse_impossible_allocation(given: Given, options: AllocationOptions) -> None:
    """A strategy has its required parameter, and as many consumers as partitions, each with a room if it needs one."""
    strategy = options.allocate_strategy
    if (parameter := _PARAMETER_OF.get(strategy)) is not None and parameter not in given:
        raise OptionError(f"Option {parameter} is missing: allocateStrategy {strategy} requires it.")
    if options.message_queue_list is not None:
        _refuse_other_count(options.num_partitions, len(options.message_queue_list), "messageQueueList has", "lists")
    consumers = options.consumer_ids or ()
    if consumers:
        _refuse_other_count(options.num_partitions, len(consumers), "consumerIds names", "consumers")
    for consumer in consumers if strategy == NEARBY else ():
        if not options.room_resolver.find_consumer_room(consumer):
            raise OptionError(
                f"Machine room is null for consumer id {consumer}. Name consumers as ROOM@NAME in consumerIds, or set "
                "the room of each in consumerDeployIn of machineRoomResolver."
            )


def _refuse_other_count(num_partitions: int | None, count: int, what: str, unit: str) -> None:
    if num_partitions not in (None, count):
        raise OptionError(
            f"Option numPartitions is {num_partitions}, but {what} {count} {unit}, one for each partition. "
            "Remove numPartitions."
        )


def refuse_limits(given: Given, options: MicroBatchOptions) -> None:
    """The minimum of a micro-batch is not above its maximum, and its delay needs a minimum."""
    least, most = options.min_offsets_per_trigger, options.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        raise OptionError(
            f"Option minOffsetsPerTrigger is {least}, which is more than maxOffsetsPerTrigger, {most}. "
            "Lower the first or raise the second."
        )
    if least is None and "maxTriggerDelay" in given:
        raise OptionError(
            "Option maxTriggerDelay limits the delay that minOffsetsPerTrigger causes, but minOffsetsPerTrigger is not "
            "set. Set minOffsetsPerTrigger, or remove maxTriggerDelay."
        )


def refuse_starts_and_ends(given: Given, options: ProgressOptions) -> None:
    """No queue starts after its end, a start at the group's offsets needs a group, and a batch read has messages."""
    starts = options.make_start_rules(given.mode or Mode.BATCH).specs
    refuse_start_after_end(starts, options.ends)
    if options.consumer_group is None:
        for name, scope in starts.find_uses(GROUP):
            raise OptionError(
                f"Option {name} is group for {describe_scope(scope)}, but no consumer group is named. Set option "
                "consumerGroup."
            )
    if given.mode is Mode.BATCH:
        for name, scope in starts.find_uses(LATEST):
            raise OptionError(
                f"Option {name} is latest for {describe_scope(scope)}, so a batch read would find nothing. "
                "Start at earliest, group, an offset or a time."
            )


def refuse_other_mode(given: Given, options: object) -> None:
    """A batch read takes no option of streams, and a stream none of batch reads. Checked when the mode is known."""
    for entry in list_options(type(options)):
        if entry.only is not None and given.mode is not None and entry.only is not given.mode and entry.name in given:
            raise OptionError(
                f"Option {entry.name} is for a {entry.only.value}, and this is a {given.mode.value}. Remove it."
            )


def refuse_missing_expression(given: Given, options: SelectionOptions) -> None:
    """SQL92 needs an expression."""
    if options.filter_type == SQL92 and "filterExpression" not in given:
        raise OptionError("Option filterType is SQL92, but no expression is set. Set option filterExpression.")


def refuse_dead_letters_without_topic(given: Given, options: SendingOptions) -> None:
    """Dead letters need a topic, and a topic for them needs dead letters."""
    if (options.on_invalid_row == DEAD_LETTER) != (options.dead_letter_topic is not None):
        raise OptionError(
            f"Option onInvalidRow is {options.on_invalid_row} and deadLetterTopic is "
            f"{options.dead_letter_topic or 'not set'}. Set deadLetterTopic if onInvalidRow is deadLetter, and only "
            "then."
        )


def refuse_exactly_once_of_clusters(given: Given, options: SendingOptions) -> None:
    """RocketMQ's brokers cannot commit the rows of several tasks together."""
    if "nameServers" not in given:
        return
    if options.delivery == EXACTLY_ONCE:
        raise OptionError(
            f"Option delivery is {EXACTLY_ONCE}, which cannot be used with nameServers: Apache's brokers cannot commit "
            f"a whole batch. Set delivery to {AT_LEAST_ONCE}, or write to rmqpull-broker."
        )
    for name in ("transactionTimeoutMs", "onCommitGap"):
        if name in given:
            raise OptionError(
                f"Option {name} is for delivery {EXACTLY_ONCE}, which cannot be used with nameServers. Remove it."
            )


def refuse_gaps_without_commits(given: Given, options: SendingOptions) -> None:
    """Only exactly-once commits have numbers in which the broker can see a gap."""
    if options.on_commit_gap == FAIL and options.delivery == AT_LEAST_ONCE:
        raise OptionError(
            f"Option onCommitGap is {FAIL} and delivery is {AT_LEAST_ONCE}, which commits nothing. Set delivery to "
            f"{EXACTLY_ONCE}, or remove onCommitGap."
        )


CrossCheck = Callable[[Given, Any], None]

SOURCE_CHECKS: tuple[CrossCheck, ...] = (
    refuse_stray_name_server_options,
    refuse_half_connection,
    refuse_byte_limits_of_clusters,
    refuse_stray_parameters,
    refuse_stray_progress,
    refuse_impossible_allocation,
    refuse_limits,
    refuse_starts_and_ends,
    refuse_other_mode,
    refuse_missing_expression,
    refuse_light_queues_elsewhere,
    refuse_stray_light_queues,
)
SINK_CHECKS: tuple[CrossCheck, ...] = (
    refuse_stray_name_server_options,
    refuse_half_connection,
    refuse_exactly_once_of_clusters,
    refuse_gaps_without_commits,
    refuse_dead_letters_without_topic,
    refuse_writes_to_light_queues,
)
