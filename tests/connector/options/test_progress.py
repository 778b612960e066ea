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


CLIENT_ID = "Expected 1 to 255 of the characters a-z A-Z 0-9 _ - % | @ . : #, because a directory gets this name, too."
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
