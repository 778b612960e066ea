"""Options of the group and of waiting for topics: what is taken, and what is refused with advice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError
from rmqpull_client.offsets.stores import ConsumerGroup

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}


def options(**given: str) -> SourceOptions:
    return SourceOptions.from_options(NEEDED | given)


def refusal(given: dict[str, str]) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(given)
    return str(refused.value)


def test_every_option_is_read() -> None:
    given = options(
        waitForTopic="90s",
        consumerGroup="billing",
        commitOffsets="FALSE",
        messageModel="broadcasting",
        clientId="10.0.0.1@DEFAULT",
        localOffsetStoreDir="/var/offsets",
    )
    assert given == replace(
        options(),
        wait_for_topic=90_000,
        consumer_group="billing",
        commit_offsets=False,
        message_model="BROADCASTING",
        client_id="10.0.0.1@DEFAULT",
        local_offset_store_dir="/var/offsets",
    )
    assert given.group == ConsumerGroup("billing", "BROADCASTING", "10.0.0.1@DEFAULT", "/var/offsets")
    assert given.connection.client_id == "10.0.0.1@DEFAULT"


CLIENT_ID = "Expected 1 to 255 of the characters a-z A-Z 0-9 _ - % | @ . : #, for it names a folder, too."
DURATION = "Expected a duration from 0 ms to 3600000 ms, such as 15m, 5s or 500ms."


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("commitOffsets", "yes", "Expected true or false."),
        ("messageModel", "BROADCAST", "Did you mean BROADCASTING? Expected CLUSTERING or BROADCASTING."),
        *[("clientId", bad, CLIENT_ID) for bad in ("", ".", "..", "a/b", "a\n", "x" * 256)],
        *[("localOffsetStoreDir", bad, "Expected the path of a directory.") for bad in ("", " ", "a\0b")],
        *[("waitForTopic", bad, DURATION) for bad in ("", "-1", "1d", "1.5s", "61m", "3600001")],
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(name: str, value: str, expected: str) -> None:
    assert refusal(NEEDED | {name: value}) == f"Option {name} is {value!r}. {expected}"


@pytest.mark.parametrize(
    ("text", "wait_ms"), [("0", 0), ("250", 250), ("250ms", 250), ("90 s", 90_000), ("5m", 300_000), ("1H", 3_600_000)]
)
def test_a_duration_has_a_unit_or_is_in_milliseconds(text: str, wait_ms: int) -> None:
    assert options(waitForTopic=text).wait_for_topic == wait_ms


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"messageModel": "BROADCASTING"},
            "Option messageModel is BROADCASTING, and no group is named whose offsets could be kept in a file. "
            "Name it with option consumerGroup.",
        ),
        (
            {"commitOffsets": "true"},
            "Option commitOffsets is true, and no group is named whose offsets could be set. "
            "Name it with option consumerGroup, or remove commitOffsets.",
        ),
        (
            {"consumerGroup": "g", "localOffsetStoreDir": "/var/offsets"},
            "Option localOffsetStoreDir is for messageModel BROADCASTING; in CLUSTERING the broker keeps the offsets. "
            "Set messageModel to BROADCASTING, or remove localOffsetStoreDir.",
        ),
    ],
)
def test_an_option_without_what_it_is_about_is_refused(given: dict[str, str], sentence: str) -> None:
    assert refusal(NEEDED | given) == sentence


def test_a_query_without_a_group_may_say_that_nothing_is_committed() -> None:
    assert not options(commitOffsets="false").commit_offsets


def test_a_pattern_is_not_waited_for() -> None:
    given = {"endpoints": "127.0.0.1:8081", "topicPattern": "orders-.*", "waitForTopic": "5m"}
    assert refusal(given) == (
        "Option waitForTopic has nothing to wait for: topicPattern may match no topic, and those that come later are "
        "found. Remove it, or name the topics with option topic."
    )
