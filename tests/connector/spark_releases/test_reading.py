"""The source under a Spark that passes neither start nor limit: which calls it gets, and what it plans from them."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.spark_releases.reading import SelfLimitingReader
from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock
from tests.harness.stream_query import Json, make_reader, named, offset, ranges_of

INITIAL: Json = {"version": 1}
WRAPPER = "triggerAvailableNowWrapper.enabled is on.*Set it to false"


@dataclass
class OlderSpark:
    """The calls of one run of a query by PySpark 4.0 or 4.1 (rules 7.12). ``logged`` is the last end in its log."""

    options: dict[str, str] = field(default_factory=dict)
    logged: Json | None = None
    end: Json = field(default_factory=dict)

    def __post_init__(self) -> None:
        given = {"endpoints": "127.0.0.1:8081", "topic": "orders", **self.options}
        reader = make_reader(ManualClock(), **self.options)
        self.reader = SelfLimitingReader(reader, SourceOptions.from_options(given))
        if self.logged is not None:
            assert self.reader.partitions(self.logged, self.logged) == []
        self.end = INITIAL if self.logged is None else self.logged

    def run_batch(self) -> Any:
        """Plans a micro-batch, and returns its ranges; none if there is nothing new."""
        start, self.end = self.end, self.reader.latestOffset()
        return [] if self.end == start else ranges_of(self.reader.partitions(start, self.end))


def read(broker: FakeBrokerClient, *batches: Any) -> list[Any]:
    return [sorted(part for task in batch for part in task) for batch in batches]


def test_each_batch_continues_the_one_before_and_an_idle_query_plans_none(broker: FakeBrokerClient) -> None:
    spark = OlderSpark()
    assert read(broker, spark.run_batch(), spark.run_batch()) == [[(0, 10, 14)], []]
    broker.queues[0] = Bounds(10, 16)
    assert read(broker, spark.run_batch()) == [[(0, 14, 16)]]


def test_limits_hold_for_each_batch_also_after_a_restart_with_another_one(broker: FakeBrokerClient) -> None:
    first = OlderSpark({"maxOffsetsPerTrigger": "1", "trigger": "processingTime"})
    assert read(broker, first.run_batch(), first.run_batch()) == [[(0, 10, 11)], [(0, 11, 12)]]
    again = OlderSpark({"maxOffsetsPerTrigger": "9", "trigger": "processingTime"}, logged=first.end)
    assert read(broker, again.run_batch(), again.run_batch()) == [[(0, 12, 14)], []]


def test_a_batch_that_runs_again_is_the_same_with_another_limit(broker: FakeBrokerClient) -> None:
    first = OlderSpark({"maxOffsetsPerTrigger": "2", "trigger": "processingTime"})
    first.run_batch()
    again = OlderSpark({"maxOffsetsPerTrigger": "1", "trigger": "processingTime"}, logged=first.end)
    assert ranges_of(again.reader.partitions(INITIAL, first.end)) == [[(0, 10, 12)]]
    assert read(broker, again.run_batch()) == [[(0, 12, 13)]]


@pytest.mark.parametrize("trigger", ["availableNow", "once"])
def test_triggers_of_one_batch_read_everything_and_say_so_once(
    broker: FakeBrokerClient, trigger: str, caplog: pytest.LogCaptureFixture
) -> None:
    spark = OlderSpark({"maxOffsetsPerTrigger": "1", "trigger": trigger})
    assert read(broker, spark.run_batch(), spark.run_batch()) == [[(0, 10, 14)], []]
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == [f"Option trigger is {trigger}"]


def test_one_line_says_what_limits_leave_unread(broker: FakeBrokerClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    spark = OlderSpark({"maxOffsetsPerTrigger": "1", "trigger": "processingTime"})
    spark.run_batch()
    spark.run_batch()
    assert [record.getMessage().partition(" to ")[0] for record in caplog.records] == ["The limits leave 3 messages"]


def test_an_end_that_leaves_messages_also_has_the_latest_ends_for_the_lag(broker: FakeBrokerClient) -> None:
    spark = OlderSpark({"maxOffsetsPerTrigger": "2", "trigger": "processingTime"})
    spark.run_batch()
    assert spark.end["latestOffset"] == {"offsets": named({0: 14, 1: 0}), "version": 1}
    assert list(spark.end) == sorted(spark.end)
    spark.run_batch()
    assert spark.end == offset({0: 14, 1: 0})


def test_the_group_gets_offsets_only_of_batches_that_spark_has_finished(broker: FakeBrokerClient) -> None:
    options = {"consumerGroup": "g"}
    first = OlderSpark(options)
    first.run_batch()
    assert broker.offsets_set == []
    again = OlderSpark(options, logged=first.end)  # the batch may run again now
    assert broker.offsets_set == []
    again.run_batch()
    assert broker.offsets_set == [{0: 14, 1: 0}]


def test_a_wrapped_new_query_is_refused_before_it_reads(broker: FakeBrokerClient) -> None:
    spark = OlderSpark()
    spark.reader.latestOffset()
    with pytest.raises(OptionError, match=WRAPPER):
        spark.reader.latestOffset()


def test_a_wrapped_restart_is_refused_because_its_start_is_not_known(broker: FakeBrokerClient) -> None:
    """Without the refusal the query would start anew: from its options, not from its checkpoint."""
    spark, logged = OlderSpark(), offset({0: 12, 1: 0})
    spark.reader.latestOffset()
    with pytest.raises(OptionError, match=WRAPPER):
        spark.reader.partitions(logged, logged)
