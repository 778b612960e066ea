"""A query plans micro-batches against a broker that is a few dictionaries: starts, ends, tasks and limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.spark_releases.release import ReadAllAvailable, ReadMaxRows
from rmqpull_client.errors import BrokerUnavailable, OptionError
from rmqpull_client.model import Bounds, MessageQueue
from tests.harness.fake_broker_client import FakeBrokerClient
from tests.harness.stream_query import CAUGHT_UP, EVERYTHING, Json, StartQuery, make_reader, named, offset, ranges_of

# --- starts and ends --------------------------------------------------------------------------------------------------


def test_the_offset_before_the_first_batch_names_no_queue_and_needs_no_broker() -> None:
    assert make_reader().initialOffset() == {"version": 1}


@pytest.mark.parametrize(
    ("starting_offsets", "starts"),
    [
        ("earliest", {0: 10, 1: 0}),
        ("latest", {0: 14, 1: 0}),
        ('{"orders":{"a":{"0":12}}}', {0: 12, 1: 0}),
        ("group", {0: 13, 1: 0}),
    ],
)
def test_the_end_of_the_first_batch_also_names_its_starts(
    broker: FakeBrokerClient, start_query: StartQuery, starting_offsets: str, starts: dict[int, int]
) -> None:
    broker.group_offsets = {0: 13}
    query = start_query(startingOffsets=starting_offsets, consumerGroup="g")
    assert query.plan() == offset({0: 14, 1: 0}, starts)


def test_a_query_starts_at_a_time_and_at_the_end_of_queues_without_a_later_message(start_query: StartQuery) -> None:
    query = start_query(startingOffsets="latest", startingTimestamp="11", startingOffsetsByTimestampStrategy="latest")
    assert query.plan() == offset({0: 14, 1: 0}, {0: 11, 1: 0})


def test_a_query_asks_once_where_its_group_is(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(startingOffsets="group", consumerGroup="g")
    query.plan()
    query.plan()
    assert broker.calls.count("get offsets") == 1


def test_later_ends_name_no_starts(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query()
    query.plan()
    broker.queues[1] = Bounds(0, 5)
    assert query.plan() == offset({0: 14, 1: 5})


def test_a_new_queue_starts_at_its_min_offset_which_the_end_names(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.queues[2] = Bounds(6, 9)
    query = start_query(CAUGHT_UP, startingOffsets="latest")
    assert query.plan() == offset({0: 14, 1: 0, 2: 9}, {2: 6})
    assert query.tasks == [[(2, 6, 9)]]


@pytest.mark.parametrize("end", [CAUGHT_UP, offset({0: 14, 1: 0}, {0: 10, 1: 0})])
def test_without_new_messages_the_end_is_the_very_text_of_the_start(start_query: StartQuery, end: Json) -> None:
    assert json.dumps(start_query(end).plan()) == json.dumps(end)


def test_a_server_without_creation_ids_does_not_make_the_query_forget_them(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.creation_id = None
    broker.queues[0] = Bounds(0, 20)
    assert start_query(CAUGHT_UP).plan()["creationIds"] == {"orders": "first"}


def test_the_newest_known_ends_are_reported(start_query: StartQuery) -> None:
    query = start_query(maxOffsetsPerTrigger="1")
    assert query.reader.reportLatestOffset() is None
    query.plan()
    assert query.reader.reportLatestOffset() == {"offsets": named({0: 14, 1: 0}), "version": 1}


def test_the_error_names_an_unknown_topic_and_the_endpoints(start_query: StartQuery) -> None:
    with pytest.raises(OptionError, match=r"Topic order does not exist at 127\.0\.0\.1:8081\."):
        start_query(topic="order").plan()


def test_an_absent_broker_stops_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise BrokerUnavailable("nobody there")

    monkeypatch.setattr("pyspark_rmqpull.reading.stream_reader.connect", connect)
    with pytest.raises(BrokerUnavailable, match="nobody there"):
        make_reader().latestOffset(CAUGHT_UP, EVERYTHING)


# --- AvailableNow -----------------------------------------------------------------------------------------------------


def test_available_now_ends_without_waiting_for_more(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query()
    query.reader.prepareForTriggerAvailableNow()
    query.plan()
    query.plan()
    assert query.is_idle
    assert "wait" not in broker.calls


def test_available_now_keeps_the_ends_that_its_first_batch_found(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(maxOffsetsPerTrigger="3")
    query.reader.prepareForTriggerAvailableNow()
    assert query.plan()["offsets"] == named({0: 13, 1: 0})
    broker.queues[0] = Bounds(10, 99)
    assert query.plan()["offsets"] == named({0: 14, 1: 0})
    query.plan()
    assert query.is_idle


def test_available_now_leaves_a_later_queue_for_the_next_run(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query()
    query.reader.prepareForTriggerAvailableNow()
    query.plan()
    broker.queues[2] = Bounds(3, 9)
    assert query.plan()["offsets"] == named({0: 14, 1: 0, 2: 3})
    assert query.tasks == []
    query.plan()
    assert query.is_idle


# --- tasks ------------------------------------------------------------------------------------------------------------


def test_partitions_are_a_pure_function_of_their_arguments() -> None:
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 6})
    first, second = make_reader(), make_reader()
    assert (
        ranges_of(first.partitions(start, end)) == ranges_of(first.partitions(start, end)) == [[(0, 3, 7)], [(1, 5, 6)]]
    )
    assert ranges_of(second.partitions(start, end)) == [[(0, 3, 7)], [(1, 5, 6)]]
    assert ranges_of(make_reader(numPartitions="1").partitions(start, end)) == [[(0, 3, 7), (1, 5, 6)]]


def test_a_restart_plans_a_failed_first_batch_again_from_the_logged_starts() -> None:
    restarted = make_reader(startingOffsets="latest")
    logged = offset({0: 14, 1: 0}, {0: 10, 1: 0})
    assert ranges_of(restarted.partitions(restarted.initialOffset(), logged)) == [[(0, 10, 14)]]


def test_tasks_get_the_creation_ids_for_which_their_ranges_were_planned(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query()
    query.plan()
    broker.creation_id = "second"
    [task] = query.reader.partitions(query.start, query.end)
    assert isinstance(task, QueueRangesPartition)
    assert task.creation_ids == {"orders": "first"}


def test_tasks_are_split_after_allocation() -> None:
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 11})
    by_rows = make_reader(numPartitions="1", maxRecordsPerPartition="6")
    assert ranges_of(by_rows.partitions(start, end)) == [[(0, 3, 7), (1, 5, 6)], [(1, 6, 11)]]
    by_number = make_reader(numPartitions="1", minPartitions="3")
    assert ranges_of(by_number.partitions(start, end)) == [[(0, 3, 6)], [(0, 6, 7), (1, 5, 7)], [(1, 7, 11)]]


QUEUE_0, QUEUE_1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def test_tasks_are_split_by_bytes_after_allocation(broker: FakeBrokerClient) -> None:
    broker.queues = {0: Bounds(3, 7), 1: Bounds(5, 8)}
    broker.sizes = {QUEUE_0: [10, 10, 40, 5], QUEUE_1: [5, 5, 5]}
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 8})
    by_bytes = make_reader(numPartitions="1", maxBytesPerPartition="20")
    for _ in range(2):
        assert ranges_of(by_bytes.partitions(start, end)) == [[(0, 3, 5)], [(0, 5, 6)], [(0, 6, 7), (1, 5, 8)]]
    also_by_rows = make_reader(numPartitions="1", maxBytesPerPartition="20", maxRecordsPerPartition="2")
    assert ranges_of(also_by_rows.partitions(start, end)) == [
        [(0, 3, 5)],
        [(0, 5, 6)],
        [(0, 6, 7), (1, 5, 6)],
        [(1, 6, 8)],
    ]
    broker.queues = {}  # all messages are deleted meanwhile: the tasks will find that out
    assert ranges_of(by_bytes.partitions(start, end)) == [[(0, 3, 7), (1, 5, 8)]]


def test_tasks_are_not_split_by_bytes_when_the_broker_is_away(
    broker: FakeBrokerClient, caplog: pytest.LogCaptureFixture
) -> None:
    broker.cannot_cut = BrokerUnavailable("nobody is there")
    tasks = make_reader(maxBytesPerPartition="1").partitions(offset({0: 3}), offset({0: 7}))
    assert ranges_of(tasks) == [[(0, 3, 7)]]
    assert caplog.messages == ["This batch ignores maxBytesPerPartition: nobody is there"]


# --- limits of a batch ------------------------------------------------------------------------------------------------


def test_the_default_limit_is_the_option() -> None:
    assert make_reader().getDefaultReadLimit() == ReadAllAvailable()
    assert make_reader(maxOffsetsPerTrigger="10").getDefaultReadLimit() == ReadMaxRows(10)


@pytest.mark.parametrize("option", ["minOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_with_another_limit_the_default_is_not_everything(option: str) -> None:
    assert make_reader(**{option: "10"}).getDefaultReadLimit() == ReadMaxRows(2**63 - 1)


def test_queues_share_the_limit(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues = {0: Bounds(0, 101), 1: Bounds(0, 11), 2: Bounds(0, 1)}
    query = start_query(maxOffsetsPerTrigger="10")
    assert query.plan()["offsets"] == named({0: 8, 1: 1, 2: 1})
    assert query.plan()["offsets"] == named({0: 17, 1: 2, 2: 1})


def test_bytes_limit_a_batch_within_the_limit_of_messages(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues = {0: Bounds(10, 14), 1: Bounds(0, 2)}
    broker.sizes = {QUEUE_0: [10, 10, 10, 10], QUEUE_1: [99, 10]}
    query = start_query(maxBytesPerTrigger="30", maxOffsetsPerTrigger="5")
    assert query.plan()["offsets"] == named({0: 13, 1: 0})
    assert broker.calls[:2] == ["abilities", "bounds"]  # the query asks first whether the server knows sizes
    assert query.plan()["offsets"] == named({0: 13, 1: 1})
    assert query.plan()["offsets"] == named({0: 14, 1: 2})
    query.plan()
    assert query.is_idle
    assert broker.calls.count("abilities") == 1


def test_once_ignores_the_limits(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.sizes = {QUEUE_0: [10] * 4}
    query = start_query(maxOffsetsPerTrigger="1", maxBytesPerTrigger="1")
    assert query.plan(EVERYTHING)["offsets"] == named({0: 14, 1: 0})


@pytest.mark.parametrize("option", ["maxBytesPerTrigger", "maxBytesPerPartition"])
def test_a_server_without_sizes_is_refused_before_any_work(
    broker: FakeBrokerClient, start_query: StartQuery, option: str
) -> None:
    broker.no_sizes = "no sizes"
    with pytest.raises(OptionError, match="no sizes"):
        start_query(CAUGHT_UP, **{option: "5"}).plan()
    assert broker.calls == ["abilities"]


def test_without_a_limit_of_bytes_no_sizes_are_asked_for(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2")
    query.plan()
    assert query.tasks == [[(0, 10, 14)]]
    assert {"abilities", "cut"}.isdisjoint(broker.calls)


# --- filters ----------------------------------------------------------------------------------------------------------


def test_a_filter_is_checked_once_and_before_the_offsets_of_the_group_are_set(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(CAUGHT_UP, filterExpression="paid", consumerGroup="g")
    query.plan()
    query.plan()
    assert broker.calls[:3] == ["bounds", "check filter", "set offsets"]
    assert broker.calls.count("check filter") == 1


def test_without_a_filter_none_is_checked(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    start_query(CAUGHT_UP).plan()
    assert "check filter" not in broker.calls


def test_a_filter_that_the_broker_refuses_stops_planning(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.refused_expression = "size >"
    with pytest.raises(OptionError, match="filterExpression"):
        start_query(CAUGHT_UP, filterExpression="size >", filterType="SQL92", consumerGroup="g").plan()
    assert broker.offsets_set == []


@pytest.mark.parametrize(
    "unset",
    [{}, {"consumerGroup": "g", "commitOffsets": "false"}, {"consumerGroup": "g", "messageModel": "BROADCASTING"}],
)
def test_a_group_with_members_stops_planning_if_the_query_would_set_its_offsets(
    broker: FakeBrokerClient, start_query: StartQuery, unset: dict[str, str], tmp_path: Path
) -> None:
    broker.has_members = True
    with pytest.raises(OptionError, match="g has members"):
        start_query(CAUGHT_UP, consumerGroup="g").plan()
    assert broker.offsets_set == []
    folder = {"localOffsetStoreDir": str(tmp_path)} if "messageModel" in unset else {}
    start_query(CAUGHT_UP, **unset, **folder).plan()


def test_a_filter_is_checked_on_a_queue_that_exists(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues = {1: Bounds(0, 3)}
    start_query(CAUGHT_UP, failOnDataLoss="false", filterExpression="paid").plan()
    assert broker.checked == [(1, 0)]
