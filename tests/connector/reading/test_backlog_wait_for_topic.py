"""A query can wait for a topic that does not exist yet, for a limited time."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.errors import TopicMissing
from pyspark_rmqpull.reading.backlog import wait_for_topic
from rmqpull_client.errors import BrokerUnavailable
from tests.harness.fake_broker_client import ManualClock


class Looks:
    """Misses the topic a number of times before it exists."""

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.count <= self.misses:
            raise TopicMissing("Topic orders does not exist.")
        return "found"


def test_a_topic_that_exists_is_returned_at_once(clock: ManualClock) -> None:
    assert wait_for_topic(Looks(0), 1_000, clock) == "found"
    assert clock.slept_ms == []


def test_the_query_looks_twice_a_second(clock: ManualClock) -> None:
    assert wait_for_topic(Looks(3), 10_000, clock) == "found"
    assert clock.slept_ms == [500, 500, 500]


def test_the_last_look_is_at_the_end_of_the_wait(clock: ManualClock) -> None:
    looks = Looks(99)
    with pytest.raises(TopicMissing) as missing:
        wait_for_topic(looks, 1_200, clock)
    assert str(missing.value) == ("Topic orders does not exist. The query waited 1200 ms for it (option waitForTopic).")
    assert clock.slept_ms == [500, 500, 200]
    assert looks.count == 4


def test_without_a_wait_a_missing_topic_is_an_error_at_once(clock: ManualClock) -> None:
    with pytest.raises(TopicMissing, match=r"^Topic orders does not exist\.$"):
        wait_for_topic(Looks(1), 0, clock)
    assert clock.slept_ms == []


def test_another_error_is_raised_at_once(clock: ManualClock) -> None:
    def look() -> None:
        raise BrokerUnavailable("nobody there")

    with pytest.raises(BrokerUnavailable):
        wait_for_topic(look, 1_000, clock)
    assert clock.slept_ms == []
