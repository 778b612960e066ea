"""The driver's side of a batch read against a broker that is a few dictionaries."""

from __future__ import annotations

from typing import Any

import pytest

from pyspark_rmqpull.options.declaration import Mode
from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.batch_reader import RmqpullBatchReader
from pyspark_rmqpull.reading.partition_reader import QueueRangesPartition
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.errors import DataLoss, OptionError
from rmqpull_client.model import MessageQueue
from tests.harness.fake_broker_client import FakeBrokerClient

NEEDED = {"endpoints": "127.0.0.1:8081", "topic": "orders"}


def planned(**options: str) -> Any:
    tasks = RmqpullBatchReader(SourceOptions.from_options(NEEDED | options, Mode.BATCH), ROW_SCHEMA).partitions()
    assert all(isinstance(task, QueueRangesPartition) and task.creation_ids == {"orders": "first"} for task in tasks)
    return [[(entry.queue.queue_id, *entry[1:]) for entry in task.ranges] for task in tasks]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("options", "tasks"),
    [
        ({}, [[(0, 10, 14)], [(1, 2, 5)]]),
        ({"numPartitions": "1"}, [[(0, 10, 14), (1, 2, 5)]]),
        ({"startingOffsets": '{"orders":{"a":{"0":12}}}'}, [[(0, 12, 14)], [(1, 2, 5)]]),
        ({"endingOffsets": '{"orders":{"a":{"0":12,"1":2}}}'}, [[(0, 10, 12)]]),
        ({"startingTimestamp": "1970-01-01T00:00:00.004Z", "endingTimestamp": "12"}, [[(0, 10, 12)], [(1, 4, 5)]]),
        ({"startingOffsets": "group", "consumerGroup": "g"}, [[(0, 13, 14)]]),
    ],
)
def test_a_batch_is_planned_as_numbers_from_one_look(
    broker: FakeBrokerClient, options: dict[str, str], tasks: list[list[tuple[int, int, int]]]
) -> None:
    """Acceptance cases 42, 43 and 45: words, numbers and times on either side."""
    broker.queues[1] = broker.queues[1]._replace(min_offset=2, max_offset=5)
    broker.group_offsets = {0: 13}
    assert planned(**options) == tasks
    assert broker.calls.count("bounds") == 1
    assert broker.offsets_set == []


@pytest.mark.parametrize(("group", "asks"), [({}, "rmqpull-spark-source"), ({"consumerGroup": "g"}, "g")])
def test_offsets_by_time_are_found_by_the_group_that_pulls(
    broker: FakeBrokerClient, group: dict[str, str], asks: str
) -> None:
    planned(startingTimestamp="4", endingTimestamp="12", startingOffsetsByTimestampStrategy="latest", **group)
    assert [call for call in broker.calls if call.startswith("find")] == [f"find offsets as {asks}"] * 2


def test_nothing_to_read_is_one_task_that_reads_nothing(broker: FakeBrokerClient) -> None:
    options = NEEDED | {"endingOffsets": '{"orders":{"a":{"0":10}}}'}
    tasks = RmqpullBatchReader(SourceOptions.from_options(options, Mode.BATCH), ROW_SCHEMA).partitions()
    assert tasks == [QueueRangesPartition(())]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"topic": "order"}, "Topic order does not exist"),
        (
            {"startingOffsets": '{"orders":{"a":{"0":12}}}', "endingTimestamp": "11"},
            "Queue orders/a/0 starts at offset",
        ),
        ({"startingTimestamp": "13", "endingOffsets": '{"orders":{"a":{"0":11}}}'}, "No offset matched .* orders/a/1"),
        ({"endingOffsets": '{"orders":{"a":{"7":11}}}'}, "Option endingOffsets names orders/a/7"),
    ],
)
def test_options_that_do_not_fit_the_topic_are_refused_when_the_read_is_planned(
    broker: FakeBrokerClient, options: dict[str, str], complaint: str
) -> None:
    with pytest.raises(OptionError, match=complaint):
        planned(**options)


def test_a_group_whose_messages_are_lost_ends_the_read(broker: FakeBrokerClient) -> None:
    broker.group_offsets = {0: 8}
    with pytest.raises(DataLoss, match="2 messages of queue orders/a/0 are lost"):
        planned(startingOffsets="group", consumerGroup="g")


def test_tasks_are_split_by_bytes(broker: FakeBrokerClient) -> None:
    broker.sizes = {MessageQueue("orders", "a", 0): [10, 10, 10, 10]}
    assert planned(maxBytesPerPartition="30") == [[(0, 10, 13)], [(0, 13, 14)]]
    assert broker.calls[:2] == ["abilities", "bounds"]


def test_a_server_without_sizes_is_refused_before_any_work(broker: FakeBrokerClient) -> None:
    broker.no_sizes = "no sizes"
    with pytest.raises(OptionError, match="no sizes"):
        planned(maxBytesPerPartition="30")
    assert broker.calls == ["abilities"]
