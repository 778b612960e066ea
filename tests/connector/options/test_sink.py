"""The options of the sink: what is accepted, and how the rest is refused."""

from __future__ import annotations

import pickle

import pytest

from pyspark_rmqpull.options.declaration import Mode, refuse_other_side
from pyspark_rmqpull.options.sink import OPTIONS, SinkOptions
from pyspark_rmqpull.options.source import OPTIONS as SOURCE_OPTIONS
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081"}


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SinkOptions.from_options(NEEDED | given)
    return str(refused.value)


def test_unset_options_have_defaults() -> None:
    assert SinkOptions.from_options(NEEDED) == SinkOptions(
        endpoints="127.0.0.1:8081",
        request_timeout_ms=10_000,
        send_msg_timeout=None,
        retry_times_when_send_failed=None,
        topic=None,
        delivery=None,
        producer_group="rmqpull-spark-sink",
        queue_selector="roundRobin",
        min_records_per_queue=None,
        on_invalid_row="fail",
        invalid_properties="fail",
        dead_letter_topic=None,
        max_message_size=4 << 20,
        compress_msg_body_over_howmuch=4096,
        compress_type="ZLIB",
        batch_bytes=4 << 20,
        in_flight=8,
        transaction_timeout_ms=600_000,
        on_commit_gap="warn",
    )


def test_sends_have_limits_of_their_own() -> None:
    given = NEEDED | {"requestTimeoutMs": "1", "sendMsgTimeout": "3000", "retryTimesWhenSendFailed": "2"}
    connection = SinkOptions.from_options(given).connection
    assert (connection.request_timeout_ms, connection.request_retries) == (3000, 2)


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("topic", "a b", "Option topic is 'a b'. Expected 1 to 127 of the characters"),
        ("topic", "a,b", "Option topic is 'a,b'. Expected 1 to 127 of the characters"),
        ("delivery", "exactly", "Option delivery is 'exactly'. Did you mean exactly-once?"),
        ("producerGroup", "", "Option producerGroup is ''. Expected 1 to 120"),
        ("queueSelector", "random", "Option queueSelector is 'random'. Expected roundRobin, hash or explicit."),
        ("minRecordsPerQueue", "0", "Option minRecordsPerQueue is '0'. Expected an integer from 1 to 10000"),
        ("onInvalidRow", "ignore", "Option onInvalidRow is 'ignore'. Expected fail, skip or deadLetter."),
        ("invalidProperties", "skip", "Option invalidProperties is 'skip'. Expected fail or drop."),
        ("maxMessageSize", "0", "Option maxMessageSize is '0'. Expected an integer from 1"),
        ("maxMessageSize", "33554433", "Option maxMessageSize is '33554433'. Expected an integer from 1 to 33554432"),
        ("compressType", "SNAPPY", "Option compressType is 'SNAPPY'. Expected ZLIB, LZ4 or ZSTD."),
        ("batchBytes", "1", "Option batchBytes is '1'. Expected an integer from 1024"),
        ("inFlight", "0", "Option inFlight is '0'. Expected an integer from 1"),
        ("transactionTimeoutMs", "1", "Option transactionTimeoutMs is '1'. Expected an integer from 10000"),
        ("onCommitGap", "skip", "Option onCommitGap is 'skip'. Expected warn or fail."),
        ("valueSerializer", "x", "Unknown option valueSerializer. Known options: endpoints, "),  # acceptance case 68
        ("compresType", "LZ4", "Unknown option compresType. Did you mean compressType?"),
        ("path", "orders", "The path 'orders' has no meaning here. Name the topic with option topic."),
    ],
)
def test_bad_options_are_refused(name: str, value: str, sentence: str) -> None:
    assert sentence in refusal(**{name: value})


def test_words_and_names_are_case_insensitive() -> None:
    given = {"endpoints": "a:1", "queueselector": "HASH", "checkpointlocation": "/tmp", "queryname": "q"}
    assert SinkOptions.from_options(given).queue_selector == "hash"


@pytest.mark.parametrize(
    ("own", "others", "name", "sentence"),
    [
        (OPTIONS, SOURCE_OPTIONS, "consumergroup", "Option consumerGroup is for reads. Remove it."),
        (SOURCE_OPTIONS, OPTIONS, "producerGroup", "Option producerGroup is for reads. Remove it."),
    ],
)
def test_an_option_of_the_other_side_is_named(own: tuple, others: tuple, name: str, sentence: str) -> None:  # type: ignore[type-arg]
    refuse_other_side(own, others, {"topic": "t", "unknown": "x"}, "reads")
    with pytest.raises(OptionError, match=sentence):
        refuse_other_side(own, others, {"topic": "t", name: "x"}, "reads")


def test_a_secret_is_never_shown() -> None:
    options = SinkOptions.from_options(NEEDED | {"accessKey": "who", "secretKey": "s3cr3t"})
    assert "s3cr3t" not in repr(options)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "mode", "away_ms"),
    [
        ({}, Mode.STREAM, 300_000),
        ({}, Mode.BATCH, 30_000),
        ({"sendMsgTimeout": "3000"}, Mode.STREAM, 0),
        ({"sendMsgTimeout": "3000", "serverAwayTimeoutMs": "60000"}, Mode.BATCH, 60_000),
    ],
)
def test_writes_wait_for_servers_that_are_away_like_reads(given: dict[str, str], mode: Mode, away_ms: int) -> None:
    assert SinkOptions.from_options(NEEDED | given, mode).connection.server_away_timeout_ms == away_ms
