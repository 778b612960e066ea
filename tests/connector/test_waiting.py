"""A topic that is to come is waited for, within limits."""

from __future__ import annotations

import pytest

from pyspark_rmqpull.errors import BrokerUnavailable, TopicMissing
from pyspark_rmqpull.waiting import wait_for_topic


class Time:
    """Passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.pauses_s: list[float] = []

    def clock(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.pauses_s.append(seconds)
        self.now_s += seconds


class Looks:
    """Misses the topic so often before it is there."""

    def __init__(self, misses: int) -> None:
        self.misses = misses
        self.count = 0

    def __call__(self) -> str:
        self.count += 1
        if self.count <= self.misses:
            raise TopicMissing("Topic orders does not exist.")
        return "found"


def test_a_topic_that_is_there_is_not_waited_for() -> None:
    time = Time()
    assert wait_for_topic(Looks(0), 1_000, time.clock, time.sleep) == "found"
    assert time.pauses_s == []


def test_it_is_looked_for_again_and_again() -> None:
    time = Time()
    assert wait_for_topic(Looks(3), 10_000, time.clock, time.sleep) == "found"
    assert time.pauses_s == [0.5, 0.5, 0.5]


def test_the_last_look_is_at_the_end_of_the_time() -> None:
    time, looks = Time(), Looks(99)
    with pytest.raises(TopicMissing) as missing:
        wait_for_topic(looks, 1_200, time.clock, time.sleep)
    assert str(missing.value) == (
        "Topic orders does not exist. It was waited for during 1200 ms, as option waitForTopic says."
    )
    assert time.pauses_s == pytest.approx([0.5, 0.5, 0.2])
    assert looks.count == 4


def test_without_time_it_is_missed_at_once() -> None:
    time = Time()
    with pytest.raises(TopicMissing, match=r"^Topic orders does not exist\.$"):
        wait_for_topic(Looks(1), 0, time.clock, time.sleep)
    assert time.pauses_s == []


def test_another_failure_is_no_reason_to_wait() -> None:
    time = Time()

    def look() -> None:
        raise BrokerUnavailable("nobody there")

    with pytest.raises(BrokerUnavailable):
        wait_for_topic(look, 1_000, time.clock, time.sleep)
    assert time.pauses_s == []
