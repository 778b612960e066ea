"""When micro-batches run and how far they go, one after the other, with a clock that the test sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyspark_rmqpull.planning.micro_batch import INT64_MAX, BatchEnds, BatchSizer, Limits
from rmqpull_client.errors import DataLoss
from rmqpull_client.model import MessageQueue
from tests.harness.fake_broker_client import FakeCutter


def queues(*offsets: int) -> dict[MessageQueue, int]:
    return {MessageQueue("orders", "a", queue_id): offset for queue_id, offset in enumerate(offsets)}


class Story:
    """A query over queues that only grow, each message of one byte."""

    def __init__(self, limits: Limits, *starts: int) -> None:
        self._sizing = BatchSizer(limits)
        self.starts = queues(*starts)
        self.ends = self.starts
        self.now_ms = 1_000_000

    def after(self, passed_ms: int, *ends: int) -> int | list[int]:
        """Returns how many messages of each queue the batch takes after this time, or how long it is delayed."""
        self.now_ms += passed_ms
        self.ends = queues(*ends)
        if delay_ms := self._sizing.compute_delay_ms(self.starts, self.ends, self.now_ms):
            return delay_ms
        cutter = FakeCutter({queue: [1] * end for queue, end in self.ends.items()})
        reached = self._sizing.admit(self.starts, self.ends, cutter, self.now_ms)
        taken = [end - self.starts[queue] for queue, end in reached.items()]
        self.starts = reached
        return taken


MIN_15 = Limits(min_offsets_per_trigger=15, max_trigger_delay_ms=5_000)


def test_case_15_a_batch_waits_for_enough_messages_or_for_the_delay() -> None:
    story = Story(MIN_15, 0, 0, 0)
    assert story.after(0, 5, 3, 1) == [5, 3, 1]  # the first batch always runs
    assert story.after(1_000, 7, 5, 3) == 4_000
    assert story.after(1_000, 11, 9, 7) == [6, 6, 6]
    assert story.after(4_000, 15, 12, 10) == 1_000
    assert story.after(999, 15, 12, 10) == 1
    assert story.after(1, 15, 12, 10) == [4, 3, 3]


def test_case_16_min_max_and_delay_together() -> None:
    story = Story(
        Limits(min_offsets_per_trigger=15, max_offsets_per_trigger=20, max_trigger_delay_ms=5_000),
        0,
        0,
        0,
    )
    assert story.after(0, 12, 9, 9) == [8, 6, 6]  # the first batch always runs
    assert story.after(100, 12, 9, 9) == 4_900
    assert story.after(100, 24, 19, 14) == [8, 7, 4]  # 19 of 20, by rounding
    assert story.after(100, 24, 19, 14) == [8, 6, 4]  # the rest of the backlog is enough
    assert story.after(100, 27, 20, 15) == 4_900
    assert story.after(4_900, 27, 20, 15) == [3, 1, 1]


def test_an_expired_delay_without_messages_does_not_restart() -> None:
    """Unlike Kafka's (rules 8.4): what comes after it runs at once."""
    story = Story(MIN_15, 0)
    assert story.after(0, 1) == [1]
    assert story.after(6_000, 1) == [0]
    assert story.after(1, 2) == [1]
    assert story.after(1, 3) == 4_999


def test_a_first_batch_without_messages_does_not_count() -> None:
    story = Story(MIN_15, 0)
    assert story.after(0, 0) == [0]
    assert story.after(1, 1) == [1]


def test_a_new_queue_counts_from_where_it_begins() -> None:
    """Unlike Kafka's, which counts from 0 (rules 8.4): retention is no backlog."""
    story = Story(MIN_15, 0)
    assert story.after(0, 1) == [1]
    story.starts |= {MessageQueue("orders", "a", 1): 1_000}
    assert story.after(1_000, 1, 1_014) == 4_000
    assert story.after(0, 1, 1_015) == [0, 15]


def test_no_minimum_is_never_a_delay() -> None:
    story = Story(Limits(max_offsets_per_trigger=2, max_trigger_delay_ms=5_000), 0)
    assert [story.after(0, 3), story.after(0, 3), story.after(0, 3)] == [[2], [1], [0]]


def test_a_limit_of_bytes_below_the_minimum_does_not_stop_the_query() -> None:
    story = Story(Limits(min_offsets_per_trigger=15, max_trigger_delay_ms=5_000, max_bytes_per_trigger=4), 0)
    assert story.after(0, 20) == [4]
    assert story.after(1, 20) == [4]  # the backlog is 16
    assert story.after(1, 20) == 4_999
    assert story.after(4_999, 20) == [4]


def test_both_limits_hold() -> None:
    assert Story(Limits(max_offsets_per_trigger=10, max_bytes_per_trigger=4), 0).after(0, 100) == [4]
    assert Story(Limits(max_offsets_per_trigger=4, max_bytes_per_trigger=10), 0).after(0, 100) == [4]


def test_case_17_the_largest_limits_take_everything() -> None:
    story = Story(Limits(INT64_MAX, None, 1, INT64_MAX), 0, 0)
    assert story.after(0, 101, 11) == [101, 11]


def test_queues_take_turns_when_there_is_room_for_one() -> None:
    story = Story(Limits(max_bytes_per_trigger=1), 0, 0, 0)
    taken = [story.after(0, 2, 2, 2) for _ in range(6)]
    assert taken == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]]


@given(
    rows_min=st.integers(1, 20),
    delay_max_ms=st.integers(1, 50),
    steps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 8)), max_size=40),
)
def test_nothing_waits_longer_than_the_delay_after_the_last_batch(
    rows_min: int, delay_max_ms: int, steps: list[tuple[int, int]]
) -> None:
    story = Story(Limits(min_offsets_per_trigger=rows_min, max_trigger_delay_ms=delay_max_ms), 0)
    end, taken, ran_ms = 0, 0, None
    for passed_ms, arrived in steps:
        end += arrived
        found = story.after(passed_ms, end)
        waiting = end - taken
        may_wait = ran_ms is not None and waiting < rows_min and story.now_ms < ran_ms + delay_max_ms
        assert isinstance(found, int) == may_wait
        if not isinstance(found, int):
            assert found == [waiting]
            taken, ran_ms = end, story.now_ms if waiting else ran_ms


A0, A1 = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)


def available_now() -> BatchEnds:
    """AvailableNow with a plan to read one queue to offset 9."""
    ends = BatchEnds()
    ends.is_available_now = True
    assert ends.find_ends({A0: 2}, {A0: 9}, may_lose=False) == {A0: 9}
    return ends


@pytest.mark.parametrize(("ends", "reachable"), [({A0: 9}, 9), ({A0: 2}, 2), ({A0: 1}, 2), ({}, 2)])
def test_a_batch_goes_to_the_end_and_never_back(ends: dict[MessageQueue, int], reachable: int) -> None:
    assert BatchEnds().find_ends({A0: 2}, ends, may_lose=False) == {A0: reachable}


def test_available_now_keeps_the_ends_that_it_saw_first() -> None:
    assert available_now().find_ends({A0: 5}, {A0: 99}, may_lose=False) == {A0: 9}


def test_a_queue_that_appears_later_stays_at_its_start() -> None:
    assert available_now().find_ends({A0: 5, A1: 3}, {A0: 9, A1: 8}, may_lose=False) == {A0: 9, A1: 3}


def test_messages_lost_since_the_plan_are_a_loss_or_are_skipped() -> None:
    with pytest.raises(DataLoss, match="2 messages of queue orders/a/0 are lost"):
        available_now().find_ends({A0: 5}, {A0: 7}, may_lose=False)
    assert available_now().find_ends({A0: 5}, {A0: 7}, may_lose=True) == {A0: 7}
