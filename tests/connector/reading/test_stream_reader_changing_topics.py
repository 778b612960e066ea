"""Topics that come, go, age and are created again while a query plans its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyspark_rmqpull.options.source import SourceOptions
from pyspark_rmqpull.reading.stream_reader import RmqpullStreamReader
from pyspark_rmqpull.schema import ROW_SCHEMA
from rmqpull_client.errors import DataLoss, OptionError
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds
from tests.connector.reading.test_stream_reader import ALL, IDLE, LIMITED, named, planned, reader

if TYPE_CHECKING:
    from tests.connector.conftest import FakeClient


def selecting(**options: str) -> RmqpullStreamReader:
    given = {"endpoints": "127.0.0.1:8081", "startingOffsets": "latest"}
    return RmqpullStreamReader(SourceOptions.from_options(given | options), ROW_SCHEMA)


def other_topic(broker: FakeClient, name: str, bounds: Bounds) -> None:
    broker.names.append(name)
    broker.other_topics[name] = TopicBounds(f"id of {name}", {MessageQueue(name, "b", 0): bounds})


def test_several_topics_are_read_as_one(broker: FakeClient) -> None:
    other_topic(broker, "sales", Bounds(1, 5))
    stream = selecting(topic="orders,sales", startingOffsets="earliest")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert end["offsets"] == {**named({0: 14, 1: 0}), "sales": {"b": {"0": 5}}}
    assert end["creationIds"] == {"orders": "first", "sales": "id of sales"}


def test_a_topic_that_comes_later_and_matches_is_read_from_its_begin(broker: FakeClient) -> None:
    stream = selecting(topicPattern="(orders|sales).*")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    other_topic(broker, "sales-2", Bounds(3, 5))
    other_topic(broker, "unsold", Bounds(0, 5))
    second = stream.latestOffset(first, ALL)
    assert second["offsets"] == {**named({0: 14, 1: 0}), "sales-2": {"b": {"0": 5}}}
    assert second["starts"] == {"sales-2": {"b": {"0": 3}}}


def test_a_pattern_may_match_nothing_at_first(broker: FakeClient) -> None:
    """Acceptance case 21: what is written down never names no queue after it named some."""
    stream = selecting(topicPattern="sales", idleWaitMs="1")
    initial = stream.initialOffset()
    assert [stream.latestOffset(initial, ALL), stream.latestOffset(initial, ALL)] == [initial, initial]
    other_topic(broker, "sales", Bounds(0, 5))
    assert stream.latestOffset(initial, ALL)["starts"] == {"sales": {"b": {"0": 0}}}


def test_a_matching_topic_that_is_gone_is_a_loss(broker: FakeClient) -> None:
    other_topic(broker, "sales", Bounds(0, 5))
    stream = selecting(topicPattern=".*s")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    broker.names.remove("sales")
    with pytest.raises(DataLoss, match="Queue sales/b/0 is gone; the query stood at offset 5"):
        stream.latestOffset(end, ALL)


def test_a_named_topic_that_is_gone_is_a_loss_once_it_was_read(broker: FakeClient) -> None:
    other_topic(broker, "sales", Bounds(0, 5))
    stream = selecting(topic="orders,sales")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    del broker.other_topics["sales"]
    with pytest.raises(DataLoss, match="Queue sales/b/0 is gone"):
        stream.latestOffset(end, ALL)


def test_assigned_queues_are_all_that_is_read(broker: FakeClient) -> None:
    stream = selecting(assign='{"orders":{"a":[1]}}')
    end = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues = {0: Bounds(10, 20), 1: Bounds(0, 2), 2: Bounds(0, 9)}
    assert stream.latestOffset(end, ALL)["offsets"] == named({1: 2})


@pytest.mark.parametrize("assigned", ['{"orders":{"a":[1,7]}}', '{"orders":{"a":[1],"b":[7]}}'])
def test_an_assigned_queue_that_does_not_exist_is_named(broker: FakeClient, assigned: str) -> None:
    """Acceptance case 61, and better: Kafka's source skips it."""
    stream = selecting(assign=assigned)
    with pytest.raises(OptionError, match=r"names orders/./7, which does not exist. There are orders/a/0, orders/a/1"):
        stream.latestOffset(stream.initialOffset(), ALL)


def test_queues_that_options_leave_out_later_stay_where_they_are(broker: FakeClient) -> None:
    other_topic(broker, "sales", Bounds(0, 5))
    both = selecting(topic="orders,sales")
    end = both.latestOffset(both.initialOffset(), ALL)
    other_topic(broker, "sales", Bounds(0, 9))
    broker.queues[1] = Bounds(0, 1)
    fewer = selecting(topic="orders")
    second = fewer.latestOffset(end, ALL)
    assert second["offsets"] == {**named({0: 14, 1: 1}), "sales": {"b": {"0": 5}}}
    assert planned(fewer.partitions(end, second)) == [[(1, 0, 1)]]
    assert selecting(topic="orders,sales").latestOffset(second, ALL)["offsets"]["sales"] == {"b": {"0": 9}}


def test_a_query_that_may_lose_goes_on_from_the_earliest_and_writes_down_where(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues[0] = Bounds(17, 20)
    second = stream.latestOffset(first, ALL)
    assert (second["offsets"], second["starts"]) == (named({0: 20, 1: 0}), named({0: 17}))
    assert planned(stream.partitions(first, second)) == [[(0, 17, 20)]]
    assert second["queryId"] == first["queryId"]
    stream.latestOffset(second, ALL)
    assert broker.lost == [(first["queryId"], MessageQueue("orders", "a", 0), 14, 17)]


def test_a_restart_reports_under_the_same_name(broker: FakeClient) -> None:
    broker.queues[0] = Bounds(17, 20)
    reader(failOnDataLoss="false").latestOffset(IDLE | {"queryId": "mine"}, ALL)
    assert [query_id for query_id, *_ in broker.lost] == ["mine"]


def test_a_queue_that_was_gone_and_comes_back_gives_no_row_twice(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues = {1: Bounds(0, 3)}
    second = stream.latestOffset(first, ALL)
    assert second["offsets"] == named({0: 14, 1: 3})
    broker.queues = {0: Bounds(10, 15), 1: Bounds(0, 3)}
    third = stream.latestOffset(second, ALL)
    assert planned(stream.partitions(second, third)) == [[(0, 14, 15)]]


def test_what_was_to_be_read_of_a_queue_that_is_gone_is_lost(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false", maxOffsetsPerTrigger="3")
    first = stream.latestOffset(stream.initialOffset(), LIMITED)
    broker.queues = {1: Bounds(0, 3)}
    stream.latestOffset(first, LIMITED)
    assert broker.lost == [(first["queryId"], MessageQueue("orders", "a", 0), 13, 14)]


def test_the_last_topic_that_vanishes_leaves_its_queues_in_the_checkpoint(broker: FakeClient) -> None:
    """Acceptance case 21."""
    stream = reader(failOnDataLoss="false", idleWaitMs="1")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues = {}
    assert stream.latestOffset(first, ALL) == first


def test_a_topic_that_was_created_again_is_read_from_its_begin(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.creation_id, broker.queues = "second", {0: Bounds(0, 99)}
    second = stream.latestOffset(first, ALL)
    assert (second["creationIds"], second["starts"]) == ({"orders": "second"}, named({0: 0, 1: 0}))
    assert planned(stream.partitions(first, second)) == [[(0, 0, 99)]]


def test_only_queues_that_exist_are_committed(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    end = stream.latestOffset(stream.initialOffset(), ALL)
    broker.queues = {1: Bounds(0, 3)}
    stream.latestOffset(end, ALL)
    assert broker.commits == [{1: 0}]


def test_a_topic_that_was_created_again_does_not_get_the_old_one_s_offsets(broker: FakeClient) -> None:
    """Spark tells of the end of a batch when it has planned the next one."""
    stream = reader(failOnDataLoss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.creation_id, broker.queues = "second", {0: Bounds(0, 99)}
    stream.latestOffset(first, ALL)
    stream.commit(first)
    assert broker.commits == [{0: 0}]


def test_a_filter_is_checked_on_a_queue_that_is_there(broker: FakeClient) -> None:
    before = reader()
    first = before.latestOffset(before.initialOffset(), ALL)
    broker.queues = {1: Bounds(0, 3)}
    reader(failOnDataLoss="false", filterExpression="paid").latestOffset(first, ALL)
    assert broker.checked == [(1, 0)]


@pytest.mark.parametrize(("stored", "begin"), [(3, 10), (99, 14)])
def test_a_group_that_may_lose_begins_with_what_is_left(broker: FakeClient, stored: int, begin: int) -> None:
    broker.group_offsets = {0: stored, 1: 0}
    stream = reader(failOnDataLoss="false", startingOffsets="group")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    assert first["starts"] == named({0: begin, 1: 0})
    lost = [(first["queryId"], MessageQueue("orders", "a", 0), 3, 10)]
    assert broker.lost == (lost if stored < begin else [])


def test_rows_lost_are_reported_with_the_end(broker: FakeClient) -> None:
    queue = MessageQueue("sales", "b", 0)
    broker.other_topics["sales"] = TopicBounds(None, {queue: Bounds(0, 5)}, {queue: 2})
    stream = reader(topic="sales", failOnDataLoss="false")
    stream.latestOffset(stream.initialOffset(), ALL)
    assert stream.reportLatestOffset() == {
        "offsets": {"sales": {"b": {"0": 5}}},
        "rowsLost": {"sales": {"b": {"0": 2}}},
        "version": 1,
    }


def test_a_topic_that_was_created_again_with_the_very_same_end_is_read(broker: FakeClient) -> None:
    stream = reader(failOnDataLoss="false")
    first = stream.latestOffset(stream.initialOffset(), ALL)
    broker.creation_id, broker.queues = "second", {0: Bounds(0, 14), 1: Bounds(0, 0)}
    second = stream.latestOffset(first, ALL)
    assert planned(stream.partitions(first, second)) == [[(0, 0, 14)]]
    assert stream.latestOffset(second, ALL) == second
