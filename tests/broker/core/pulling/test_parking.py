"""Parked pulls (rules 3.4), with the time as a number."""

from dataclasses import replace

import pyarrow as pa
import pytest

from rmqpull_broker.core import shares
from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter, SqlFilter, TagFilter
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import Message, MessageQueue, StoredMessage
from rmqpull_broker.core.pulling import parking
from rmqpull_broker.core.pulling.parking import QUEUES_OF_A_PULL, Arrivals, ParkedPull, ParkedPulls, PollingRules
from rmqpull_broker.core.shares import find_holder

FIRST, SECOND, THIRD = (MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3))
NOW_MS = 0


def tagged(tag: str) -> TagFilter:
    return TagFilter(frozenset({tag}))


def arrivals(*tags: str | None) -> Arrivals:
    return Arrivals(batch=pa.record_batch({"tags": pa.array(tags, pa.string())}))


@pytest.mark.parametrize(
    ("message_filter", "matches"),
    [
        (EVERYTHING, True),
        (tagged("red"), True),
        (tagged("blue"), False),
        (SqlFilter("TAGS = 'red'"), True),
        (SqlFilter("a = 1"), False),
    ],
)
def test_rows_and_columns_match_alike(message_filter: MessageFilter, matches: bool) -> None:
    rows = [StoredMessage(Message(b"x", "", tags=tag), offset, 0, "") for offset, tag in enumerate(["red", None])]
    assert Arrivals(rows).match(message_filter) is matches
    assert Arrivals(batch=columns.from_rows(rows)).match(message_filter) is matches


def test_an_arrival_wakes_those_that_wait_for_its_queue_and_tag() -> None:
    parked = ParkedPulls()
    everything = parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS)
    reds = parked.park(ParkedPull([FIRST], tagged("red"), 100), NOW_MS)
    parked.park(ParkedPull([FIRST], tagged("blue"), 100), NOW_MS)
    parked.park(ParkedPull([SECOND], EVERYTHING, 100), NOW_MS)
    assert parked.find_woken(FIRST, arrivals("green", "red", None), NOW_MS) == [everything, reds]


def test_an_arrival_that_matches_no_filter_wakes_no_pull() -> None:
    parked = ParkedPulls()
    parked.park(ParkedPull([FIRST], tagged("red"), 100), NOW_MS)
    assert parked.find_woken(FIRST, arrivals("green", None), NOW_MS) == []
    assert parked.find_woken(SECOND, arrivals("red"), NOW_MS) == []
    assert len(parked) == 1


def test_an_arrival_that_does_not_match_wakes_a_pull_whose_time_is_over() -> None:
    parked = ParkedPulls()
    pulls = [
        ParkedPull([FIRST], TagFilter(frozenset({"blue"})), deadline_ms, on_grid=True) for deadline_ms in (1_200, 9_000)
    ]
    over, waiting = (parked.park(pull, 0) for pull in pulls)
    assert parked.find_woken(FIRST, arrivals("red"), 1_199) == []
    assert parked.find_woken(FIRST, arrivals("red"), 1_200) == [over]
    parked.remove(over)
    assert parked.take_due(5_000) == [waiting]


def test_without_long_polling_no_arrival_wakes_a_pull_whose_time_is_over() -> None:
    parked = ParkedPulls(rules=PollingRules(long_polling_enable=False))
    parked.park(ParkedPull([FIRST], TagFilter(frozenset({"blue"})), 500, on_grid=True), 0)
    assert parked.find_woken(FIRST, arrivals("red"), 600) == []


def test_pulls_on_the_grid_can_be_left_out() -> None:
    parked = ParkedPulls()
    free, _ = (parked.park(ParkedPull([FIRST], EVERYTHING, 100, on_grid=on_grid), 0) for on_grid in (False, True))
    assert parked.list_pulls_of([FIRST], with_on_grid=False) == [free]


def test_one_pull_waits_for_many_queues() -> None:
    parked = ParkedPulls()
    ticket = parked.park(ParkedPull([FIRST, SECOND], EVERYTHING, 100), NOW_MS)
    assert (
        parked.find_woken(SECOND, arrivals("red"), NOW_MS)
        == parked.find_woken(FIRST, arrivals("red"), NOW_MS)
        == [ticket]
    )


def test_the_same_pull_may_wait_twice() -> None:
    parked = ParkedPulls()
    pull = ParkedPull([FIRST], EVERYTHING, 100)
    tickets = [parked.park(pull, NOW_MS), parked.park(pull, NOW_MS)]
    assert parked.find_woken(FIRST, arrivals("red"), NOW_MS) == parked.list_all() == tickets


def test_a_pull_expires_when_its_deadline_is_reached_and_not_before() -> None:
    parked = ParkedPulls()
    late = parked.park(ParkedPull([FIRST], EVERYTHING, 200), NOW_MS)
    soon = parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS)
    assert parked.next_due_ms() == 100
    assert parked.take_due(99) == []
    assert parked.take_due(100) == [soon]
    assert parked.next_due_ms() == 200
    assert parked.take_due(1_000) == [late]


def test_a_removed_pull_is_neither_woken_nor_expired() -> None:
    parked = ParkedPulls()
    gone = parked.park(ParkedPull([FIRST, SECOND], EVERYTHING, 100), NOW_MS)
    stays = parked.park(ParkedPull([SECOND], EVERYTHING, 100), NOW_MS)
    parked.remove(gone)
    parked.remove(gone)
    assert not parked.has_pulls_of(FIRST)
    assert parked.find_woken(FIRST, arrivals("red"), NOW_MS) == []
    assert parked.find_woken(SECOND, arrivals("red"), NOW_MS) == [stays]
    assert parked.take_due(100) == [stays]


def test_there_is_no_deadline_while_nothing_waits() -> None:
    parked = ParkedPulls()
    assert parked.next_due_ms() is None
    parked.remove(parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS))
    assert len(parked) == 0
    assert parked.next_due_ms() is None


def test_a_pull_that_names_a_queue_twice_is_removed_like_any_other() -> None:
    parked = ParkedPulls()
    ticket = parked.park(ParkedPull([FIRST, FIRST], EVERYTHING, 100), NOW_MS)
    assert parked.find_woken(FIRST, arrivals("red"), NOW_MS) == [ticket]
    parked.remove(ticket)
    assert not parked.has_pulls_of(FIRST)


def test_further_queues_of_a_pull_wake_it_too_and_are_removed_piece_by_piece() -> None:
    parked = ParkedPulls()
    ticket = parked.park(ParkedPull([FIRST], EVERYTHING, 100), NOW_MS)
    for queues in ([SECOND], [FIRST, THIRD]):
        parked.extend(ticket, queues)
    for queue in (FIRST, SECOND, THIRD):
        assert parked.find_woken(queue, arrivals("red"), NOW_MS) == [ticket]
    assert parked.remove(ticket)
    assert [parked.has_pulls_of(queue) for queue in (FIRST, SECOND, THIRD)] == [False, True, False]
    assert parked.find_woken(SECOND, arrivals("red"), NOW_MS) == parked.list_all() == [ticket]
    assert parked.remove(ticket)
    assert not parked.remove(ticket)
    assert parked.list_all() == []
    assert not parked.has_pulls_of(SECOND)


def test_a_queue_that_joins_after_an_arrival_is_not_behind() -> None:
    parked = ParkedPulls()
    pull = ParkedPull([FIRST], tagged("red"), 100_000)
    ticket, behind = parked.park(pull, NOW_MS), parked.park(replace(pull, queues=[SECOND]), NOW_MS)
    assert parked.find_woken(SECOND, arrivals("blue"), NOW_MS) == []
    parked.extend(ticket, [SECOND])
    assert parked.take_due(5_000) == [behind]
    assert parked.find_woken(SECOND, arrivals("blue"), 5_000) == []
    assert sorted(parked.take_due(10_000)) == [ticket, behind]


def test_a_pull_of_many_queues_counts_as_several(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "PARKED_PULLS_MAX", 4)  # 5 with the reserve
    monkeypatch.setattr(shares, "OF_CONNECTION", 4)
    parked = ParkedPulls()
    ticket = parked.park(ParkedPull([FIRST] * QUEUES_OF_A_PULL, EVERYTHING, 100), NOW_MS)
    parked.extend(ticket, [SECOND] * (QUEUES_OF_A_PULL + 1))
    with pytest.raises(TooManyRequests):
        parked.extend(ticket, [THIRD] * 2 * QUEUES_OF_A_PULL)
    assert not parked.has_pulls_of(THIRD)
    while parked.remove(ticket):
        pass
    parked.park(ParkedPull([FIRST] * 4 * QUEUES_OF_A_PULL, EVERYTHING, 100), NOW_MS)


def test_answered_pulls_leave_no_trace_however_many_there_were() -> None:
    parked = ParkedPulls()
    stays = parked.park(ParkedPull([FIRST], EVERYTHING, 500), NOW_MS)
    for _ in range(1_000):
        parked.remove(parked.park(ParkedPull([FIRST], EVERYTHING, 1_000_000), NOW_MS))
    assert len(parked._deadlines) < 100
    assert parked.list_all() == parked.take_due(500) == [stays]
    parked.remove(stays)
    assert parked._deadlines == []


def test_deadlines_keep_their_order_when_most_pulls_are_answered() -> None:
    parked = ParkedPulls()
    deadlines = {
        parked.park(ParkedPull([FIRST], EVERYTHING, turn * 7_919 % 1_000), NOW_MS): turn * 7_919 % 1_000
        for turn in range(500)
    }
    for ticket in range(400):
        parked.remove(ticket)
    for now_ms in range(1_000):
        assert parked.take_due(now_ms) == [t for t in range(400, 500) if deadlines[t] == now_ms]


def test_too_many_parked_pulls_are_refused_until_one_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "PARKED_PULLS_MAX", 2)
    parked = ParkedPulls()
    pull = ParkedPull([FIRST], EVERYTHING, 100)
    tickets = [parked.park(pull, NOW_MS), parked.park(pull, NOW_MS)]
    with pytest.raises(TooManyRequests):
        parked.park(pull, NOW_MS)
    parked.remove(tickets[0])
    assert parked.park(pull, NOW_MS) not in tickets


def test_a_connection_that_parks_all_it_may_leaves_places_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parking, "PARKED_PULLS_MAX", 16)
    parked = ParkedPulls()
    greedy, neighbour, other = (
        ParkedPull([FIRST], EVERYTHING, 100, holder=find_holder(address))
        for address in ("10.0.0.1:5", "10.0.0.1:6", "10.0.0.2:5")
    )
    tickets = [parked.park(greedy, NOW_MS) for _ in range(16)]
    with pytest.raises(TooManyRequests, match="16 of at most 18 in all, 16 by this connection and 16 from its address"):
        parked.park(greedy, NOW_MS)
    parked.park(neighbour, NOW_MS)
    with pytest.raises(TooManyRequests):
        parked.park(other, NOW_MS)  # the last place
    for ticket in tickets[:2]:
        parked.remove(ticket)
    parked.park(other, NOW_MS)
    with pytest.raises(TooManyRequests):
        parked.park(greedy, NOW_MS)  # it holds more than its share now


# --- checks every five seconds ----------------------------------------------------------------------------------------

BEGIN_MS = 300  # checks come at 5_300, 10_300, ...
FAR_MS = 60_000


def test_a_pull_that_an_arrival_passed_over_is_woken_by_the_next_check() -> None:
    parked = ParkedPulls(BEGIN_MS)
    behind = parked.park(ParkedPull([FIRST], tagged("red"), FAR_MS), 400)
    parked.park(ParkedPull([SECOND], tagged("red"), FAR_MS), 400)
    assert parked.next_due_ms() == FAR_MS
    assert parked.find_woken(FIRST, arrivals("blue"), 1_000) == []
    assert parked.next_due_ms() == 5_300
    assert parked.take_due(5_299) == []
    assert parked.take_due(5_300) == [behind]
    parked.remove(behind)
    assert parked.next_due_ms() == FAR_MS


def test_a_pull_that_was_parked_after_the_arrival_is_not_behind() -> None:
    parked = ParkedPulls(BEGIN_MS)
    behind = parked.park(ParkedPull([FIRST], tagged("red"), FAR_MS), 400)
    parked.find_woken(FIRST, arrivals("blue"), 1_000)
    parked.park(ParkedPull([FIRST], tagged("red"), FAR_MS), 2_000)
    assert parked.take_due(5_300) == [behind]


def test_a_check_is_not_put_off_by_further_arrivals() -> None:
    parked = ParkedPulls(BEGIN_MS)
    tickets = [parked.park(ParkedPull([queue], tagged("red"), FAR_MS), 400) for queue in (FIRST, SECOND)]
    parked.find_woken(FIRST, arrivals("blue"), 1_000)
    parked.find_woken(SECOND, arrivals("blue"), 5_300)
    assert parked.take_due(5_300) == tickets
    assert parked.take_due(10_300) == []


def test_an_arrival_at_the_time_of_a_check_waits_for_the_next_one() -> None:
    parked = ParkedPulls(BEGIN_MS)
    parked.park(ParkedPull([FIRST], tagged("red"), FAR_MS), 400)
    parked.find_woken(FIRST, arrivals("blue"), 5_300)
    assert parked.next_due_ms() == 10_300


def test_a_pull_that_left_while_it_was_behind_is_not_woken() -> None:
    parked = ParkedPulls(BEGIN_MS)
    gone = parked.park(ParkedPull([FIRST], tagged("red"), FAR_MS), 400)
    stays = parked.park(ParkedPull([SECOND], tagged("red"), FAR_MS), 400)
    parked.find_woken(FIRST, arrivals("blue"), 1_000)
    parked.remove(gone)
    assert (parked.next_due_ms(), parked.take_due(5_300), parked.list_all()) == (FAR_MS, [], [stays])


@pytest.mark.parametrize(
    ("parked_at_ms", "timeout_ms", "answered_at_ms"),
    [
        (300, 15_000, 15_300),  # the check that finds the time just passed
        (301, 15_000, 20_300),
        (5_299, 15_000, 20_300),
        (400, 0, 5_300),  # parked in any case (rules 6.1)
        (5_300, 0, 10_300),
    ],
)
def test_a_time_out_on_the_grid_is_seen_by_checks_alone(
    parked_at_ms: int, timeout_ms: int, answered_at_ms: int
) -> None:
    parked = ParkedPulls(BEGIN_MS)
    ticket = parked.park(ParkedPull([FIRST], EVERYTHING, parked_at_ms + timeout_ms, on_grid=True), parked_at_ms)
    assert parked.next_due_ms() == answered_at_ms
    assert parked.take_due(answered_at_ms - 1) == []
    assert parked.take_due(answered_at_ms) == [ticket]


def test_without_long_polling_only_checks_wake_and_they_come_as_often_as_a_pull_is_held() -> None:
    rules = PollingRules(long_polling_enable=False, short_polling_time_mills=700)
    assert [rules.timeout_ms(asked_ms) for asked_ms in (0, 20_000)] == [700, 700]
    parked = ParkedPulls(BEGIN_MS, rules)
    ticket = parked.park(ParkedPull([FIRST], EVERYTHING, FAR_MS), 400)
    assert parked.find_woken(FIRST, arrivals("red"), 500) == []
    assert parked.next_due_ms() == 1_000
    assert parked.take_due(1_000) == [ticket]


def test_a_pull_is_held_as_long_as_it_asks() -> None:
    assert PollingRules().timeout_ms(20_000) == 20_000


# --- changes other than arrivals --------------------------------------------------------------------------------------


def test_a_changed_queue_wakes_its_parked_pulls() -> None:
    parked = ParkedPulls()
    tickets = [
        parked.park(ParkedPull([FIRST], message_filter, 100), NOW_MS) for message_filter in (EVERYTHING, tagged("red"))
    ]
    other = parked.park(ParkedPull([SECOND, MessageQueue("bills", "broker-a", 0)], EVERYTHING, 100), NOW_MS)
    assert parked.list_pulls_of([FIRST]) == tickets[::-1]
    assert parked.list_pulls_of([MessageQueue("orders", "broker-b", 0)]) == []
    assert parked.list_pulls_of(parked.list_queues("orders")) == [other, *tickets[::-1]]
    assert parked.list_queues("unknown") == []


def test_a_change_for_one_group_wakes_that_group_alone() -> None:
    parked = ParkedPulls()
    mine, _ = [parked.park(ParkedPull([FIRST], EVERYTHING, 100, group=group), NOW_MS) for group in ("mine", "other")]
    assert parked.list_pulls_of([FIRST], "mine") == [mine]
    assert parked.list_pulls_of([FIRST], "nobody") == []


def test_an_arrival_is_judged_once_for_each_different_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []

    def judge(message_filter: TagFilter, batch: pa.RecordBatch) -> bool:
        judged.append(message_filter)
        return message_filter == tagged("red")

    monkeypatch.setattr(TagFilter, "matches_any", judge)
    parked = ParkedPulls()
    tickets = [parked.park(ParkedPull([FIRST], tagged(tag), 100), NOW_MS) for tag in ("red", "blue", "red", "blue")]
    assert parked.find_woken(FIRST, arrivals("red"), NOW_MS) == [tickets[0], tickets[2]]
    assert judged == [tagged("red"), tagged("blue")]
