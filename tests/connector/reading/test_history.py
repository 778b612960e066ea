"""What a query remembers of the messages that it has passed, when it compares them, and what it does then."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from pyspark_rmqpull.planning.offsets import QueueOffsets
from rmqpull_client.errors import DataLoss
from rmqpull_client.model import Bounds
from rmqpull_client.witness import Witness
from tests.harness.fake_broker_client import FakeBrokerClient, ManualClock
from tests.harness.stream_query import CAUGHT_UP, Json, StartQuery, offset, ranges_of

OLD = Witness(13, 12, "0c5f1d9ab27e", "columns")
"""The message at offset 13 of queue 0. The fake broker finds a message by its time at the offset of that number."""
NEW = OLD._replace(digest="ffffffffffff")


def write(*witnesses: Witness) -> Json:
    """The witnesses of queues 0, 1… in a checkpoint."""
    return {"orders": {"a": " ".join(":".join(map(str, (at, *found))) for at, found in enumerate(witnesses))}}


def read_witnesses(form: Json) -> dict[int, int]:
    """Returns the offset of each queue's witness."""
    return {queue.queue_id: found.offset for queue, found in QueueOffsets.from_json(form).witnesses.items()}


def passed(witness: Witness = OLD) -> Json:
    """The checkpoint of a query that has read queue 0 to offset 14."""
    return json.loads(json.dumps(CAUGHT_UP | {"witnesses": write(witness)}))  # type: ignore[no-any-return]


def grow(broker: FakeBrokerClient, end: int = 20) -> None:
    broker.queues[0] = Bounds(broker.queues[0].min_offset, end)


def test_a_micro_batch_records_the_message_before_its_end(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.messages[0, 13] = OLD
    query = start_query()
    assert query.plan()["witnesses"] == {"orders": {"a": "0:13:12:0c5f1d9ab27e:columns"}}
    assert broker.looked == [{0: 13}]  # queue 1 is empty
    assert list(query.end) == sorted(query.end)


def test_an_idle_query_asks_nothing_and_keeps_its_offset(broker: FakeBrokerClient, start_query: StartQuery) -> None:
    broker.messages[0, 13] = OLD
    query = start_query(passed())
    for _ in range(3):
        query.plan()
        assert query.is_idle
    assert broker.looked == []


def test_a_query_compares_when_it_starts_and_there_is_news_and_only_once(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.messages = {(0, 13): OLD, (0, 19): OLD._replace(offset=19), (0, 21): OLD._replace(offset=21)}
    query = start_query(passed())
    grow(broker, 20)
    query.plan()
    grow(broker, 22)
    query.plan()
    assert broker.looked == [{0: 13}, {0: 19}, {0: 21}]  # compared; renewed; renewed
    assert read_witnesses(query.end) == {0: 21}


def lose_connection(broker: FakeBrokerClient) -> None:
    broker.lost_connections = 1


def let_end_fall(broker: FakeBrokerClient) -> None:
    """The query sees the end fall, and later that the queue has grown past its offset."""
    grow(broker, 18)


def tell_nothing(broker: FakeBrokerClient) -> None:
    broker.lost_connections = None


@pytest.mark.parametrize("event", [lose_connection, let_end_fall, tell_nothing])
def test_a_running_query_compares_after_an_event(
    broker: FakeBrokerClient, start_query: StartQuery, event: Callable[[FakeBrokerClient], None]
) -> None:
    """Also where the client cannot say whether a connection was lost."""
    broker.messages = {(0, 13): OLD, (0, 15): OLD._replace(offset=15)}
    query = start_query(passed(), maxOffsetsPerTrigger="2")
    grow(broker, 20)
    query.plan()
    broker.looked.clear()
    broker.messages[0, 15] = NEW._replace(offset=15)
    event(broker)
    with pytest.raises(DataLoss, match="different message at offset 15"):
        query.plan()
    assert broker.looked == [{0: 15}]


def test_rewritten_history_ends_the_query_or_is_read_from_the_time_of_the_witness(
    broker: FakeBrokerClient, start_query: StartQuery, caplog: pytest.LogCaptureFixture
) -> None:
    broker.messages = {(0, 13): NEW, (0, 19): OLD._replace(offset=19)}
    grow(broker)
    with pytest.raises(DataLoss) as failed:
        start_query(passed()).plan()
    for part in (
        "Queue orders/a/0 has a different message at offset 13 from the one that the query has passed there: its "
        "history was rewritten. The data of broker a was restored from a backup",
        "the query then continues with the first message that was stored at 1970-01-01T00:00:00.012+00:00 or later",
        "may read some messages twice",
    ):
        assert part in str(failed.value)
    survivor = start_query(passed(), failOnDataLoss="false")
    survivor.plan()
    assert (survivor.tasks, survivor.starts) == ([[(0, 12, 20)]], {"orders": {"a": {"0": 12}}})
    assert survivor.end["witnesses"] == {"orders": {"a": "0:19:12:0c5f1d9ab27e:columns"}}
    assert (
        "Because failOnDataLoss is false, the query continues with the first message that was stored at" in caplog.text
    )
    survivor.plan()
    assert survivor.is_idle


@pytest.mark.parametrize(
    ("bounds", "there"),
    [
        pytest.param(Bounds(10, 20), OLD, id="the same message"),
        pytest.param(Bounds(10, 20), None, id="no message, as in a compaction topic"),
        pytest.param(Bounds(14, 20), NEW, id="the witness is below the minimum: retention"),
        pytest.param(Bounds(10, 20), NEW._replace(offset=15), id="a message of another offset"),
        pytest.param(Bounds(10, 20), NEW._replace(protocol="remoting"), id="seen by another protocol"),
    ],
)
def test_what_is_no_rewritten_history(
    broker: FakeBrokerClient, start_query: StartQuery, bounds: Bounds, there: Witness | None
) -> None:
    broker.queues[0] = bounds
    broker.messages[0, 13] = there
    broker.messages[0, 19] = OLD._replace(offset=19)
    query = start_query(passed())
    query.plan()
    assert query.offsets["orders"]["a"]["0"] == 20
    assert read_witnesses(query.end) == {0: 19}


def unfinished(*witnesses: Witness) -> Json:
    """The end of a micro-batch that an earlier run has planned behind offset 10, with the witnesses of queues 0, 1…"""
    return offset({0: 14, 1: 0}, {0: 10, 1: 0}) | {"witnesses": write(*witnesses)}


def test_an_unfinished_micro_batch_is_not_read_when_its_messages_are_others(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """Spark asks for its partitions when it starts the query again, and plans only then (rules 7.12)."""
    broker.messages[0, 13] = NEW
    query = start_query()
    for _ in range(2):  # a query that uses the source twice
        with pytest.raises(DataLoss) as failed:
            query.reader.partitions(query.end, unfinished(OLD))
    for part in (
        "Queue orders/a/0 has a different message at offset 13 from the one that the query has passed there",
        "was created again, after the query had planned a micro-batch that it has not finished.",
        "the query then reads this micro-batch as it was planned, and then continues with the first message that was "
        "stored at 1970-01-01T00:00:00.012+00:00 or later",
    ):
        assert part in str(failed.value)


def test_what_survives_a_loss_reads_an_unfinished_micro_batch_as_planned_and_then_what_is_new(
    broker: FakeBrokerClient, start_query: StartQuery, caplog: pytest.LogCaptureFixture
) -> None:
    broker.messages = {(0, 13): NEW, (0, 19): OLD._replace(offset=19)}
    grow(broker)
    query = start_query(unfinished(OLD), failOnDataLoss="false")
    assert ranges_of(query.reader.partitions({"version": 1}, query.end)) == [[(0, 10, 14)]]
    assert broker.looked == []
    query.plan()
    assert query.tasks == [[(0, 12, 20)]]
    assert "orders/a/0 has a different message at offset 13" in caplog.text


@pytest.mark.parametrize(
    "there", [pytest.param({(0, 13): OLD}, id="the same"), pytest.param({(0, 13): None}, id="none"), {}]
)
def test_an_unfinished_micro_batch_is_read_unless_its_messages_are_others(
    broker: FakeBrokerClient, start_query: StartQuery, there: dict[tuple[int, int], Witness | None]
) -> None:
    """Queues that it does not read are not asked, nor is anyone when Spark asks for nothing (rules 7.12)."""
    broker.messages = there
    end = unfinished(OLD, OLD)
    query = start_query(end)
    assert ranges_of(query.reader.partitions({"version": 1}, end)) == [[(0, 10, 14)]]
    query.reader.partitions(end, end)
    assert broker.looked == [{0: 13}]


def test_a_micro_batch_of_this_run_is_compared_when_the_next_one_is_planned(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.messages[0, 13] = OLD
    query = start_query()
    query.plan()
    broker.messages[0, 13] = NEW
    assert query.tasks == [[(0, 10, 14)]]
    assert broker.looked == [{0: 13}]


def test_a_queue_that_was_away_is_compared_when_it_comes_back(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    query = start_query(passed(), failOnDataLoss="false")
    broker.queues = {1: Bounds(0, 1)}
    query.plan()
    broker.queues = {0: Bounds(10, 20), 1: Bounds(0, 1)}
    broker.messages[0, 13] = NEW
    query.reader._history._asks_again_ms = 0
    query.plan()
    assert query.starts == {"orders": {"a": {"0": 12}}}


def test_without_an_answer_the_witness_stays_and_is_compared_later(
    broker: FakeBrokerClient, start_query: StartQuery, clock: ManualClock
) -> None:
    """Nobody, or only a slave, responds. The query reads on, and still compares when the broker is back."""
    query = start_query(passed())
    grow(broker, 20)
    query.plan()
    assert (query.offsets["orders"]["a"]["0"], query.end["witnesses"]) == (20, passed()["witnesses"])
    broker.messages[0, 13] = NEW
    grow(broker, 22)
    query.plan()  # too early to ask again
    clock.passed_ms += 1_000
    grow(broker, 24)
    with pytest.raises(DataLoss, match="different message at offset 13"):
        query.plan()


@pytest.mark.parametrize(
    ("end", "start"),
    [
        pytest.param(passed(OLD._replace(store_ms=11)), 11, id="the time of the witness"),
        pytest.param(passed(OLD._replace(store_ms=99)), 12, id="nothing is as new as the witness"),
        pytest.param(CAUGHT_UP, 10, id="no witness, as in a checkpoint of an earlier release"),
    ],
)
def test_a_queue_that_ends_below_the_offset_goes_on_where_new_messages_begin(
    broker: FakeBrokerClient, start_query: StartQuery, end: Json, start: int
) -> None:
    grow(broker, 12)
    query = start_query(end, failOnDataLoss="false")
    query.plan()
    assert query.starts == {"orders": {"a": {"0": start}}}
    assert query.offsets == {"orders": {"a": {"0": 12, "1": 0}}}
    query.plan()
    assert query.is_idle


def test_the_time_of_the_last_planning_takes_the_place_of_a_witness(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    """The query itself has planned it, and nobody has told the message. Nothing is that new here."""
    query = start_query(failOnDataLoss="false")
    query.plan()
    grow(broker, 12)
    query.plan()
    assert query.starts == {"orders": {"a": {"0": 12}}}


def test_queues_take_turns_where_one_look_may_not_take_them_all(
    broker: FakeBrokerClient, start_query: StartQuery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyspark_rmqpull.reading.history.PULLS_MAX", 2)
    broker.queues = {number: Bounds(0, 1) for number in range(5)}
    broker.messages = {(number, at): OLD._replace(offset=at) for number in range(5) for at in range(10)}
    query = start_query()
    for end in range(1, 6):
        broker.queues = {number: Bounds(0, end) for number in range(5)}
        query.plan()
    # The query has just started, so the second micro-batch also compares what the first one has recorded.
    assert [sorted(look) for look in broker.looked[:4]] == [[0, 1], [0, 1], [2, 3], [0, 4]]
    assert read_witnesses(query.end).keys() == {0, 1, 2, 3, 4}
    assert max(map(len, broker.looked)) == 2


def test_a_look_that_took_long_makes_the_next_ones_smaller(
    broker: FakeBrokerClient, start_query: StartQuery, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def look_at(group: str, offsets: dict[object, int]) -> dict[object, Witness | None]:
        looks.append(len(offsets))
        clock.passed_ms += len(offsets) // 10
        return {queue: OLD._replace(offset=at) for queue, at in offsets.items()}

    monkeypatch.setattr(broker, "look_at", look_at)
    broker.creation_id = None
    query = start_query()
    for end in range(1, 4):
        broker.queues = {number: Bounds(0, end) for number in range(100)}
        broker.lost_connections = 0
        query.plan()
    # All, and then as many as fit into 2 ms. The comparison of the second micro-batch takes all: the query has started.
    assert looks == [100, 100, 20, 20]


def test_after_a_look_that_took_no_time_the_next_one_grows_step_by_step(
    broker: FakeBrokerClient, start_query: StartQuery
) -> None:
    broker.messages = {(number, at): OLD._replace(offset=at) for number in range(100) for at in range(10)}
    query = start_query()
    for end in range(1, 5):
        broker.queues = {number: Bounds(0, end) for number in range(1 if end == 1 else 100)}
        query.plan()
    # The second micro-batch compares the witness of the first.
    assert [len(look) for look in broker.looked] == [1, 1, 2, 4, 8]
