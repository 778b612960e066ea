"""The server and the topics of a write are checked before any row is sent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from pyspark_rmqpull.options.sink import SinkOptions
from pyspark_rmqpull.sink.targets import check_targets
from rmqpull_client.errors import OptionError
from rmqpull_client.transports.port import Producer
from tests.harness.fake_producer import FakeProducer

DEAD = {"onInvalidRow": "deadLetter", "deadLetterTopic": "dead"}


def check(producer: FakeProducer, given: Mapping[str, str]) -> SinkOptions:
    """Checks a write of rows that have only a body."""
    options = SinkOptions.from_options({"endpoints": "a:1", **given})
    return check_targets(cast("Producer", producer), options, ["body"])


@pytest.mark.parametrize(
    ("types", "given", "sentence"),
    [
        ({}, {}, "No topic orders. The sink creates no topics. Create it first: create orders"),
        ({"orders": {"TRANSACTION"}}, {}, "Topic orders takes only transactional messages"),
        ({"orders": {"FIFO"}}, {}, "Topic orders takes only FIFO messages, which need a column messageGroup."),
        ({"orders": {"DELAY"}}, {}, "Topic orders takes only DELAY messages, which need a column deliveryTimestamp."),
        ({"orders": {"PRIORITY"}}, {}, "Topic orders takes only PRIORITY messages, which need a column priority."),
        ({"orders": {"NORMAL"}, "dead": {"FIFO"}}, DEAD, "Topic dead takes no NORMAL messages"),
    ],
)
def test_topics_that_cannot_take_the_rows_are_refused_with_advice(
    producer: FakeProducer, types: dict[str, set[str]], given: dict[str, str], sentence: str
) -> None:
    producer.types = types
    with pytest.raises(OptionError, match=sentence):
        check(producer, {"topic": "orders"} | given)


def test_priorities_need_a_server_that_takes_them(producer: FakeProducer) -> None:
    options = SinkOptions.from_options({"endpoints": "a:1"})
    check_targets(cast("Producer", producer), options, ["body", "priority"])
    producer.takes_priorities = False
    check_targets(cast("Producer", producer), options, ["body"])
    with pytest.raises(OptionError, match="have a column priority, but the server at a:1 takes none"):
        check_targets(cast("Producer", producer), options, ["body", "priority"])


@pytest.mark.parametrize(
    ("extensions", "given", "sentence"),
    [
        ({"columns"}, {"delivery": "exactly-once"}, "Use rmqpull-broker, or set delivery to at-least-once."),
        (set(), {"queueSelector": "hash"}, "Option queueSelector is hash, .* Leave it at roundRobin"),
        (set(), {"queueSelector": "explicit"}, "Option queueSelector is explicit, .* Leave it at roundRobin"),
        (
            set(),
            {"minRecordsPerQueue": "1024"},
            "minRecordsPerQueue is 1024, .* only rmqpull-broker takes it. Remove it.",
        ),
        (set(), {"compressType": "LZ4"}, "Option compressType is LZ4, .* Leave it at ZLIB."),
    ],
)
def test_options_that_the_server_does_not_support_are_refused_with_advice(
    producer: FakeProducer, extensions: set[str], given: dict[str, str], sentence: str
) -> None:
    producer.extensions = frozenset(extensions)
    with pytest.raises(OptionError, match=sentence):
        check(producer, {"topic": "orders"} | given)


@pytest.mark.parametrize(
    ("extensions", "given", "delivery"),
    [
        ({"columns", "stages"}, None, "exactly-once"),
        ({"columns", "stages"}, "at-least-once", "at-least-once"),
        ({"columns"}, None, "at-least-once"),
        (set(), None, "at-least-once"),
    ],
)
def test_without_option_delivery_the_best_guarantee_of_the_server_is_chosen(
    producer: FakeProducer, extensions: set[str], given: str | None, delivery: str
) -> None:
    producer.extensions = frozenset(extensions)
    assert check(producer, {"delivery": given} if given else {}).delivery == delivery
