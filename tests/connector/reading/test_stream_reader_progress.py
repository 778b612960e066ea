"""A query sets the consumer offsets of its group to the end of the last finished batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rmqpull_client.errors import OptionError
from rmqpull_client.model import Bounds
from tests.harness.fake_broker_client import FakeBrokerClient
from tests.harness.stream_query import CAUGHT_UP, StartQuery, offset


def test_the_next_planning_sets_the_offsets_of_the_last_batch(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(consumerGroup="g")
    end = query.plan()
    assert broker.offsets_set == []
    query.plan()
    query.reader.commit(end)
    assert broker.offsets_set == [{0: 14, 1: 0}]


def test_the_first_planning_after_a_restart_sets_offsets_too(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    start_query(CAUGHT_UP, consumerGroup="g").plan()
    assert broker.offsets_set == [{0: 14, 1: 0}]


@pytest.mark.parametrize("options", [{}, {"consumerGroup": "g", "commitOffsets": "false"}])
def test_without_a_group_or_with_commit_offsets_false_nothing_is_set(
    broker: FakeBrokerClient, start_query: StartQuery, options: dict[str, str]
) -> None:
    query = start_query(CAUGHT_UP, **options)
    query.plan()
    query.reader.commit(CAUGHT_UP)
    assert broker.offsets_set == []


def test_only_offsets_of_queues_that_exist_are_set(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(CAUGHT_UP, failOnDataLoss="false", consumerGroup="g")
    broker.queues = {1: Bounds(0, 3)}
    query.plan()
    assert broker.offsets_set == [{1: 0}]


def test_the_offset_of_a_new_queue_is_set_when_a_batch_has_read_it(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(CAUGHT_UP, consumerGroup="g")
    broker.queues[2] = Bounds(5, 9)
    query.plan()
    query.plan()
    assert broker.offsets_set == [{0: 14, 1: 0}, {0: 14, 1: 0, 2: 9}]


def test_a_topic_that_was_created_again_does_not_get_the_offsets_of_the_earlier_one(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """Spark calls ``commit`` for a batch when it has planned the next one."""
    query = start_query(CAUGHT_UP, failOnDataLoss="false", consumerGroup="g")
    broker.creation_id, broker.queues = "second", {0: Bounds(0, 99)}
    query.plan()
    query.reader.commit(CAUGHT_UP)
    assert broker.offsets_set == [{0: 0}]


BROADCASTING = {"messageModel": "BROADCASTING", "clientId": "me", "startingOffsets": "group", "consumerGroup": "g"}


def test_a_broadcasting_group_keeps_its_offsets_in_its_file_and_not_on_the_broker(
    broker: FakeBrokerClient, start_query: StartQuery, tmp_path: Path
) -> None:
    options = BROADCASTING | {"localOffsetStoreDir": str(tmp_path)}
    broker.group_offsets = {0: 11}
    query = start_query(**options, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET")
    assert query.plan() == offset({0: 14, 1: 0}, {0: 10, 1: 0})  # there is no file yet
    query.plan()
    broker.queues[0] = Bounds(10, 20)
    new_query = start_query(**options)
    assert new_query.plan() == offset({0: 20, 1: 0}, {0: 14, 1: 0})
    assert (tmp_path / "me" / "g" / "offsets.json").exists()
    assert {"set offsets", "get offsets"}.isdisjoint(broker.calls)


def test_a_damaged_file_stops_a_query_that_starts_from_it_and_no_other(start_query: StartQuery, tmp_path: Path) -> None:
    options = BROADCASTING | {"localOffsetStoreDir": str(tmp_path)}
    path = tmp_path / "me" / "g" / "offsets.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    with pytest.raises(OptionError, match="The consumer offsets cannot be read"):
        start_query(**options).plan()
    assert start_query(CAUGHT_UP, **options).plan() == CAUGHT_UP


@pytest.fixture
def timeouts_ms(broker: FakeBrokerClient, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The timeout of each request that sets offsets."""
    timeouts_ms: list[int] = []

    class Timed:
        def __init__(self, timeout_ms: int) -> None:
            self.timeout_ms = timeout_ms

        def __getattr__(self, name: str) -> Any:
            if name == "set_consumer_offsets":
                timeouts_ms.append(self.timeout_ms)
            return getattr(broker, name)

    monkeypatch.setattr(
        "pyspark_rmqpull.reading.stream_reader.connect", lambda connection, _: Timed(connection.request_timeout_ms)
    )
    return timeouts_ms


def test_the_last_request_of_available_now_may_take_as_long_as_any_request(
    broker: FakeBrokerClient, start_query: StartQuery, timeouts_ms: list[int]
) -> None:
    query = start_query(requestTimeoutMs="7000", maxOffsetsPerTrigger="3", consumerGroup="g")
    query.reader.prepareForTriggerAvailableNow()
    query.plan()
    broker.queues[0] = Bounds(10, 99)  # later messages are for the next run
    query.plan()
    query.plan()
    assert timeouts_ms == [2000, 7000]


def test_a_query_without_end_never_waits_so_long(start_query: StartQuery, timeouts_ms: list[int]) -> None:
    start_query(CAUGHT_UP, requestTimeoutMs="7000", consumerGroup="g").plan()
    assert timeouts_ms == [2000]
