"""Names of options: those of other connectors are refused with a hint, and those that the source decides itself."""

from __future__ import annotations

import re

import pytest

from pyspark_rmqpull.options.source import OPTIONS, SourceOptions
from rmqpull_client.errors import OptionError

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "flights"}
FROM_KAFKA = {option.kafka_name: option.name for option in OPTIONS if option.kafka_name is not None}
FROM_KAFKA = {option.kafka_name: option.name for option in OPTIONS if option.kafka_name is not None}


@pytest.mark.parametrize(("theirs", "ours"), [*FROM_KAFKA.items(), ("SUBSCRIBE", "topic")])
def test_an_option_of_kafka_s_source_is_refused_with_its_name_here(theirs: str, ours: str) -> None:
    with pytest.raises(OptionError) as refused:
        SourceOptions.from_options(NEEDED | {theirs: "1"})
    assert str(refused.value) == f"Unknown option {theirs}. This option of Spark's Kafka source is called {ours} here."


def test_names_here_exist_and_those_of_kafka_do_not() -> None:
    names = {option.name for option in OPTIONS}
    assert names >= set(FROM_KAFKA.values())
    assert names & set(FROM_KAFKA) == set()


@pytest.mark.parametrize(
    "name",
    [
        "kafka.auto.offset.reset",
        "kafka.enable.auto.commit",
        "kafka.value.deserializer",
        "enableAutoCommit",
        "pullInterval",
        "consumeThreadMin",
        "persistConsumerOffsetInterval",
        "subscriptionGroup",
    ],
)
def test_what_the_source_does_by_itself_is_no_option(name: str) -> None:
    """Acceptance case 36: settings of clients, Kafka's and RocketMQ's, that would go against it."""
    with pytest.raises(OptionError, match=f"^Unknown option {re.escape(name)}. "):
        SourceOptions.from_options(NEEDED | {name: "1"})
