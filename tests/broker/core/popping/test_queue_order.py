"""Which queues pops and looks at topics begin with (rules 3.17)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.model import MessageQueue
from rmqpull_broker.core.popping.queue_order import list_peeked_queues
from rmqpull_broker.core.state.names import name_pop_retry_topic
from tests.harness.core import CoreHarness

RETRY = name_pop_retry_topic("readers", "orders")


@pytest.mark.parametrize(
    ("drawn", "queue_id", "first", "last"),
    [
        (19, -1, [(RETRY, 0), ("orders", 1), ("orders", 2), ("orders", 0)], []),
        (20, -1, [("orders", 2), ("orders", 0), ("orders", 1)], [(RETRY, 0)]),
        (99, 1, [("orders", 1)], [(RETRY, 0)]),
        (0, 5, [(RETRY, 0), ("orders", 2)], []),
    ],
)
def test_one_of_five_looks_begins_with_the_retries(
    core: CoreHarness, drawn: int, queue_id: int, first: list[tuple[str, int]], last: list[tuple[str, int]]
) -> None:
    topic = core.topic(3)
    core.topic(1, name=RETRY)
    found = list_peeked_queues(core.state, "broker-a", "readers", topic, queue_id, drawn)
    wanted = tuple([MessageQueue(name, "broker-a", number) for name, number in part] for part in (first, last))
    assert found == wanted


def test_without_a_topic_of_retries_there_are_only_its_own_queues(core: CoreHarness) -> None:
    found = list_peeked_queues(core.state, "broker-a", "readers", core.topic(1), -1, 0)
    assert found == ([MessageQueue("orders", "broker-a", 0)], [])
