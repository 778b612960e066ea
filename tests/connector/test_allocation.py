"""Queue allocation: the tables of rocketmq-semantics ch. 2, which were executed against RocketMQ's own classes."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from pyspark_rmqpull.allocation import allocate_averagely, consumer_ids
from pyspark_rmqpull.model import MessageQueue


def queues(count: int, brokers: str = "a") -> list[MessageQueue]:
    return [MessageQueue("orders", broker, queue_id) for broker in brokers for queue_id in range(count)]


def shares(owned: Sequence[MessageQueue], consumer_count: int) -> list[str]:
    """What each consumer gets, as the tables write it."""
    consumers = "ABCDE"[:consumer_count]
    return [
        " ".join(f"{q.broker_name}{q.queue_id}" for q in allocate_averagely(c, owned, consumers)) for c in consumers
    ]


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        (queues(1), ["a0"]),
        (queues(4), ["a0 a1 a2 a3"]),
        (queues(4), ["a0 a1", "a2 a3"]),
        (queues(4), ["a0", "a1", "a2", "a3"]),
        (queues(3), ["a0", "a1", "a2", ""]),
        (queues(1), ["a0", "", ""]),
        (queues(5), ["a0 a1", "a2 a3", "a4"]),
        (queues(7), ["a0 a1 a2", "a3 a4", "a5 a6"]),
        (queues(8), ["a0 a1 a2", "a3 a4 a5", "a6 a7"]),
        (queues(10), ["a0 a1 a2", "a3 a4 a5", "a6 a7", "a8 a9"]),
        (queues(16), ["a0 a1 a2 a3 a4 a5", "a6 a7 a8 a9 a10", "a11 a12 a13 a14 a15"]),
        (queues(16), ["a0 a1 a2 a3", "a4 a5 a6", "a7 a8 a9", "a10 a11 a12", "a13 a14 a15"]),
        (queues(4, "ab"), ["a0 a1 a2", "a3 b0 b1", "b2 b3"]),
    ],
)
def test_averaging_gives_contiguous_blocks(owned: list[MessageQueue], expected: list[str]) -> None:
    assert shares(owned, len(expected)) == expected


@pytest.mark.parametrize(
    ("consumer", "owned", "consumers", "refusal"),
    [
        ("", queues(1), "A", "currentCID is empty"),
        ("A", [], "A", "mqAll is null or mqAll empty"),
        ("A", queues(1), "", "cidAll is null or cidAll empty"),
        ("", [], "", "currentCID is empty"),
        ("A", [], "", "mqAll is null or mqAll empty"),
    ],
)
def test_empty_arguments_are_refused_in_the_words_and_the_order_of_rocketmq(
    consumer: str, owned: list[MessageQueue], consumers: str, refusal: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(refusal)}$"):
        allocate_averagely(consumer, owned, consumers)


def test_a_consumer_that_is_not_in_the_group_gets_nothing() -> None:
    assert allocate_averagely("Z", queues(4), "AB") == []


def test_consumer_ids_sort_as_their_numbers() -> None:
    for count in range(1, 1201):
        ids = consumer_ids(count)
        assert len(set(ids)) == count
        assert sorted(ids) == sorted(ids, key=int) == ids
