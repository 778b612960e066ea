"""Parked pulls (rocketmq-semantics 3.4), with the time as a number."""

import pyarrow as pa
import pytest

from rmqpull_broker.core import holding
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filtering import EVERYTHING, TagFilter
from rmqpull_broker.core.holding import Holding, ParkedPull
from rmqpull_broker.core.model import MessageQueue

FIRST, SECOND = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2))
NOW_MS = 0


def tagged(tag: str) -> TagFilter:
    return TagFilter(frozenset({tag}))


def arrivals(*tags: str | None) -> pa.RecordBatch:
    return pa.record_batch({"tags": pa.array(tags, pa.string())})


def test_an_arrival_wakes_those_that_wait_for_its_queue_and_tag() -> None:
    parked = Holding()
    everything = parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS)
    reds = parked.park(ParkedPull([FIRST], tagged("red"), 100), NOW_MS)
    parked.park(ParkedPull([FIRST], tagged("blue"), 100), NOW_MS)
    parked.park(ParkedPull([SECOND], EVERYTHING, 100), NOW_MS)
    assert parked.arrived(FIRST, arrivals("green", "red", None), NOW_MS) == [everything, reds]


def test_an_arrival_that_matches_nothing_wakes_nobody() -> None:
    parked = Holding()
    parked.park(ParkedPull([FIRST], tagged("red"), 100), NOW_MS)
    assert parked.arrived(FIRST, arrivals("green", None), NOW_MS) == []
    assert parked.arrived(SECOND, arrivals("red"), NOW_MS) == []
    assert len(parked) == 1


def test_one_pull_waits_for_many_queues() -> None:
    parked = Holding()
    ticket = parked.park(ParkedPull([FIRST, SECOND], EVERYTHING, 100), NOW_MS)
    assert parked.arrived(SECOND, arrivals("red"), NOW_MS) == parked.arrived(FIRST, arrivals("red"), NOW_MS) == [ticket]


def test_the_same_pull_may_wait_twice() -> None:
    parked = Holding()
    pull = ParkedPull([FIRST], EVERYTHING, 100)
    tickets = [parked.park(pull, NOW_MS), parked.park(pull, NOW_MS)]
    assert parked.arrived(FIRST, arrivals("red"), NOW_MS) == parked.all() == tickets


def test_a_pull_expires_when_its_deadline_is_reached_and_not_before() -> None:
    parked = Holding()
    late = parked.park(ParkedPull([FIRST], EVERYTHING, 200), NOW_MS)
    soon = parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS)
    assert parked.next_due_ms() == 100
    assert parked.due(99) == []
    assert parked.due(100) == [soon]
    assert parked.next_due_ms() == 200
    assert parked.due(1_000) == [late]


def test_a_removed_pull_is_neither_woken_nor_expired() -> None:
    parked = Holding()
    gone = parked.park(ParkedPull([FIRST, SECOND], EVERYTHING, 100), NOW_MS)
    stays = parked.park(ParkedPull([SECOND], EVERYTHING, 100), NOW_MS)
    parked.remove(gone)
    parked.remove(gone)
    assert not parked.waits_for(FIRST)
    assert parked.arrived(FIRST, arrivals("red"), NOW_MS) == []
    assert parked.arrived(SECOND, arrivals("red"), NOW_MS) == [stays]
    assert parked.due(100) == [stays]


def test_there_is_no_deadline_while_nothing_waits() -> None:
    parked = Holding()
    assert parked.next_due_ms() is None
    parked.remove(parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS))
    assert len(parked) == 0
    assert parked.next_due_ms() is None


def test_a_pull_that_names_a_queue_twice_is_removed_like_any_other() -> None:
    parked = Holding()
    ticket = parked.park(ParkedPull([FIRST, FIRST], EVERYTHING, 100), NOW_MS)
    assert parked.arrived(FIRST, arrivals("red"), NOW_MS) == [ticket]
    parked.remove(ticket)
    assert not parked.waits_for(FIRST)


def test_answered_pulls_leave_no_trace_however_many_there_were() -> None:
    parked = Holding()
    stays = parked.park(ParkedPull([FIRST], EVERYTHING, 500), NOW_MS)
    for _ in range(1_000):
        parked.remove(parked.park(ParkedPull([FIRST], EVERYTHING, 1_000_000), NOW_MS))
    assert len(parked._deadlines) < 100
    assert parked.all() == parked.due(500) == [stays]


def test_deadlines_keep_their_order_when_most_pulls_are_answered() -> None:
    parked = Holding()
    deadlines = {
        parked.park(ParkedPull([FIRST], EVERYTHING, turn * 7_919 % 1_000), NOW_MS): turn * 7_919 % 1_000
        for turn in range(500)
    }
    for ticket in range(400):
        parked.remove(ticket)
    for now_ms in range(1_000):
        assert parked.due(now_ms) == [t for t in range(400, 500) if deadlines[t] == now_ms]


def test_too_many_parked_pulls_are_refused_until_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holding, "PARKED_PULLS_MAX", 2)
    parked = Holding()
    pull = ParkedPull([FIRST], EVERYTHING, 100)
    tickets = [parked.park(pull, NOW_MS), parked.park(pull, NOW_MS)]
    with pytest.raises(TooManyRequests):
        parked.park(pull, NOW_MS)
    parked.remove(tickets[0])
    assert parked.park(pull, NOW_MS) not in tickets
