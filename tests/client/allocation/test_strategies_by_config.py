"""CONFIG: the table of rules 2.4, which RocketMQ's own class confirmed."""

from __future__ import annotations

import pytest

from rmqpull_client.allocation.strategies import ByConfig
from rmqpull_client.model import MessageQueue
from tests.harness.allocation_tables import queues, written

ALL = queues(4, "b")
ELSEWHERE = [MessageQueue("orders", "zz", 9)]


@pytest.mark.parametrize(
    ("configured", "consumer", "owned", "consumers", "expected"),
    [
        (ALL, "A", ALL, "AB", "b0 b1 b2 b3"),
        (ALL, "B", ALL, "AB", "b0 b1 b2 b3"),
        (ALL[2:3], "A", ALL, "AB", "b2"),
        (ELSEWHERE, "A", ALL, "AB", "zz9"),
        ([], "A", ALL, "AB", ""),
        (ALL[:1], "X", ALL, "AB", "b0"),
        (ALL[:1], "", ALL, "AB", "b0"),
        (ALL[:1], "", [], "", "b0"),
        (None, "A", ALL, "AB", ""),
        (ALL[:2], "B", ALL, "AB", "b0 b1"),
        (ALL[3:], "A", [], "", "b3"),
    ],
)
def test_a_consumer_gets_its_list_whatever_the_arguments(
    configured: list[MessageQueue] | None,
    consumer: str,
    owned: list[MessageQueue],
    consumers: str,
    expected: str,
) -> None:
    strategy = ByConfig({} if configured is None else {consumer: configured})
    assert written(strategy.allocate(consumer, owned, consumers)) == expected


def test_each_consumer_has_its_own_list() -> None:
    strategy = ByConfig({"A": ALL[:1], "B": ALL[1:]})
    assert strategy.allocate_all(ALL, "ABC") == {"A": ALL[:1], "B": ALL[1:], "C": []}
