"""Options that contradict each other: what each rule refuses, in which words, and what it lets pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyspark_rmqpull.options import cross_checks as rules
from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.light_queue_checks import (
    refuse_light_queues_elsewhere,
    refuse_stray_light_queues,
    refuse_writes_to_light_queues,
)
from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "orders"}
CLUSTER = {"nameServers": "127.0.0.1:9876", "topic": "orders"}
LISTS = '[{"orders":{"a":[0,1]}},{"orders":{"a":[2]}}]'
SECRET = "s3cr3t-of-the-tests"

Rule = Callable[..., Any]
LIGHT: set[Rule] = {refuse_light_queues_elsewhere, refuse_stray_light_queues, refuse_writes_to_light_queues}
"""The rules of another module, with tests of its name."""
Given = dict[str, str]


def queue_0(offset: int) -> str:
    return f'{{"orders":{{"a":{{"0":{offset}}}}}}}'


STRAY: list[tuple[Rule, Given, str]] = [
    (
        rules.refuse_stray_name_server_options,
        {name: value},
        f"Option {name} has no effect without nameServers. Remove it, or set nameServers instead of endpoints.",
    )
    for name, value in (("brokerAddresses", "broker-a=localhost:1"), ("pollNameServerInterval", "30000"))
]
SOURCE: list[tuple[Rule, Given, str]] = [
    *STRAY,
    (
        rules.refuse_half_connection,
        {"accessKey": "a"},
        "Option accessKey has no effect without secretKey. Set both or neither.",
    ),
    (
        rules.refuse_half_connection,
        {"SECRETKEY": SECRET},
        "Option secretKey has no effect without accessKey. Set both or neither.",
    ),
    (
        rules.refuse_half_connection,
        {"tlsCertFile": "/c", "tlsEnabled": "true"},
        "Option tlsCertFile has no effect without tlsKeyFile. Set both or neither.",
    ),
    (
        rules.refuse_half_connection,
        {"tlsKeyFile": "/k", "tlsEnabled": "true"},
        "Option tlsKeyFile has no effect without tlsCertFile. Set both or neither.",
    ),
    (
        rules.refuse_half_connection,
        {"tlsCaFile": "/ca"},
        "Option tlsCaFile has no effect without TLS. Set tlsEnabled to true, or remove it.",
    ),
    (
        rules.refuse_half_connection,
        {"tlsCertFile": "/c", "tlsKeyFile": "/k", "tlsEnabled": "false"},
        "Option tlsCertFile has no effect without TLS. Set tlsEnabled to true, or remove it.",
    ),
    (
        rules.refuse_stray_parameters,
        {"virtualNodeCnt": "10"},
        "Option virtualNodeCnt has no effect with allocateStrategy AVG. "
        "Remove it, or set allocateStrategy to CONSISTENT_HASH.",
    ),
    (
        rules.refuse_stray_parameters,
        {"MESSAGEQUEUELIST": LISTS},
        "Option messageQueueList has no effect with allocateStrategy AVG. "
        "Remove it, or set allocateStrategy to CONFIG.",
    ),
    (
        rules.refuse_stray_parameters,
        {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@c", "consumeridcs": "r1"},
        "Option consumeridcs has no effect with allocateStrategy MACHINE_ROOM_NEARBY. "
        "Remove it, or set allocateStrategy to MACHINE_ROOM.",
    ),
    (
        rules.refuse_stray_parameters,
        {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@c", "virtualNodeCnt": "3"},
        "Option virtualNodeCnt has no effect with allocateStrategy MACHINE_ROOM_NEARBY. "
        "Remove it, or set allocateStrategy to CONSISTENT_HASH.",
    ),
    (
        rules.refuse_stray_parameters,
        {"allocateStrategy": "CONFIG", "messageQueueList": LISTS, "consumerIds": "a,b"},
        "Option consumerIds has no effect with allocateStrategy CONFIG. Remove it, or set allocateStrategy to AVG or "
        "AVG_BY_CIRCLE or MACHINE_ROOM or MACHINE_ROOM_NEARBY or CONSISTENT_HASH or BACKLOG.",
    ),
    (
        rules.refuse_stray_progress,
        {"messageModel": "BROADCASTING"},
        "Option messageModel is BROADCASTING, which stores the offsets of a consumer group, but no group is named. Set "
        "option consumerGroup.",
    ),
    (
        rules.refuse_stray_progress,
        {"commitOffsets": "true"},
        "Option commitOffsets is true, but no consumer group is named. Set option consumerGroup, or remove "
        "commitOffsets.",
    ),
    (
        rules.refuse_stray_progress,
        {"consumerGroup": "g", "localOffsetStoreDir": "/var/offsets"},
        "Option localOffsetStoreDir is for messageModel BROADCASTING; with CLUSTERING the broker stores the offsets. "
        "Set messageModel to BROADCASTING, or remove localOffsetStoreDir.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"allocateStrategy": "CONFIG"},
        "Option messageQueueList is missing: allocateStrategy CONFIG requires it.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"allocateStrategy": "MACHINE_ROOM"},
        "Option consumeridcs is missing: allocateStrategy MACHINE_ROOM requires it.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"allocateStrategy": "MACHINE_ROOM_NEARBY", "numPartitions": "3"},
        "Option consumerIds is missing: allocateStrategy MACHINE_ROOM_NEARBY requires it.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"allocateStrategy": "CONFIG", "messageQueueList": LISTS, "numPartitions": "3"},
        "Option numPartitions is 3, but messageQueueList has 2 lists, one for each partition. Remove numPartitions.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"numPartitions": "3", "consumerIds": "a,b"},
        "Option numPartitions is 3, but consumerIds names 2 consumers, one for each partition. Remove numPartitions.",
    ),
    (
        rules.refuse_impossible_allocation,
        {"allocateStrategy": "MACHINE_ROOM_NEARBY", "consumerIds": "r1@a,b"},
        "Machine room is null for consumer id b. Name consumers as ROOM@NAME in consumerIds, or set the room of each "
        "in consumerDeployIn of machineRoomResolver.",
    ),
    (
        rules.refuse_limits,
        {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "15"},
        "Option minOffsetsPerTrigger is 20, which is more than maxOffsetsPerTrigger, 15. "
        "Lower the first or raise the second.",
    ),
    (
        rules.refuse_limits,
        {"maxtriggerdelay": "5s"},
        "Option maxTriggerDelay limits the delay that minOffsetsPerTrigger causes, but minOffsetsPerTrigger is not "
        "set. Set minOffsetsPerTrigger, or remove maxTriggerDelay.",
    ),
    (
        rules.refuse_starts_and_ends,
        {"startingOffsets": queue_0(8), "endingOffsets": queue_0(7)},
        "Options startingOffsets and endingOffsets start orders/a/0 at 8, after its end at 7. "
        "A start may equal its end, which reads nothing, but may not be after it.",
    ),
    *[
        (
            rules.refuse_starts_and_ends,
            {name: value},
            f"Option {name} is group for {scope}, but no consumer group is named. Set option consumerGroup.",
        )
        for name, value, scope in (
            ("startingOffsets", "group", "every queue"),
            ("startingOffsets", '{"orders":"group"}', "orders"),
            ("startingOffsetsDefault", "group", "every queue"),
        )
    ],
    (
        rules.refuse_missing_expression,
        {"filterType": "SQL92"},
        "Option filterType is SQL92, but no expression is set. Set option filterExpression.",
    ),
]
SINK: list[tuple[Rule, Given, str]] = [
    *STRAY,
    (
        rules.refuse_half_connection,
        {"accessKey": "key"},
        "Option accessKey has no effect without secretKey. Set both or neither.",
    ),
    (
        rules.refuse_dead_letters_without_topic,
        {"deadLetterTopic": "dead"},
        "Option onInvalidRow is fail and deadLetterTopic is dead. Set deadLetterTopic if onInvalidRow is deadLetter, "
        "and only then.",
    ),
    (
        rules.refuse_dead_letters_without_topic,
        {"onInvalidRow": "deadLetter"},
        "Option onInvalidRow is deadLetter and deadLetterTopic is not set. Set deadLetterTopic if onInvalidRow is "
        "deadLetter, and only then.",
    ),
    (
        rules.refuse_gaps_without_commits,
        {"onCommitGap": "fail", "delivery": "at-least-once"},
        "Option onCommitGap is fail and delivery is at-least-once, which commits nothing. Set delivery to "
        "exactly-once, or remove onCommitGap.",
    ),
]


OF_CLUSTERS: list[tuple[Rule, type[SourceOptions | SinkOptions], Given, str]] = [
    *[
        (
            rules.refuse_byte_limits_of_clusters,
            SourceOptions,
            {name: "64m"},
            f"Option {name} cannot be used with nameServers: Apache's brokers do not report the sizes of unread "
            f"messages. Remove it, or set {instead} instead.",
        )
        for name, instead in (
            ("maxBytesPerTrigger", "maxOffsetsPerTrigger"),
            ("maxBytesPerPartition", "maxRecordsPerPartition"),
        )
    ],
    (
        rules.refuse_exactly_once_of_clusters,
        SinkOptions,
        {"delivery": "exactly-once"},
        "Option delivery is exactly-once, which cannot be used with nameServers: Apache's brokers cannot commit a "
        "whole batch. Set delivery to at-least-once, or write to rmqpull-broker.",
    ),
    (
        rules.refuse_exactly_once_of_clusters,
        SinkOptions,
        {"transactionTimeoutMs": "60000"},
        "Option transactionTimeoutMs is for delivery exactly-once, which cannot be used with nameServers. Remove it.",
    ),
    (
        rules.refuse_exactly_once_of_clusters,
        SinkOptions,
        {"onCommitGap": "warn"},
        "Option onCommitGap is for delivery exactly-once, which cannot be used with nameServers. Remove it.",
    ),
]
"""What only a cluster of RocketMQ refuses, because its brokers cannot do it."""


def name_of(value: object) -> str | None:
    return getattr(value, "__name__", None)


@pytest.mark.parametrize(("rule", "given", "refusal"), SOURCE, ids=name_of)
def test_contradictions_of_the_source_are_refused(rule: Rule, given: Given, refusal: str) -> None:
    """Acceptance case 35."""
    assert rule in rules.SOURCE_CHECKS
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | given)
    assert str(refused.value) == refusal


@pytest.mark.parametrize(("rule", "given", "refusal"), SINK, ids=name_of)
def test_contradictions_of_the_sink_are_refused(rule: Rule, given: Given, refusal: str) -> None:
    assert rule in rules.SINK_CHECKS
    with pytest.raises(OptionError) as refused:
        SinkOptions.from_options(NEEDED | given)
    assert str(refused.value) == refusal


@pytest.mark.parametrize(("rule", "side", "given", "refusal"), OF_CLUSTERS, ids=name_of)
def test_what_no_cluster_can_do_is_refused_from_the_options_alone(
    rule: Rule, side: type[SourceOptions | SinkOptions], given: Given, refusal: str
) -> None:
    assert rule in (*rules.SOURCE_CHECKS, *rules.SINK_CHECKS)
    side.from_options(NEEDED | given)
    with pytest.raises(OptionError) as refused:
        side.from_options(CLUSTER | given)
    assert str(refused.value) == refusal


def test_every_rule_has_its_row() -> None:
    elsewhere: set[Rule] = {rules.refuse_other_mode, *LIGHT}
    of_clusters = {rule for rule, *_ in OF_CLUSTERS}
    assert set(rules.SOURCE_CHECKS) - elsewhere - of_clusters == {rule for rule, *_ in SOURCE}
    assert set(rules.SINK_CHECKS) - elsewhere - of_clusters == {rule for rule, *_ in SINK}


@pytest.mark.parametrize("side", [SourceOptions, SinkOptions])
@pytest.mark.parametrize(
    ("servers", "sentence"),
    [
        (
            {},
            "Option endpoints or nameServers is missing. Set endpoints to the address of rmqpull-broker, such as "
            "127.0.0.1:8081, or nameServers to the name servers of an Apache RocketMQ cluster, such as 127.0.0.1:9876.",
        ),
        (
            {"ENDPOINTS": "a:1", "nameServers": "no address"},
            "Options endpoints and nameServers exclude each other. Set only endpoints for rmqpull-broker, and only "
            "nameServers for an Apache RocketMQ cluster.",
        ),
    ],
)
def test_exactly_one_option_names_the_servers(
    side: type[SourceOptions | SinkOptions], servers: Given, sentence: str
) -> None:
    """Checked before any value is parsed."""
    with pytest.raises(OptionError) as refused:
        side.from_options({"topic": "orders", **servers})
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "given",
    [
        {"commitOffsets": "false"},
        {"minOffsetsPerTrigger": "15", "maxOffsetsPerTrigger": "15"},
        {"startingOffsets": "group", "consumerGroup": "g"},
        {"startingOffsets": queue_0(7), "endingOffsets": queue_0(7)},
    ],
    ids=lambda given: ",".join(given),
)
def test_options_that_fit_together_are_accepted(given: Given) -> None:
    SourceOptions.from_options(NEEDED | given)


@pytest.mark.parametrize(
    ("chosen", "named"),
    [
        (("topic", "topicPattern"), "Options topic and topicPattern exclude each other."),
        (("topic", "assign"), "Options topic and assign exclude each other."),
        (("assign", "TOPICPATTERN"), "Options topicPattern and assign exclude each other."),
        (("topic", "topicPattern", "assign"), "Options topic and topicPattern and assign exclude each other."),
    ],
)
def test_options_that_choose_topics_exclude_each_other(chosen: tuple[str, ...], named: str) -> None:
    """Acceptance cases 35 and 52. Checked before any value is parsed: "orders" is no value of assign."""
    given = {"endpoints": "127.0.0.1:8081"} | dict.fromkeys(chosen, "orders")
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(given)
    assert str(refused.value) == f"{named} Set only one of topic, topicPattern, assign."


def test_wait_for_topic_needs_named_topics() -> None:
    given = {"endpoints": "127.0.0.1:8081", "topicPattern": "orders-.*", "waitForTopic": "5m"}
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(given)
    assert str(refused.value) == (
        "Option waitForTopic has no effect with topicPattern: a pattern may match no topic, and the query finds new "
        "topics later. Remove it, or name the topics with option topic."
    )


@pytest.mark.parametrize(
    ("mode", "name", "value"),
    [
        (Mode.STREAM, "endingOffsets", "latest"),
        (Mode.STREAM, "endingTimestamp", "2026-03-01"),
        (Mode.STREAM, "endingOffsetsByTimestamp", "{}"),
        (Mode.BATCH, "maxOffsetsPerTrigger", "5"),
        (Mode.BATCH, "minOffsetsPerTrigger", "5"),
        (Mode.BATCH, "maxBytesPerTrigger", "5"),
        (Mode.BATCH, "idleWaitMs", "0"),
        (Mode.BATCH, "commitOffsets", "false"),
    ],
)
def test_an_option_of_the_other_mode_is_refused_once_the_mode_is_known(mode: Mode, name: str, value: str) -> None:
    """Acceptance case 35; ``load()`` does not know the mode."""
    given = NEEDED | {name: value}
    SourceOptions.from_options(given)
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(given, mode)
    modes = ("batch read", "stream") if mode is Mode.STREAM else ("stream", "batch read")
    assert str(refused.value) == f"Option {name} is for a {modes[0]}, and this is a {modes[1]}. Remove it."


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"startingOffsets": "latest"}, "Option startingOffsets is latest for every queue"),
        ({"startingOffsetsDefault": "latest"}, "Option startingOffsetsDefault is latest for every queue"),
        ({"startingOffsets": '{"orders":{"a":{"1":"latest"}}}'}, "Option startingOffsets is latest for orders/a/1"),
    ],
)
def test_a_batch_read_cannot_start_at_the_end(given: Given, refused: str) -> None:
    """Acceptance case 52."""
    SourceOptions.from_options(NEEDED | given, Mode.STREAM)
    with pytest.raises(OptionError, match=f"{refused}, so a batch read would find nothing"):
        SourceOptions.from_options(NEEDED | given, Mode.BATCH)
