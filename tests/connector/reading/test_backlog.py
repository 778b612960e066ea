"""Topics that appear, disappear, expire and are created again while a query plans its batches."""

from __future__ import annotations

import pytest

from rmqpull_client.errors import DataLoss, OptionError, RequestRefused
from rmqpull_client.model import Bounds, MessageQueue, TopicBounds
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock
from tests.harness.stream_query import CAUGHT_UP, StartQuery, named, offset

QUEUE_0 = MessageQueue("orders", "a", 0)


def create_topic(broker: FakeBrokerClient, name: str, bounds: Bounds) -> None:
    broker.names.append(name)
    broker.other_topics[name] = TopicBounds(f"id of {name}", {MessageQueue(name, "b", 0): bounds}, {})


# --- which topics and queues a query reads ----------------------------------------------------------------------------


def test_several_topics_are_read_as_one(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    create_topic(broker, "sales", Bounds(1, 5))
    end = start_query(topic="orders,sales").plan()
    assert end["offsets"] == {**named({0: 14, 1: 0}), "sales": {"b": {"0": 5}}}
    assert end["creationIds"] == {"orders": "first", "sales": "id of sales"}


def test_a_later_topic_that_matches_is_read_from_its_start(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(topicPattern="(orders|sales).*", startingOffsets="latest")
    query.plan()
    create_topic(broker, "sales-2", Bounds(3, 5))
    create_topic(broker, "unsold", Bounds(0, 5))
    query.plan()
    assert query.offsets == {**named({0: 14, 1: 0}), "sales-2": {"b": {"0": 5}}}
    assert query.starts == {"sales-2": {"b": {"0": 3}}}


def test_a_pattern_may_match_nothing_at_first(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    """Acceptance case 21: the checkpoint never names no queue after it has named some."""
    query = start_query(topicPattern="sales", startingOffsets="latest")
    initial = query.end
    assert [query.plan(), query.plan()] == [initial, initial]
    create_topic(broker, "sales", Bounds(0, 5))
    query.plan()
    assert query.starts == {"sales": {"b": {"0": 0}}}


def test_a_query_waits_for_a_topic_that_does_not_exist_yet(
    broker: FakeBrokerClient, clock: ManualClock, start_query: StartQuery
) -> None:
    clock.on_sleep = lambda: create_topic(broker, "sales", Bounds(0, 3))
    assert start_query(topic="sales", waitForTopic="5m").plan()["offsets"] == {"sales": {"b": {"0": 3}}}
    assert broker.calls == ["bounds", "bounds"]


def test_a_query_waits_for_a_queue_that_does_not_exist_yet(
    broker: FakeBrokerClient, clock: ManualClock, start_query: StartQuery
) -> None:
    clock.on_sleep = lambda: broker.queues.update({7: Bounds(0, 3)})
    query = start_query(assign='{"orders":{"a":[7]}}', waitForTopic="5m")
    assert query.plan()["offsets"] == named({7: 3})


def test_only_assigned_queues_are_read(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(assign='{"orders":{"a":[1]}}')
    query.plan()
    broker.queues = {0: Bounds(10, 20), 1: Bounds(0, 2), 2: Bounds(0, 9)}
    assert query.plan()["offsets"] == named({1: 2})


@pytest.mark.parametrize("assigned", ['{"orders":{"a":[1,7]}}', '{"orders":{"a":[1],"b":[7]}}'])
def test_an_assigned_queue_that_does_not_exist_is_named(start_query: StartQuery, assigned: str) -> None:
    """Acceptance case 61, and better: Kafka's source skips it."""
    with pytest.raises(OptionError, match=r"names orders/./7, which does not exist. There are orders/a/0, orders/a/1"):
        start_query(assign=assigned).plan()


def test_queues_that_changed_options_leave_out_keep_their_offsets(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    create_topic(broker, "sales", Bounds(0, 5))
    both = start_query(topic="orders,sales")
    both.plan()
    create_topic(broker, "sales", Bounds(0, 9))
    broker.queues[1] = Bounds(0, 1)
    fewer = start_query(both.end, topic="orders")
    assert fewer.plan()["offsets"] == {**named({0: 14, 1: 1}), "sales": {"b": {"0": 5}}}
    assert fewer.tasks == [[(1, 0, 1)]]
    both_again = start_query(fewer.end, topic="orders,sales")
    assert both_again.plan()["offsets"]["sales"] == {"b": {"0": 9}}


ONLY_QUEUE_0 = {"allocateStrategy": "CONFIG", "messageQueueList": '[{"orders":{"a":[0]}}]'}


def test_queues_without_a_task_are_named_once_and_not_read(
    broker: FakeBrokerClient, start_query: StartQuery, caplog: pytest.LogCaptureFixture
) -> None:
    broker.queues[1] = Bounds(0, 7)
    query = start_query(**ONLY_QUEUE_0)
    query.plan()
    assert (query.offsets, query.starts) == (named({0: 14}), named({0: 10}))
    assert query.tasks == [[(0, 10, 14)]]
    query.plan()
    assert query.is_idle
    assert query.reader.reportLatestOffset() == {"offsets": named({0: 14}), "version": 1}
    assert caplog.messages == ["No task reads orders/a/1: allocateStrategy CONFIG leaves them out"]


def test_a_query_does_not_leave_a_queue_that_it_has_read(start_query: StartQuery) -> None:
    with pytest.raises(
        OptionError, match=r"^The query already reads orders/a/1, but allocateStrategy CONFIG no longer gives"
    ):
        start_query(CAUGHT_UP, **ONLY_QUEUE_0).plan()


# --- losses that end the query ----------------------------------------------------------------------------------------


def test_a_matching_topic_that_disappears_is_a_loss(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    create_topic(broker, "sales", Bounds(0, 5))
    query = start_query(topicPattern=".*s")
    query.plan()
    broker.names.remove("sales")
    with pytest.raises(DataLoss, match="Queue sales/b/0 no longer exists: its messages from offset 5"):
        query.plan()


def test_a_named_topic_that_disappears_is_a_loss_once_it_was_read(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    create_topic(broker, "sales", Bounds(0, 5))
    query = start_query(topic="orders,sales")
    query.plan()
    del broker.other_topics["sales"]
    with pytest.raises(DataLoss, match="Queue sales/b/0 no longer exists"):
        query.plan()


def test_a_topic_that_was_created_again_is_a_loss_even_with_a_higher_end(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.creation_id = "second"
    broker.queues[0] = Bounds(0, 99)
    with pytest.raises(DataLoss, match="Topic orders was deleted and created again"):
        start_query(CAUGHT_UP, consumerGroup="g").plan()
    assert broker.offsets_set == []


def test_a_queue_that_ends_earlier_than_before_is_a_loss(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues = {0: Bounds(0, 3), 1: Bounds(0, 0)}
    with pytest.raises(DataLoss, match="Queue orders/a/0 ends at offset 3, before offset 14"):
        start_query(CAUGHT_UP).plan()


def test_available_now_fails_when_messages_that_it_planned_to_read_are_lost(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """Acceptance cases 12 and 13: a queue vanishes between batches, or ends before its planned end."""
    query = start_query(maxOffsetsPerTrigger="2")
    query.reader.prepareForTriggerAvailableNow()
    query.plan()
    broker.queues[0] = Bounds(10, 13)
    with pytest.raises(
        DataLoss, match=r"1 messages of queue orders/a/0 are lost: .* to offset 14, but it now ends at 13"
    ):
        query.plan()
    del broker.queues[0]
    with pytest.raises(DataLoss, match="Queue orders/a/0 no longer exists"):
        query.plan()


# --- losses that the query survives -----------------------------------------------------------------------------------


def test_the_query_continues_with_the_earliest_message_and_records_where(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(failOnDataLoss="false")
    query_id = query.plan()["queryId"]
    broker.queues[0] = Bounds(17, 20)
    assert query.plan()["queryId"] == query_id
    assert (query.offsets, query.starts) == (named({0: 20, 1: 0}), named({0: 17}))
    assert query.tasks == [[(0, 17, 20)]]
    query.plan()
    assert broker.lost == [(query_id, QUEUE_0, 14, 17)]


def test_a_restarted_query_reports_under_the_same_id(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.queues[0] = Bounds(17, 20)
    start_query(CAUGHT_UP | {"queryId": "mine"}, failOnDataLoss="false").plan()
    assert [query_id for query_id, *_ in broker.lost] == ["mine"]


def test_a_query_that_a_loss_ends_forgets_the_id_under_which_it_reported_losses(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.queues[0] = Bounds(10, 15)
    assert start_query(CAUGHT_UP | {"queryId": "mine"}).plan() == offset({0: 15, 1: 0})


def test_a_queue_that_disappears_and_returns_gives_no_row_twice(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(failOnDataLoss="false")
    query.plan()
    broker.queues = {1: Bounds(0, 3)}
    assert query.plan()["offsets"] == named({0: 14, 1: 3})
    broker.queues = {0: Bounds(10, 15), 1: Bounds(0, 3)}
    query.plan()
    assert query.tasks == [[(0, 14, 15)]]


def test_unread_messages_of_a_queue_that_disappears_are_lost(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    query = start_query(failOnDataLoss="false", maxOffsetsPerTrigger="3")
    query_id = query.plan()["queryId"]
    broker.queues = {1: Bounds(0, 3)}
    query.plan()
    assert broker.lost == [(query_id, QUEUE_0, 13, 14)]


def test_when_the_last_topic_disappears_the_checkpoint_keeps_its_queues(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """Acceptance case 21."""
    query = start_query(failOnDataLoss="false")
    before = query.plan()
    broker.queues = {}
    assert query.plan() == before


def test_when_another_topic_replaces_the_last_one_the_checkpoint_has_both(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """Acceptance case 21: a batch runs, and its end still names the queues that are gone."""
    query = start_query(topicPattern="orders|sales", failOnDataLoss="false")
    query.plan()
    broker.names.clear()
    create_topic(broker, "sales", Bounds(3, 5))
    query.plan()
    assert query.offsets == {**named({0: 14, 1: 0}), "sales": {"b": {"0": 5}}}
    broker.names.append("orders")
    broker.queues[0] = Bounds(10, 15)
    query.plan()
    assert query.tasks == [[(0, 14, 15)]]


@pytest.mark.parametrize("end", [99, 14], ids=["another end", "the very same end"])
def test_a_topic_that_was_created_again_is_read_from_its_start(
    broker: FakeBrokerClient, start_query: StartQuery, end: int
) -> None:
    query = start_query(failOnDataLoss="false")
    query.plan()
    broker.creation_id, broker.queues = "second", {0: Bounds(0, end)}
    assert query.plan()["creationIds"] == {"orders": "second"}
    assert query.starts == named({0: 0, 1: 0})
    assert query.tasks == [[(0, 0, end)]]
    query.plan()
    assert query.is_idle


def test_a_new_group_may_start_with_the_messages_of_the_last_half_hour(start_query: StartQuery) -> None:
    """The messages of the fake broker are from 1970."""
    where = {"startingOffsets": "group", "consumerGroup": "g", "consumeFromWhere": "CONSUME_FROM_TIMESTAMP"}
    query = start_query(**where)
    query.plan()
    assert query.starts == named({0: 14, 1: 0})


@pytest.mark.parametrize(("stored", "start"), [(3, 10), (99, 14)])
def test_a_group_whose_messages_are_lost_starts_with_the_nearest(
    broker: FakeBrokerClient, start_query: StartQuery, stored: int, start: int
) -> None:
    broker.group_offsets = {0: stored, 1: 0}
    query = start_query(failOnDataLoss="false", startingOffsets="group", consumerGroup="g")
    query_id = query.plan()["queryId"]
    assert query.starts == named({0: start, 1: 0})
    assert broker.lost == ([(query_id, QUEUE_0, 3, 10)] if stored < start else [])


@pytest.mark.parametrize(("may_lose", "told"), [("false", {"rowsLost": None}), ("true", {})])
def test_a_server_that_counts_no_lost_rows_is_told_from_one_without_losses(
    broker: FakeBrokerClient, start_query: StartQuery, may_lose: str, told: dict[str, None]
) -> None:
    broker.other_topics["sales"] = TopicBounds(None, {MessageQueue("sales", "b", 0): Bounds(0, 5)}, None)
    query = start_query(topic="sales", failOnDataLoss=may_lose)
    query.plan()
    ends: dict[str, object] = {"offsets": {"sales": {"b": {"0": 5}}}, "version": 1}
    assert query.reader.reportLatestOffset() == ends | told


def test_lost_rows_are_reported_with_the_ends(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    queue = MessageQueue("sales", "b", 0)
    broker.other_topics["sales"] = TopicBounds(None, {queue: Bounds(0, 5)}, {queue: 2})
    query = start_query(topic="sales", failOnDataLoss="false")
    query.plan()
    assert query.reader.reportLatestOffset() == {
        "offsets": {"sales": {"b": {"0": 5}}},
        "rowsLost": {"sales": {"b": {"0": 2}}},
        "version": 1,
    }


def test_a_query_goes_on_without_a_loss_when_the_permission_to_read_is_back(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    mine, other = MessageQueue("sales", "a", 0), MessageQueue("sales", "b", 0)
    allowed = TopicBounds("sales", {mine: Bounds(0, 5), other: Bounds(0, 7)}, {})
    broker.other_topics["sales"] = allowed
    query = start_query(topic="sales", failOnDataLoss="false")
    query.plan()
    broker.other_topics["sales"] = TopicBounds("sales", {mine: Bounds(0, 6)}, {}, unreadable=[other])
    for _ in range(2):
        with pytest.raises(RequestRefused, match="does not allow reading topic sales on broker b "):
            query.plan()
    broker.other_topics["sales"] = allowed
    assert query.plan()["offsets"] == {"sales": {"a": {"0": 5}, "b": {"0": 7}}}
    assert broker.lost == []
