"""A query waits for messages while it plans: for any message, or for as many as ``minOffsetsPerTrigger`` says."""

from __future__ import annotations

import itertools
import json

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.planning.offsets import QueueOffsets
from pyspark_rmqpull.reading.backlog import Backlog
from pyspark_rmqpull.reading.message_wait import MessageWait
from rmqpull_client.model import Bounds, MessageQueue
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock
from tests.harness.stream_query import CAUGHT_UP, EVERYTHING, Json, StartQuery, StreamQuery, named, offset

# --- for any message --------------------------------------------------------------------------------------------------


@pytest.fixture
def idle_query(broker: FakeBrokerClient, start_query: StartQuery) -> StreamQuery:
    """A query that has read everything, and would now wait for 1000 ms, in pulls of at most 400 ms."""
    query = start_query(CAUGHT_UP, idleWaitMs="1000", longPollingTimeoutMs="400")
    query.plan()
    broker.calls.clear()
    return query


def test_the_first_call_does_not_wait_even_without_messages(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues = {0: Bounds(0, 0)}
    assert start_query().plan() == offset({0: 0}, {0: 0})
    assert broker.calls == ["bounds"]


def test_the_first_call_after_a_restart_does_not_wait(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    start_query(CAUGHT_UP).plan()
    assert broker.calls == ["bounds"]


@pytest.mark.parametrize(
    ("end", "options"),
    [
        pytest.param(offset({0: 13, 1: 0}), {}, id="one message behind"),
        pytest.param(offset({0: 14}), {}, id="a new queue"),
        pytest.param(CAUGHT_UP, {"idleWaitMs": "0"}, id="no wait allowed"),
    ],
)
def test_a_query_that_has_work_or_may_not_wait_does_not_wait(
    broker: FakeBrokerClient, start_query: StartQuery, end: Json, options: dict[str, str]
) -> None:
    query = start_query(CAUGHT_UP, **options)
    query.plan()
    query.end = end
    query.plan()
    assert "wait" not in broker.calls


def test_an_idle_query_waits_in_as_many_pulls_as_the_polling_timeout_needs(
    broker: FakeBrokerClient, idle_query: StreamQuery
) -> None:
    idle_query.plan()
    assert idle_query.is_idle
    assert broker.waited_ms == [400, 400, 200]
    assert broker.calls == ["bounds", "wait", "wait", "wait"]  # and no second look


def test_a_message_ends_the_wait_and_is_in_the_next_batch(broker: FakeBrokerClient, idle_query: StreamQuery) -> None:
    broker.on_wait = lambda: broker.queues.update({1: Bounds(0, broker.calls.count("wait") // 2)})
    assert idle_query.plan() == offset({0: 14, 1: 1})
    assert broker.calls == ["bounds", "wait", "wait", "bounds"]


def test_a_pull_that_returns_early_without_a_message_does_not_end_the_wait(
    broker: FakeBrokerClient, clock: ManualClock, idle_query: StreamQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is too busy to park pulls returns early: Spark would ask again at once, and keep it busy."""
    monkeypatch.setattr(type(broker), "wait_for_messages", lambda *_: True)
    idle_query.plan()
    assert idle_query.is_idle
    assert clock.slept_ms == [200] * 5
    assert broker.calls == ["bounds"] * 6


class TickingClock(ManualClock):
    """A clock that moves each time it is read, as on a slow machine."""

    tick_ms = 0

    def now_ms(self) -> int:
        self.passed_ms += self.tick_ms
        return self.passed_ms


@pytest.mark.parametrize("offsets", [{MessageQueue("orders", "broker-a", 0): 14}, {}], ids=["a queue", "no queues"])
@pytest.mark.parametrize(("tick_ms", "early_ms"), list(itertools.product((3, 7), range(265, 300))))
def test_time_that_passes_during_the_wait_never_prolongs_it(
    broker: FakeBrokerClient,
    monkeypatch: pytest.MonkeyPatch,
    tick_ms: int,
    early_ms: int,
    offsets: dict[MessageQueue, int],
) -> None:
    clock = TickingClock()
    ends_ms: list[int] = []

    def return_early(group: str, queues: object, timeout_ms: int, message_filter: object) -> bool:
        ends_ms.append(clock.passed_ms + timeout_ms)
        clock.passed_ms += early_ms
        return True

    monkeypatch.setattr(broker, "wait_for_messages", return_early)
    given = {"endpoints": "a:1", "topicPattern": "or.*", "idleWaitMs": "1000", "longPollingTimeoutMs": "400"}
    empty = Backlog(QueueOffsets(offsets), QueueOffsets(offsets), offsets, {})
    wait = MessageWait(SourceOptions.from_options(given), lambda *_: broker, clock, lambda: empty)
    clock.tick_ms = tick_ms
    assert wait.wait_for_any(empty) is empty
    assert all(end_ms <= 1_000 for end_ms in ends_ms)
    assert all(0 < ms <= 1_000 for ms in clock.slept_ms)


# --- for enough messages ----------------------------------------------------------------------------------------------


def gathering(start_query: StartQuery, **options: str) -> StreamQuery:
    """A query that has run its first batch, up to offset 14, and waits for ten more messages or a second."""
    query = start_query(**{"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"} | options)
    assert query.plan()["offsets"] == named({0: 14, 1: 0})
    return query


def test_fewer_messages_than_the_minimum_wait_until_the_delay_is_over(
    broker: FakeBrokerClient, clock: ManualClock, start_query: StartQuery
) -> None:
    query = gathering(start_query)
    query.end = CAUGHT_UP
    broker.queues[0] = Bounds(10, 20)
    assert json.dumps(query.plan()) == json.dumps(CAUGHT_UP)
    assert clock.passed_ms == 500  # idleWaitMs
    assert query.plan()["offsets"] == named({0: 20, 1: 0})
    assert clock.passed_ms == 1_000  # maxTriggerDelay


def test_the_minimum_ends_the_wait(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = gathering(start_query)
    broker.queues[0] = Bounds(10, 23)
    broker.on_wait = lambda: broker.queues.update({1: Bounds(0, 1)})
    assert query.plan()["offsets"] == named({0: 23, 1: 1})
    assert broker.calls.count("wait") == 1


def test_while_messages_trickle_in_the_query_looks_five_times_a_second(
    broker: FakeBrokerClient, clock: ManualClock, start_query: StartQuery
) -> None:
    query = gathering(start_query, minOffsetsPerTrigger="1000", idleWaitMs="60000")
    broker.queues[0] = Bounds(10, 15)
    ends = itertools.count(16)
    broker.on_wait = lambda: broker.queues.update({0: Bounds(10, next(ends))})
    query.plan()
    assert broker.calls.count("wait") == 5
    assert clock.slept_ms == [200] * 5


def test_the_query_waits_for_messages_beyond_those_that_it_knows(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = gathering(start_query)
    broker.queues[0] = Bounds(10, 20)
    query.plan()
    assert broker.waited[-1] == {0: 20, 1: 0}


def test_messages_are_gathered_in_pulls_within_the_polling_timeout(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = gathering(start_query, longPollingTimeoutMs="150")
    broker.queues[0] = Bounds(10, 20)
    query.plan()
    assert broker.waited_ms == [150, 150, 100]


def test_a_query_that_may_not_wait_returns_at_once(
    broker: FakeBrokerClient, clock: ManualClock, start_query: StartQuery
) -> None:
    query = gathering(start_query, idleWaitMs="0")
    broker.queues[0] = Bounds(10, 20)
    query.plan()
    assert query.is_idle
    assert (clock.passed_ms, broker.calls.count("wait")) == (0, 0)


def test_once_does_not_wait_for_enough(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = gathering(start_query)
    broker.queues[0] = Bounds(10, 15)
    assert query.plan(EVERYTHING)["offsets"] == named({0: 15, 1: 0})


def test_a_restarted_query_does_not_wait_for_enough(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    earlier = gathering(start_query)
    broker.queues[0] = Bounds(10, 15)
    restarted = start_query(earlier.end, minOffsetsPerTrigger="10")
    assert restarted.plan()["offsets"] == named({0: 15, 1: 0})


def test_available_now_reads_a_rest_below_the_minimum(clock: ManualClock, start_query: StartQuery) -> None:
    query = start_query(minOffsetsPerTrigger="3", maxOffsetsPerTrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    assert query.plan()["offsets"] == named({0: 13, 1: 0})
    assert query.plan()["offsets"] == named({0: 14, 1: 0})
    assert clock.passed_ms == 0


def test_a_loss_is_recorded_without_delay(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = gathering(start_query, failOnDataLoss="false")
    broker.queues[0] = Bounds(18, 20)
    query.plan()
    assert (query.offsets, query.starts) == (named({0: 20, 1: 0}), named({0: 18}))


def test_a_pattern_without_topics_waits_without_a_pull(broker: FakeBrokerClient, clock: ManualClock) -> None:
    given = {"endpoints": "a:1", "topicPattern": "or.*", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"}
    empty = Backlog(QueueOffsets({}), QueueOffsets({}), {}, {})
    wait = MessageWait(SourceOptions.from_options(given), lambda *_: broker, clock, lambda: empty)
    assert wait.wait_for_enough(empty, lambda _, now_ms: 300 - now_ms) is empty
    assert (broker.calls, clock.slept_ms) == ([], [200, 100])
