"""Settings of clients that the source decides by itself."""

from __future__ import annotations

import re

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from rmqpull_client.errors import OptionError


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
        SourceOptions.from_options({"endpoints": "127.0.0.1:8081", "topic": "flights", name: "1"})
