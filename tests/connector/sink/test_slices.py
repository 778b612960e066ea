"""A task asks for large parts once it has written enough rows, or from its first row on if the option says so."""

from __future__ import annotations

from typing import cast

import pytest

from pyspark_rmqpull.sink.deliveries import ROWS_PER_CALL_MAX
from pyspark_rmqpull.sink.slices import SliceChoice
from rmqpull_client.transports.port import Producer, SliceRows, TopicParts
from tests.harness.fake_producer import FakeProducer


def choose(producer: FakeProducer, *calls: TopicParts, rows_min: int | None = None) -> list[SliceRows]:
    choice, chosen = SliceChoice(cast("Producer", producer), rows_min), []
    for parts in calls:
        choice.count_rows(parts)
        chosen.append(choice.choose_slices(parts))
    return chosen


@pytest.mark.parametrize("queue_count", [1, 2, 16, 64])
def test_large_slices_begin_after_1024_rows_for_each_queue(producer: FakeProducer, queue_count: int) -> None:
    producer.queue_count = queue_count
    chosen = choose(producer, *[[("orders", 1_024)]] * (queue_count + 2))
    assert chosen == [{}] * queue_count + [{"orders": 1_024}] * 2
    assert producer.counted == ["orders"]  # asked once


def test_topics_are_counted_apart_and_small_ones_cost_no_question(producer: FakeProducer) -> None:
    call = [("orders", 1_500), ("paid", 200)]
    assert choose(producer, call, call, call) == [{}, {}, {"orders": 1_024}]
    assert producer.counted == ["orders"]


@pytest.mark.parametrize("rows_min", [1, 2_000])
def test_the_option_decides_from_the_first_row_on(producer: FakeProducer, rows_min: int) -> None:
    chosen = choose(producer, [("orders", 1), ("paid", 9_000)], [("paid", 9_000)], rows_min=rows_min)
    assert chosen == [{"orders": rows_min, "paid": rows_min}, {"paid": rows_min}]
    assert not producer.counted


def test_nothing_is_asked_of_a_producer_that_chooses_queues_itself(producer: FakeProducer) -> None:
    producer.takes_slice_rows = False
    assert choose(producer, [("orders", 9_000)]) == [{}]
    assert not producer.counted


def test_a_request_cannot_have_more_rows_than_the_option_may_demand() -> None:
    assert ROWS_PER_CALL_MAX == 10_000  # the largest value of minRecordsPerQueue
