"""The driver's side of a query against a broker that is a few dictionaries."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.errors import BrokerUnavailable, DataLoss, OptionError
from rmqpull_client.model import Bounds

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient

Json = dict[str, Any]
ALL = ReadAllAvailable()
LIMITED = ReadMaxRows(1)
"""What Spark hands over when it does not ask for everything: the options say how much."""


def reader(**options: str) -> RmqpullStreamReader:
    given = {"endpoints": "127.0.0.1:8081", "topic": "orders", "consumerGroup": "g", "startingOffsets": "earliest"}
    return RmqpullStreamReader(SourceOptions.from_options(given | options), ROW_SCHEMA)


def offset(offsets: dict[int, int], starts: dict[int, int] | None = None, creation_id: str = "first") -> Json:
    """An offset of the topic by queue ids, as Spark would read it from the checkpoint."""
    form: Json = {"creationIds": {"orders": creation_id}, "offsets": named(offsets)}
    if starts:
        form["starts"] = named(starts)
    return form | {"version": 1}


def named(offsets: dict[int, int]) -> Json:
    return {"orders": {"a": {str(queue_id): offset for queue_id, offset in offsets.items()}}}


def planned(tasks: Any) -> list[list[tuple[int, int, int]]]:
    assert all(isinstance(task, QueueRangesPartition) for task in tasks)
    return [[(entry.queue.queue_id, *entry[1:]) for entry in task.ranges] for task in tasks]


IDLE = offset({0: 14, 1: 0})


def test_the_offset_before_the_first_batch_names_nothing_and_needs_no_broker() -> None:
    assert reader().initialOffset() == {"version": 1}


@pytest.mark.parametrize(
    ("starting_offsets", "starts"),
    [
        ("earliest", {0: 10, 1: 0}),
        ("latest", {0: 14, 1: 0}),
        ('{"orders":{"a":{"0":12}}}', {0: 12, 1: 0}),
        ("group", {0: 13, 1: 0}),
    ],
)
def test_the_first_end_names_where_the_first_batch_begins(
    broker: FakeClient, starting_offsets: str, starts: dict[int, int]
) -> None:
    broker.group_offsets = {0: 13}
    stream = reader(startingOffsets=starting_offsets)
    assert stream.latestOffset(stream.initialOffset(), ALL) == offset({0: 14, 1: 0}, starts)


def test_a_stream_begins_at_a_time_and_at_the_end_of_queues_without_a_message_then(broker: FakeClient) -> None:
    stream = reader(startingTimestamp="11", startingOffsetsByTimestampStrategy="latest")
    assert stream.latestOffset(stream.initialOffset(), ALL) == offset({0: 14, 1: 0}, {0: 11, 1: 0})


def test_where_a_query_began_is_asked_once(broker: FakeClient) -> None:
    stream = reader(startingOffsets="group")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    stream.latestOffset(first, ALL)
    assert broker.calls.count("committed") == 1


def test_the_first_call_answers_at_once_even_when_nothing_is_there(broker: FakeClient) -> None:
    broker.queues = {0: Bounds(0, 0)}
    stream = reader()
    assert stream.latestOffset(stream.initialOffset(), ALL) == offset({0: 0}, {0: 0})
    assert broker.calls == ["bounds"]


def test_the_starts_are_left_out_of_later_ends(broker: FakeClient) -> None:
    stream = reader()
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues[1] = Bounds(0, 5)
    assert stream.latestOffset(first, ALL) == offset({0: 14, 1: 5})


@pytest.mark.parametrize("start", [IDLE, offset({0: 14, 1: 0}, {0: 10, 1: 0})])
def test_no_news_is_the_very_start(broker: FakeClient, start: Json) -> None:
    text = json.dumps(start)
    assert json.dumps(reader().latestOffset(start, ALL)) == text


def test_an_idle_query_waits_on_the_broker_and_takes_what_woke_it(broker: FakeClient) -> None:
    stream = reader()
    stream.latestOffset(IDLE, ALL)
    broker.on_wait = lambda: broker.queues.update({1: Bounds(0, 1)})
    assert stream.latestOffset(IDLE, ALL) == offset({0: 14, 1: 1})
    assert broker.calls.count("wait") == 1


def test_the_first_call_after_a_restart_does_not_wait(broker: FakeClient) -> None:
    reader().latestOffset(IDLE, ALL)
    assert "wait" not in broker.calls


@pytest.mark.parametrize(
    ("start", "options"),
    [
        pytest.param(offset({0: 13, 1: 0}), {}, id="one message behind"),
        pytest.param(offset({0: 14}), {}, id="a new queue"),
        pytest.param(IDLE, {"idleWaitMs": "0"}, id="told not to"),
    ],
)
def test_a_query_that_has_work_or_is_told_not_to_does_not_wait(
    broker: FakeClient, start: Json, options: dict[str, str]
) -> None:
    stream = reader(**options)
    stream.latestOffset(IDLE, ALL)
    stream.latestOffset(start, ALL)
    assert "wait" not in broker.calls


def test_available_now_ends_without_waiting_for_more(broker: FakeClient) -> None:
    stream = reader()
    stream.prepareForTriggerAvailableNow()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.latestOffset(end, ALL) == end
    assert "wait" not in broker.calls


def test_available_now_keeps_the_ends_of_its_first_batch(broker: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="3")
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), LIMITED)
    broker.queues[0] = Bounds(10, 99)
    second = stream.latestOffset(first, LIMITED)
    assert [first["offsets"], second["offsets"]] == [named({0: 13, 1: 0}), named({0: 14, 1: 0})]
    assert stream.latestOffset(second, LIMITED) == second


def test_available_now_is_told_when_what_it_planned_is_gone(broker: FakeClient) -> None:
    """Acceptance cases 12 and 13: a queue vanishes between batches, or ends before its planned end."""
    stream = reader(maxOffsetsPerTrigger="2")
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), ReadMaxRows(2))
    broker.queues[0] = Bounds(10, 13)
    with pytest.raises(DataLoss, match=r"1 messages of queue orders/a/0 are gone: .* to offset 14, and it ends at 13"):
        stream.latestOffset(first, ReadMaxRows(2))
    del broker.queues[0]
    with pytest.raises(DataLoss, match="Queue orders/a/0 is gone"):
        stream.latestOffset(first, ReadMaxRows(2))


def test_a_queue_that_comes_during_available_now_is_left_for_the_next_run(broker: FakeClient) -> None:
    stream = reader()
    stream.prepareForTriggerAvailableNow()
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues[2] = Bounds(3, 9)
    second = stream.latestOffset(first, ALL)
    assert second["offsets"] == named({0: 14, 1: 0, 2: 3})
    assert stream.latestOffset(second, ALL) == second
    assert planned(stream.partitions(first, second)) == []


def test_a_new_queue_begins_at_its_min_offset_which_the_end_names(broker: FakeClient) -> None:
    broker.queues[2] = Bounds(6, 9)
    stream = reader(startingOffsets="latest")
    end = stream.latestOffset(IDLE, ALL)
    assert end == offset({0: 14, 1: 0, 2: 9}, {2: 6})
    assert planned(stream.partitions(IDLE, end)) == [[(2, 6, 9)]]


def test_the_limit_is_shared_among_queues(broker: FakeClient) -> None:
    broker.queues = {0: Bounds(0, 101), 1: Bounds(0, 11), 2: Bounds(0, 1)}
    stream = reader(maxOffsetsPerTrigger="10")
    first = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    second = stream.latestOffset(first, stream.getDefaultReadLimit())
    assert [first["offsets"], second["offsets"]] == [named({0: 8, 1: 1, 2: 1}), named({0: 17, 1: 2, 2: 1})]


def test_the_default_limit_is_the_option(broker: FakeClient) -> None:
    assert reader().getDefaultReadLimit() == ReadAllAvailable()
    assert reader(maxOffsetsPerTrigger="10").getDefaultReadLimit() == ReadMaxRows(10)


@pytest.mark.parametrize("option", ["minOffsetsPerTrigger", "maxBytesPerTrigger"])
def test_other_limits_are_told_from_everything(broker: FakeClient, option: str) -> None:
    assert reader(**{option: "10"}).getDefaultReadLimit() == ReadMaxRows(2**63 - 1)


def test_once_reads_beyond_the_limit(broker: FakeClient) -> None:
    stream = reader(maxOffsetsPerTrigger="1")
    assert stream.latestOffset(stream.initialOffset(), ALL)["offsets"] == named({0: 14, 1: 0})


def test_partitions_are_a_pure_function_of_their_arguments() -> None:
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 6})
    first, second = reader(), reader()
    assert planned(first.partitions(start, end)) == planned(first.partitions(start, end)) == [[(0, 3, 7)], [(1, 5, 6)]]
    assert planned(second.partitions(start, end)) == [[(0, 3, 7)], [(1, 5, 6)]]
    assert planned(reader(numPartitions="1").partitions(start, end)) == [[(0, 3, 7), (1, 5, 6)]]


def test_tasks_are_cut_after_allocation() -> None:
    start, end = offset({0: 3, 1: 5}), offset({0: 7, 1: 11})
    whole = {"numPartitions": "1"}
    assert planned(reader(**whole, maxRecordsPerPartition="6").partitions(start, end)) == [
        [(0, 3, 7), (1, 5, 6)],
        [(1, 6, 11)],
    ]
    assert planned(reader(**whole, minPartitions="3").partitions(start, end)) == [
        [(0, 3, 6)],
        [(0, 6, 7), (1, 5, 7)],
        [(1, 7, 11)],
    ]


ONLY_QUEUE_0 = {"allocateStrategy": "CONFIG", "messageQueueList": '[{"orders":{"a":[0]}}]'}


def test_queues_that_no_partition_gets_are_told_once_and_not_read(
    broker: FakeClient, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queues[1] = Bounds(0, 7)
    stream = reader(**ONLY_QUEUE_0)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end == offset({0: 14}, {0: 10})
    assert stream.latestOffset(end, ALL) == end
    assert planned(stream.partitions(stream.initialOffset(), end)) == [[(0, 10, 14)]]
    assert stream.reportLatestOffset() == {"offsets": named({0: 14}), "version": 1}
    assert caplog.messages == ["No task reads orders/a/1: allocateStrategy CONFIG leaves them out"]


def test_a_query_does_not_leave_a_queue_that_it_has_read(broker: FakeClient) -> None:
    with pytest.raises(OptionError, match=r"^The query reads orders/a/1 already, which allocateStrategy CONFIG gives"):
        reader(**ONLY_QUEUE_0).latestOffset(IDLE, ALL)


def test_tasks_know_for_which_topic_their_ranges_were_planned(broker: FakeClient) -> None:
    stream = reader()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    broker.creation_id = "second"
    [task] = stream.partitions(stream.initialOffset(), end)
    assert isinstance(task, QueueRangesPartition)
    assert task.creation_ids == {"orders": "first"}


def test_a_failed_first_batch_is_planned_again_from_the_logged_starts() -> None:
    restarted = reader(startingOffsets="latest")
    logged = offset({0: 14, 1: 0}, {0: 10, 1: 0})
    assert planned(restarted.partitions(restarted.initialOffset(), logged)) == [[(0, 10, 14)]]


def test_the_last_batch_is_committed_by_the_next_look(broker: FakeClient) -> None:
    stream = reader()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert broker.commits == []
    stream.latestOffset(end, ALL)
    stream.commit(end)
    assert broker.commits == [{0: 14, 1: 0}]


def test_the_first_look_after_a_restart_commits_too(broker: FakeClient) -> None:
    reader().latestOffset(IDLE, ALL)
    assert broker.commits == [{0: 14, 1: 0}]


def test_nothing_is_committed_to_a_topic_that_was_created_again(broker: FakeClient) -> None:
    broker.creation_id = "another"
    with pytest.raises(DataLoss):
        reader().latestOffset(IDLE, ALL)
    assert broker.commits == []


def test_without_a_group_nothing_is_committed(broker: FakeClient) -> None:
    given = {"endpoints": "127.0.0.1:8081", "topic": "orders"}
    stream = RmqpullStreamReader(SourceOptions.from_options(given), ROW_SCHEMA)
    stream.latestOffset(IDLE, ALL)
    stream.commit(IDLE)
    assert broker.commits == []


def test_the_end_as_last_seen_is_reported(broker: FakeClient) -> None:
    stream = reader()
    assert stream.reportLatestOffset() is None
    stream.latestOffset(stream.initialOffset(), ReadMaxRows(1))
    assert stream.reportLatestOffset() == {"offsets": named({0: 14, 1: 0}), "version": 1}


def test_an_unknown_topic_is_named_with_where_it_was_looked_for(broker: FakeClient) -> None:
    stream = reader(topic="order")
    with pytest.raises(OptionError, match=r"Topic order does not exist at 127\.0\.0\.1:8081\."):
        stream.latestOffset(stream.initialOffset(), ALL)


def test_a_topic_that_was_created_again_is_a_loss_also_with_a_higher_end(broker: FakeClient) -> None:
    broker.creation_id = "second"
    broker.queues[0] = Bounds(0, 99)
    with pytest.raises(DataLoss, match="Topic orders was deleted and created again"):
        reader().latestOffset(IDLE, ALL)


def test_a_queue_that_was_cut_is_a_loss(broker: FakeClient) -> None:
    broker.queues = {0: Bounds(0, 3), 1: Bounds(0, 0)}
    with pytest.raises(DataLoss, match="Queue orders/a/0 ends at offset 3, before offset 14"):
        reader().latestOffset(IDLE, ALL)


def test_an_absent_broker_stops_planning(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise BrokerUnavailable("nobody there")

    monkeypatch.setattr("pyspark_rmqpull.reading.stream_reader.connect", connect)
    with pytest.raises(BrokerUnavailable, match="nobody there"):
        reader().latestOffset(IDLE, ALL)


def test_a_wait_without_news_is_answered_without_a_second_look(broker: FakeClient) -> None:
    stream = reader()
    stream.latestOffset(IDLE, ALL)
    broker.calls.clear()
    assert stream.latestOffset(IDLE, ALL) == IDLE
    assert broker.calls == ["bounds", "wait"]


def test_a_wait_is_made_of_as_many_pulls_as_the_polling_time_allows(broker: FakeClient) -> None:
    stream = reader(idleWaitMs="1000", longPollingTimeoutMs="400")
    stream.latestOffset(IDLE, ALL)
    broker.calls.clear()
    assert stream.latestOffset(IDLE, ALL) == IDLE
    assert broker.calls == ["bounds", "wait", "wait", "wait"]


def test_news_end_a_wait_of_several_pulls(broker: FakeClient) -> None:
    stream = reader(idleWaitMs="1000", longPollingTimeoutMs="400")
    stream.latestOffset(IDLE, ALL)
    broker.calls.clear()
    broker.on_wait = lambda: broker.queues.update({1: Bounds(0, broker.calls.count("wait") // 2)})
    assert stream.latestOffset(IDLE, ALL) == offset({0: 14, 1: 1})
    assert broker.calls[:3] == ["bounds", "wait", "wait"]


def test_a_server_without_creation_ids_does_not_make_the_query_forget_them(broker: FakeClient) -> None:
    broker.creation_id = None
    broker.queues[0] = Bounds(0, 20)
    assert reader().latestOffset(IDLE, ALL)["creationIds"] == {"orders": "first"}


def test_a_filter_is_checked_once_and_before_anything_is_committed(broker: FakeClient) -> None:
    stream = reader(filterExpression="paid")
    end = stream.latestOffset(IDLE, ALL)
    stream.latestOffset(end, ALL)
    assert broker.calls[:3] == ["bounds", "check filter", "commit"]
    assert broker.calls.count("check filter") == 1


def test_no_filter_is_not_checked(broker: FakeClient) -> None:
    reader().latestOffset(IDLE, ALL)
    assert "check filter" not in broker.calls


def test_a_filter_that_the_broker_refuses_stops_planning(broker: FakeClient) -> None:
    broker.refused_expression = "size >"
    with pytest.raises(OptionError, match="filterExpression"):
        reader(filterExpression="size >", filterType="SQL92").latestOffset(IDLE, ALL)
    assert broker.commits == []
