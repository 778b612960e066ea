"""What the error says of failOnDataLoss=false is what a query with this option does, for each kind of loss."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rmqpull_client.errors import DataLoss
from rmqpull_client.model import Bounds
from tests.harness.fake_broker_client import FakeBrokerClient
from tests.harness.stream_query import CAUGHT_UP, StartQuery

Change = Callable[[FakeBrokerClient], None]


def expire(broker: FakeBrokerClient) -> None:
    """Queue 0 had [10, 14), and has only messages that the query has not seen."""
    broker.queues[0] = Bounds(17, 20)


def truncate(broker: FakeBrokerClient) -> None:
    broker.queues[0] = Bounds(10, 12)


def create_again_without_ids(broker: FakeBrokerClient) -> None:
    """As on a cluster: the new topic has messages that the query has never seen."""
    broker.queues = {0: Bounds(0, 6), 1: Bounds(0, 0)}
    broker.creation_id = None


def create_again_with_ids(broker: FakeBrokerClient) -> None:
    broker.queues = {0: Bounds(2, 6), 1: Bounds(0, 0)}
    broker.creation_id = "second"


def delete_queue(broker: FakeBrokerClient) -> None:
    broker.queues = {1: Bounds(0, 0)}


@pytest.mark.parametrize(
    ("change", "said", "start"),
    [
        (expire, "continues at offset 17, the earliest message that is left in the queue", 17),
        (truncate, "continues with the earliest message of the queue, and may read some messages twice", 10),
        (
            create_again_without_ids,
            "continues with the earliest message of the queue, and may read some messages twice",
            0,
        ),
        (create_again_with_ids, "continues with the earliest message of the new topic", 2),
        (delete_queue, "reads the other queues, and keeps offset 14 in case this one comes back", 14),
    ],
)
def test_a_query_continues_where_the_error_says(
    broker: FakeBrokerClient, start_query: StartQuery, change: Change, said: str, start: int
) -> None:
    change(broker)
    with pytest.raises(DataLoss) as failed:
        start_query(CAUGHT_UP).plan()
    assert f"failOnDataLoss to false (for a client's read: pass on_loss); the query then {said}" in str(failed.value)
    survivor = start_query(CAUGHT_UP, failOnDataLoss="false")
    survivor.plan()
    # Messages that come now show where the query continues.
    broker.queues = {0: Bounds(broker.queues.get(0, Bounds(10, 0)).min_offset, 30), 1: Bounds(0, 0)}

    tasks = [] if survivor.is_idle else survivor.tasks
    survivor.plan()

    assert min(entry[1] for task in [*tasks, *survivor.tasks] for entry in task if entry[0] == 0) == start


def test_the_log_says_the_same_as_the_error(
    broker: FakeBrokerClient, start_query: StartQuery, caplog: pytest.LogCaptureFixture
) -> None:
    truncate(broker)
    start_query(CAUGHT_UP, failOnDataLoss="false").plan()
    (line,) = caplog.messages
    assert re.search(
        r"Because failOnDataLoss is false, the query continues with the earliest message of the queue", line
    )


def test_available_now_ends_where_the_error_says(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    queries = [start_query(maxOffsetsPerTrigger="2", failOnDataLoss=fails) for fails in ("true", "false")]
    for query in queries:
        query.reader.prepareForTriggerAvailableNow()
        query.plan()
    broker.queues[0] = Bounds(10, 13)
    with pytest.raises(DataLoss, match="the query then reads the queue to its end, offset 13"):
        queries[0].plan()
    queries[1].plan()
    assert queries[1].tasks == [[(0, 12, 13)]]
