"""How much the driver's side admits, and when, against a broker that is a few dictionaries."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from pyspark_rmqpull.clock import Clock
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.errors import BrokerUnavailable, OptionError
from rmqpull_client.model import Bounds, MessageQueue
from tests.connector.reading.test_stream_reader import ALL, IDLE, LIMITED, named, offset, planned

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient, ManualClock


def reader(**options: str) -> RmqpullStreamReader:
    return timed(Clock(), **options)


def timed(clock: Clock, **options: str) -> RmqpullStreamReader:
    given = {"endpoints": "127.0.0.1:8081", "topic": "orders", "startingOffsets": "earliest"} | options
    return RmqpullStreamReader(SourceOptions.from_options(given), ROW_SCHEMA, clock)


def gathering(clock: ManualClock, **options: str) -> RmqpullStreamReader:
    """A query that has had its first batch, up to offset 14, and waits for ten more messages or a second."""
    stream = timed(clock, **{"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1s"} | options)
    assert stream.latestOffset(stream.initialOffset(), LIMITED)["offsets"] == named({0: 14, 1: 0})
    return stream


def test_fewer_messages_than_the_minimum_are_the_very_start(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock)
    broker.queues[0] = Bounds(10, 20)
    text = json.dumps(IDLE)
    assert json.dumps(stream.latestOffset(IDLE, LIMITED)) == text
    assert clock.passed_ms == 500  # idleWaitMs
    assert stream.latestOffset(IDLE, LIMITED)["offsets"] == named({0: 20, 1: 0})
    assert clock.passed_ms == 1_000  # maxTriggerDelay


def test_the_minimum_ends_the_wait(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock)
    broker.queues[0] = Bounds(10, 23)
    broker.on_wait = lambda: broker.queues.update({1: Bounds(0, 1)})
    assert stream.latestOffset(IDLE, LIMITED)["offsets"] == named({0: 23, 1: 1})
    assert broker.calls.count("wait") == 1


def test_while_messages_trickle_in_the_broker_is_asked_five_times_a_second(
    broker: FakeClient, clock: ManualClock
) -> None:
    stream = gathering(clock, minOffsetsPerTrigger="1000", idleWaitMs="60000")
    broker.queues[0] = Bounds(10, 15)
    ends = itertools.count(16)
    broker.on_wait = lambda: broker.queues.update({0: Bounds(10, next(ends))})
    before = len(broker.calls)
    stream.latestOffset(IDLE, LIMITED)
    assert broker.calls[before:].count("wait") == 5
    assert clock.slept_ms == [200] * 5


def test_a_wait_looks_behind_what_waits_already(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock)
    broker.queues[0] = Bounds(10, 20)
    stream.latestOffset(IDLE, LIMITED)
    assert broker.waited[-1] == {0: 20, 1: 0}


def test_messages_are_gathered_in_pulls_within_the_polling_time(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock, longPollingTimeoutMs="150")
    broker.queues[0] = Bounds(10, 20)
    stream.latestOffset(IDLE, LIMITED)
    assert broker.waited_ms == [150, 150, 100]


def test_a_query_that_is_told_not_to_wait_answers_at_once(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock, idleWaitMs="0")
    broker.queues[0] = Bounds(10, 20)
    assert stream.latestOffset(IDLE, LIMITED) == IDLE
    assert (clock.passed_ms, broker.calls.count("wait")) == (0, 0)


def test_a_wait_that_ends_without_news_is_begun_again_and_lasts_as_long_as_any(
    broker: FakeClient, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As that of a server with too many waits: Spark would ask again at once, and so keep it busy."""
    stream = timed(clock)
    stream.latestOffset(IDLE, ALL)
    monkeypatch.setattr(type(broker), "wait_for_messages", lambda *_: True)
    before = len(broker.calls)
    assert stream.latestOffset(IDLE, ALL) == IDLE
    assert clock.slept_ms == [200, 200, 100]
    assert broker.calls[before:] == ["bounds"] * 4


def test_once_waits_for_nothing(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock)
    broker.queues[0] = Bounds(10, 15)
    assert stream.latestOffset(IDLE, ALL)["offsets"] == named({0: 15, 1: 0})


def test_a_restart_runs_at_once(broker: FakeClient, clock: ManualClock) -> None:
    gathering(clock)
    broker.queues[0] = Bounds(10, 15)
    restarted = timed(clock, minOffsetsPerTrigger="10")
    assert restarted.latestOffset(IDLE, LIMITED)["offsets"] == named({0: 15, 1: 0})


def test_available_now_reads_what_is_left_of_fewer_than_the_minimum(broker: FakeClient, clock: ManualClock) -> None:
    stream = timed(clock, minOffsetsPerTrigger="3", maxOffsetsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), LIMITED)
    second = stream.latestOffset(first, LIMITED)
    assert [first["offsets"], second["offsets"]] == [named({0: 13, 1: 0}), named({0: 14, 1: 0})]
    assert clock.passed_ms == 0


def test_a_loss_is_put_on_record_without_delay(broker: FakeClient, clock: ManualClock) -> None:
    stream = gathering(clock, failOnDataLoss="false")
    broker.queues[0] = Bounds(18, 20)
    end = stream.latestOffset(IDLE, LIMITED)
    assert (end["offsets"], end["starts"]) == (named({0: 20, 1: 0}), named({0: 18}))


QUEUE_0, QUEUE_1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def test_bytes_limit_a_batch_within_the_limit_of_messages(broker: FakeClient) -> None:
    broker.queues = {0: Bounds(10, 14), 1: Bounds(0, 2)}
    broker.sizes = {QUEUE_0: [10, 10, 10, 10], QUEUE_1: [99, 10]}
    stream = reader(maxBytesPerTrigger="30", maxOffsetsPerTrigger="5")
    ends, end = [], stream.initialOffset()
    for _ in range(4):
        end = stream.latestOffset(end, LIMITED)
        ends.append(end["offsets"])
    assert ends == [named(each) for each in ({0: 13, 1: 0}, {0: 13, 1: 1}, {0: 14, 1: 2}, {0: 14, 1: 2})]
    assert broker.calls[:2] == ["cut", "bounds"]  # whether the server can is asked first


def test_once_reads_beyond_the_limit_of_bytes(broker: FakeClient) -> None:
    broker.sizes = {QUEUE_0: [10] * 4}
    stream = reader(maxBytesPerTrigger="1")
    assert stream.latestOffset(stream.initialOffset(), ALL)["offsets"] == named({0: 14, 1: 0})


@pytest.mark.parametrize("option", ["maxBytesPerTrigger", "maxBytesPerPartition"])
def test_a_server_without_sizes_is_refused_before_any_work(broker: FakeClient, option: str) -> None:
    broker.cannot_cut = OptionError("no sizes")
    with pytest.raises(OptionError, match="no sizes"):
        reader(**{option: "5"}).latestOffset(IDLE, ALL)
    assert broker.calls == ["cut"]


def test_sizes_are_not_asked_for_without_need(broker: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2")
    stream.partitions(stream.initialOffset(), stream.latestOffset(stream.initialOffset(), LIMITED))
    assert "cut" not in broker.calls


def test_tasks_are_cut_by_bytes_after_allocation(broker: FakeClient) -> None:
    broker.queues = {0: Bounds(3, 7), 1: Bounds(5, 8)}
    broker.sizes = {QUEUE_0: [10, 10, 40, 5], QUEUE_1: [5, 5, 5]}
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 8})
    stream = reader(numPartitions="1", maxBytesPerPartition="20")
    whole = [[(0, 3, 5)], [(0, 5, 6)], [(0, 6, 7), (1, 5, 8)]]
    assert planned(stream.partitions(start, end)) == whole
    assert planned(stream.partitions(start, end)) == whole
    cut_on = reader(numPartitions="1", maxBytesPerPartition="20", maxRecordsPerPartition="2")
    assert planned(cut_on.partitions(start, end)) == [[(0, 3, 5)], [(0, 5, 6)], [(0, 6, 7), (1, 5, 6)], [(1, 6, 8)]]
    broker.queues = {}  # gone meanwhile: that is for the tasks to find
    assert planned(stream.partitions(start, end)) == [[(0, 3, 7), (1, 5, 8)]]


def test_tasks_are_not_cut_by_bytes_when_nobody_answers(broker: FakeClient, caplog: pytest.LogCaptureFixture) -> None:
    broker.cannot_cut = BrokerUnavailable("nobody is there")
    start, end = offset({0: 3}), offset({0: 7})
    assert planned(reader(maxBytesPerPartition="1").partitions(start, end)) == [[(0, 3, 7)]]
    assert caplog.messages == ["This batch ignores maxBytesPerPartition: nobody is there"]
