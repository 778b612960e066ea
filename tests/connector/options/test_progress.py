"""Options of the group, of starts and of ends: what is accepted, what is refused, and which one counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offset_specs import AtTime
from rmqpull_client.errors import OptionError
from rmqpull_client.model import MessageQueue
from rmqpull_client.offsets.stores import ConsumerGroup

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}


def options(**given: str) -> SourceOptions:
    return SourceOptions.from_options(NEEDED | given)


def refusal(**given: str) -> str:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | given)
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


CLIENT_ID = "Expected 1 to 255 of the characters a-z A-Z 0-9 _ - % | @ . : #, since a directory gets this name, too."
DURATION = "Expected a duration from 0 ms to 3600000 ms, such as 15m, 5s or 500ms."


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("commitOffsets", "yes", "Expected true or false."),
        ("messageModel", "BROADCAST", "Did you mean BROADCASTING? Expected CLUSTERING or BROADCASTING."),
        *[("clientId", bad, CLIENT_ID) for bad in ("", ".", "..", "a/b", "a\n", "x" * 256)],
        *[("localOffsetStoreDir", bad, "Expected a path.") for bad in ("", " ", "a\0b")],
        *[("waitForTopic", bad, DURATION) for bad in ("", "-1", "1d", "1.5s", "61m", "3600001")],
    ],
)
def test_a_bad_value_is_refused_with_what_was_expected(name: str, value: str, expected: str) -> None:
    assert refusal(**{name: value}) == f"Option {name} is {value!r}. {expected}"


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
            "Option messageModel is BROADCASTING, but there is no group whose offsets it could store. "
            "Name it with option consumerGroup.",
        ),
        (
            {"commitOffsets": "true"},
            "Option commitOffsets is true, but there is no group whose offsets it could set. "
            "Name it with option consumerGroup, or remove commitOffsets.",
        ),
        (
            {"consumerGroup": "g", "localOffsetStoreDir": "/var/offsets"},
            "Option localOffsetStoreDir is for messageModel BROADCASTING; with CLUSTERING the broker stores the "
            "offsets. Set messageModel to BROADCASTING, or remove localOffsetStoreDir.",
        ),
    ],
)
def test_an_option_without_effect_is_refused(given: dict[str, str], sentence: str) -> None:
    assert refusal(**given) == sentence


def test_a_query_without_a_group_may_turn_off_commit_offsets() -> None:
    assert not options(commitOffsets="false").commit_offsets


def test_wait_for_topic_needs_named_topics() -> None:
    given = {"endpoints": "127.0.0.1:8081", "topicPattern": "orders-.*", "waitForTopic": "5m"}
    with pytest.raises(OptionError, match="Option waitForTopic has no effect with topicPattern: "):
        SourceOptions.from_options(given)


def test_a_new_stream_starts_at_the_end_and_a_batch_read_at_the_beginning() -> None:
    options = SourceOptions.from_options(NEEDED)
    begins = [
        options.make_start_rules(mode).specs.find(MessageQueue("flights", "a", 0))[1]
        for mode in (Mode.STREAM, Mode.BATCH)
    ]
    assert begins == ["latest", "earliest"]


def test_a_time_overrides_times_by_queue_which_override_offsets() -> None:
    """Acceptance case 49."""
    given = {
        "Timestamp": "5",
        "OffsetsByTimestamp": '{"flights":6}',
        "Offsets": '{"flights":{"a":{"0":7}}}',
    }
    for prefix in ("starting", "ending"):
        found = []
        for count in range(len(given)):
            named = {prefix + name: value for name, value in list(given.items())[count:]}
            options = SourceOptions.from_options(NEEDED | named)
            ranked = options.make_start_rules(Mode.BATCH).specs if prefix == "starting" else options.ends
            found.append(ranked.find(MessageQueue("flights", "a", 0)))
        times = [(f"{prefix}Timestamp", AtTime(5)), (f"{prefix}OffsetsByTimestamp", AtTime(6))]
        assert found == [*times, (f"{prefix}Offsets", 7)]


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({"startingOffsets": "latest"}, "Option startingOffsets is latest for every queue"),
        ({"startingOffsetsDefault": "latest"}, "Option startingOffsetsDefault is latest for every queue"),
        ({"startingOffsets": '{"flights":{"a":{"1":"latest"}}}'}, "Option startingOffsets is latest for flights/a/1"),
    ],
)
def test_a_batch_read_cannot_start_at_the_end(given: dict[str, str], refused: str) -> None:
    """Acceptance case 52."""
    SourceOptions.from_options(NEEDED | given, Mode.STREAM)
    with pytest.raises(OptionError, match=f"{refused}, so a batch read would find nothing"):
        SourceOptions.from_options(NEEDED | given, Mode.BATCH)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"startingOffsets": "group"}, "Option startingOffsets is group for every queue."),
        ({"startingOffsets": '{"flights":"group"}'}, "Option startingOffsets is group for flights."),
        ({"startingOffsetsDefault": "group"}, "Option startingOffsetsDefault is group for every queue."),
    ],
)
def test_a_start_at_group_needs_a_consumer_group(given: dict[str, str], named: str) -> None:
    assert refusal(**given) == f"{named} Name the group with option consumerGroup."
    SourceOptions.from_options(NEEDED | given | {"consumerGroup": "g"})


def test_a_start_after_its_end_is_refused_before_any_work() -> None:
    queue = '{"flights":{"a":{"0":%d}}}'
    assert refusal(startingOffsets=queue % 8, endingOffsets=queue % 7) == (
        "Options startingOffsets and endingOffsets start flights/a/0 at 8, after its end at 7. "
        "A start may equal its end, which reads nothing, but may not be after it."
    )
