"""The options of the source: what is accepted, and how the rest is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.progress import DERIVED_GROUP
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offset_specs import ALL_QUEUES, AtTime, OffsetSpecs
from pyspark_rmqpull.planning.starts_and_ends import CONSUME_FROM_FIRST_OFFSET, CONSUME_FROM_LAST_OFFSET
from pyspark_rmqpull.planning.topics import TopicSelection
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}
UNSET_CONNECTION: dict[str, Any] = {
    "endpoints": "127.0.0.1:8081",
    "name_servers": "",
    "broker_addresses": "",
    "poll_name_server_interval": 30_000,
    "access_key": None,
    "secret_key": None,
    "namespace": "",
    "tls_enabled": False,
    "tls_ca_file": None,
    "tls_cert_file": None,
    "tls_key_file": None,
    "request_timeout_ms": 10_000,
    "request_retries": None,
    "request_retry_interval_ms": 50,
    "server_away_timeout_ms": None,
}


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(given)
    return str(refused.value)


def test_unset_options_have_defaults() -> None:
    assert SourceOptions.from_options(NEEDED) == SourceOptions(
        **UNSET_CONNECTION,
        topic=("flights",),
        topic_pattern=None,
        assign=None,
        wait_for_topic=0,
        columns=None,
        bodies="unpacked",
        filter_expression="*",
        filter_type="TAG",
        consumer_group=None,
        commit_offsets=True,
        message_model="CLUSTERING",
        client_id=None,
        local_offset_store_dir="~/.rocketmq_offsets",
        starting_offsets=None,
        starting_offsets_default=None,
        starting_timestamp=None,
        starting_offsets_by_timestamp=None,
        starting_offsets_by_timestamp_strategy="error",
        consume_from_where=CONSUME_FROM_LAST_OFFSET,
        consume_timestamp=None,
        ending_offsets=None,
        ending_timestamp=None,
        ending_offsets_by_timestamp=None,
        fail_on_data_loss=True,
        max_offsets_per_trigger=None,
        min_offsets_per_trigger=None,
        max_trigger_delay=900_000,
        max_bytes_per_trigger=None,
        num_partitions=None,
        allocate_strategy="AVG",
        consumer_ids=None,
        message_queue_list=None,
        consumeridcs=None,
        allocate_message_queue_strategy="AVG",
        machine_room_resolver=None,
        virtual_node_cnt=10,
        min_partitions=None,
        max_records_per_partition=None,
        max_bytes_per_partition=None,
        idle_wait_ms=500,
        pull_batch_size=32,
        pull_threshold_for_queue=None,
        pull_threshold_size_for_queue=100,
        pull_threshold_size_for_topic=64,
        long_polling_timeout_ms=20_000,
    )


def test_every_option_is_read() -> None:
    # Without those that exclude each other.
    given = NEEDED | {
        "columns": "body, tags",
        "bodies": "RAWIFDAMAGED",
        "filterExpression": "size > 3",
        "filterType": "sql92",
        "consumerGroup": "billing",
        "startingOffsets": '{"flights":{"broker-a":{"0":12}}}',
        "startingOffsetsDefault": "earliest",
        "startingTimestamp": "1970-01-01T00:00:00.005Z",
        "startingOffsetsByTimestamp": '{"flights":5}',
        "startingOffsetsByTimestampStrategy": "Latest",
        "consumeFromWhere": "consume_from_first_offset",
        "consumeTimestamp": "7",
        "endingOffsets": '{"flights":{"broker-a":{"0":13}}}',
        "endingTimestamp": "6",
        "endingOffsetsByTimestamp": '{"flights":"6"}',
        "failOnDataLoss": "False",
        "maxOffsetsPerTrigger": "100",
        "numPartitions": "4",
        "allocateStrategy": "avg_by_circle",
        "minPartitions": "8",
        "maxRecordsPerPartition": "1000",
        "idleWaitMs": "0",
        "requestTimeoutMs": "3000",
        "pullBatchSize": "1024",
    }
    assert SourceOptions.from_options(given) == replace(
        SourceOptions.from_options(NEEDED),
        columns=("body", "tags"),
        bodies="rawIfDamaged",
        filter_expression="size > 3",
        filter_type="SQL92",
        consumer_group="billing",
        starting_offsets=OffsetSpecs({MessageQueue("flights", "broker-a", 0): 12}),
        starting_offsets_default=OffsetSpecs({ALL_QUEUES: "earliest"}),
        starting_timestamp=OffsetSpecs({ALL_QUEUES: AtTime(5)}),
        starting_offsets_by_timestamp=OffsetSpecs({("flights",): AtTime(5)}),
        starting_offsets_by_timestamp_strategy="latest",
        consume_from_where=CONSUME_FROM_FIRST_OFFSET,
        consume_timestamp=7,
        ending_offsets=OffsetSpecs({MessageQueue("flights", "broker-a", 0): 13}),
        ending_timestamp=OffsetSpecs({ALL_QUEUES: AtTime(6)}),
        ending_offsets_by_timestamp=OffsetSpecs({("flights",): AtTime(6)}),
        fail_on_data_loss=False,
        max_offsets_per_trigger=100,
        num_partitions=4,
        allocate_strategy="AVG_BY_CIRCLE",
        min_partitions=8,
        max_records_per_partition=1000,
        idle_wait_ms=0,
        request_timeout_ms=3000,
        pull_batch_size=1024,
    )


@pytest.mark.parametrize("name", ["maxoffsetspertrigger", "MAXOFFSETSPERTRIGGER", "maxOffsetsPerTrigger"])
def test_names_are_case_insensitive(name: str) -> None:
    """Acceptance case 37."""
    assert SourceOptions.from_options(NEEDED | {name: "7"}).max_offsets_per_trigger == 7


def test_a_topic_keeps_its_case() -> None:
    """Acceptance case 37."""
    assert SourceOptions.from_options(NEEDED | {"topic": "Flights"}).topic == ("Flights",)


@pytest.mark.parametrize("name", ["checkpointLocation", "checkpointlocation", "queryName", "queryname"])
def test_options_added_by_spark_are_accepted(name: str) -> None:
    assert SourceOptions.from_options(NEEDED | {name: "anything"}) == SourceOptions.from_options(NEEDED)


def test_an_empty_path_is_accepted() -> None:
    assert SourceOptions.from_options(NEEDED | {"path": ""}) == SourceOptions.from_options(NEEDED)


def test_a_path_is_refused() -> None:
    assert refusal(**NEEDED, path="orders") == (
        "The path 'orders' has no meaning here. Name the topic with option topic."
    )


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("maxOffsetPerTrigger", "maxOffsetsPerTrigger"),
        ("maxoffsetpertrigger", "maxOffsetsPerTrigger"),
        ("endpoint", "endpoints"),
        ("topics", "topic"),
        ("startingOffset", "startingOffsets"),
        ("numPartition", "numPartitions"),
        ("allocationStrategy", "allocateStrategy"),
        ("minPartition", "minPartitions"),
        ("maxRowsPerPartition", "maxRecordsPerPartition"),
        ("virtualNodes", "virtualNodeCnt"),
        ("consumer_group", "consumerGroup"),
        ("requestTimeout", "requestTimeoutMs"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_known_one(name: str, nearest: str) -> None:
    assert refusal(**NEEDED, **{name: "1"}) == f"Unknown option {name}. Did you mean {nearest}?"


def test_an_unknown_option_near_to_none_is_refused_with_all_known_ones() -> None:
    assert refusal(**NEEDED, **{"kafka.xyz": "1"}).startswith(
        "Unknown option kafka.xyz. Known options: endpoints, nameServers, "
    )


@pytest.mark.parametrize(("name", "named"), [("endpoints", "endpoints or nameServers"), ("topic", "topic")])
def test_a_missing_option_is_named(name: str, named: str) -> None:
    """Acceptance cases 35 and 52."""
    rest = {other: value for other, value in NEEDED.items() if other != name}
    assert refusal(**rest).startswith(f"Option {named} is missing. ")


HOST_PORT = "Expected HOST:PORT, such as 127.0.0.1:8081, or several of them separated by semicolons."
NAMES = "Expected names separated by commas, each 1 to 127 of the characters a-z A-Z 0-9 _ - % |."
INT64_MAX = 2**63 - 1


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("endpoints", "", HOST_PORT),
        ("endpoints", "localhost", HOST_PORT),
        ("endpoints", ":8081", HOST_PORT),
        ("endpoints", "localhost:", HOST_PORT),
        ("endpoints", "localhost:0", HOST_PORT),
        ("endpoints", "localhost:65536", HOST_PORT),
        ("endpoints", "http://localhost:8081", HOST_PORT),
        ("topic", "", NAMES),
        ("topic", "a,,b", NAMES),
        ("topic", "a;b", NAMES),
        ("topic", "x" * 128, NAMES),
        ("topic", "a, b,a", "It names 'a' twice. Name each topic once."),
        ("consumerGroup", "", "Expected 1 to 120 of the characters a-z A-Z 0-9 _ - % |."),
        ("consumerGroup", "my group", "Expected 1 to 120 of the characters a-z A-Z 0-9 _ - % |."),
        ("consumerGroup", "x" * 121, "Expected 1 to 120 of the characters a-z A-Z 0-9 _ - % |."),
        ("maxOffsetsPerTrigger", "0", f"Expected an integer from 1 to {INT64_MAX}."),
        ("maxOffsetsPerTrigger", "-1", f"Expected an integer from 1 to {INT64_MAX}."),
        ("maxOffsetsPerTrigger", "1.0", f"Expected an integer from 1 to {INT64_MAX}."),
        ("maxOffsetsPerTrigger", "", f"Expected an integer from 1 to {INT64_MAX}."),
        ("maxOffsetsPerTrigger", "1e6", f"Expected an integer from 1 to {INT64_MAX}."),
        ("maxOffsetsPerTrigger", "9223372036854775808", f"Expected an integer from 1 to {INT64_MAX}."),
        ("bodies", "zip", "Expected unpacked, rawIfDamaged or raw."),
        ("failOnDataLoss", "no", "Expected true or false."),
        ("numPartitions", "0", "Expected an integer from 1 to 10000."),
        ("numPartitions", "10001", "Expected an integer from 1 to 10000."),
        *[("minPartitions", bad, "Expected an integer from 1 to 10000.") for bad in ("a", "1.0", "0", "-1", "10001")],
        ("maxRecordsPerPartition", "0", f"Expected an integer from 1 to {INT64_MAX}."),
        ("virtualNodeCnt", "0", "Expected an integer from 1 to 1000."),
        ("virtualNodeCnt", "1001", "Expected an integer from 1 to 1000."),
        (
            "allocateStrategy",
            "AVG_CIRCLE",
            "Did you mean AVG_BY_CIRCLE? Expected AVG, AVG_BY_CIRCLE, CONFIG, MACHINE_ROOM, MACHINE_ROOM_NEARBY, "
            "CONSISTENT_HASH or BACKLOG.",
        ),
        (
            "allocateMessageQueueStrategy",
            "CONFIG",
            "Expected AVG, AVG_BY_CIRCLE or CONSISTENT_HASH.",
        ),
        ("idleWaitMs", "-1", "Expected an integer from 0 to 60000."),
        ("idleWaitMs", "60001", "Expected an integer from 0 to 60000."),
        ("requestTimeoutMs", "0", "Expected an integer from 1 to 3600000."),
        ("requestTimeoutMs", "10s", "Expected an integer from 1 to 3600000."),
        ("startingOffsetsByTimestampStrategy", "earliest", "Expected error or latest."),
        (
            "consumeFromWhere",
            "earliest",
            "Expected CONSUME_FROM_LAST_OFFSET, CONSUME_FROM_FIRST_OFFSET or CONSUME_FROM_TIMESTAMP.",
        ),
        ("startingOffsetsDefault", "7", "Expected 'earliest', 'latest' or 'group'."),
        ("pullBatchSize", "0", "Expected an integer from 1 to 1024."),
        ("pullBatchSize", "1025", "Expected an integer from 1 to 1024."),
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(name: str, value: str, expected: str) -> None:
    """Acceptance cases 32, 35 and 52: also empty values."""
    assert refusal(**(NEEDED | {name: value})) == f"Option {name} is {value!r}. {expected}"


def test_bad_starting_offsets_are_refused_in_one_sentence_that_shows_them() -> None:
    text = refusal(**NEEDED, startingOffsets="newest")
    assert re.match(r"Option startingOffsets is 'newest'\. It is neither a known word nor valid JSON", text)


def test_the_largest_limit_is_the_largest_long_of_spark() -> None:
    given = NEEDED | {"maxOffsetsPerTrigger": str(INT64_MAX)}
    assert SourceOptions.from_options(given).max_offsets_per_trigger == INT64_MAX


def test_a_query_without_a_group_pulls_under_a_derived_name() -> None:
    assert SourceOptions.from_options(NEEDED).pull_group == DERIVED_GROUP
    assert SourceOptions.from_options(NEEDED | {"consumerGroup": "billing"}).pull_group == "billing"


def test_an_unknown_filter_type_is_refused() -> None:
    assert refusal(**NEEDED, filterType="REGEX") == "Option filterType is 'REGEX'. Expected TAG or SQL92."


@pytest.mark.parametrize(
    ("given", "selection"),
    [
        ({"topic": "a, b"}, TopicSelection(names=("a", "b"))),
        ({"topicPattern": "a.*"}, TopicSelection(pattern="a.*")),
        ({"assign": '{"a":{"x":[3]}}'}, TopicSelection(queues=frozenset({MessageQueue("a", "x", 3)}))),
    ],
)
def test_topics_are_chosen_in_three_ways(given: dict[str, str], selection: TopicSelection) -> None:
    assert SourceOptions.from_options({"endpoints": "127.0.0.1:8081"} | given).selection == selection


@pytest.mark.parametrize(
    ("given", "mode", "away_ms"),
    [
        ({}, None, 0),
        ({}, Mode.STREAM, 300_000),
        ({}, Mode.BATCH, 30_000),
        ({"requestTimeoutMs": "3000"}, Mode.STREAM, 0),
        ({"requestTimeoutMs": "3000", "serverAwayTimeoutMs": "60000"}, Mode.STREAM, 60_000),
        ({"serverAwayTimeoutMs": "0"}, Mode.STREAM, 0),
        ({"requestRetries": "2"}, Mode.BATCH, 30_000),
    ],
)
def test_the_limit_for_servers_that_are_away_depends_on_the_mode(
    given: dict[str, str], mode: Mode | None, away_ms: int
) -> None:
    """Who sets the time limit of a request, and no other, gets it for all servers."""
    assert SourceOptions.from_options(NEEDED | given, mode).connection.server_away_timeout_ms == away_ms
