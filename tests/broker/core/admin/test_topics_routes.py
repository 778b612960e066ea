"""Routes and assignments as tables (rules 5.8, 5.9)."""

from __future__ import annotations

import pytest

from rmqpull_broker.core.admin.topics import list_accepted_types, list_assigned_queue_ids, list_route_queues
from rmqpull_broker.core.model import TopicConfig, TopicType

LETTERS = {0: "-", 2: "W", 4: "R", 6: "B"}


def spelled(read: int, write: int, perm: int, broker_permission: int = 6) -> str:
    """One letter per queue, in order: read, written, both, or neither."""
    queues = list_route_queues(TopicConfig("orders", read, write, perm=perm), broker_permission)
    assert [queue.queue_id for queue in queues] == list(range(len(queues)))
    return "".join(LETTERS[queue.perm] for queue in queues)


@pytest.mark.parametrize(
    ("read", "write", "perm", "queues"),
    [
        (2, 2, 6, "BB"),
        (3, 1, 6, "BRR"),
        (1, 3, 6, "BWW"),
        (2, 0, 6, "RR"),
        (0, 2, 6, "WW"),
        (0, 0, 6, ""),
        (2, 2, 7, "BB"),
        (2, 3, 4, "RR"),
        (2, 3, 2, "WWW"),
        (2, 3, 5, "RR"),
        (2, 3, 0, "---"),
        (3, 2, 1, "---"),
        (0, 0, 0, "-"),
    ],
)
@pytest.mark.proves("Queue ids in the route of a topic with different numbers of read and write queues")
def test_numbers_and_permission_make_the_queues_of_a_route(read: int, write: int, perm: int, queues: str) -> None:
    assert spelled(read, write, perm) == queues


@pytest.mark.parametrize(
    ("perm", "broker_permission", "queues"), [(6, 4, "RRR"), (6, 2, "WW"), (6, 0, "---"), (2, 4, "---"), (4, 6, "RRR")]
)
def test_the_broker_allows_no_more_than_its_own_permission(perm: int, broker_permission: int, queues: str) -> None:
    assert spelled(3, 2, perm, broker_permission) == queues


@pytest.mark.parametrize(
    ("read", "perm", "broker_permission", "fifo", "queue_ids"),
    [
        (3, 6, 6, False, [-1]),
        (3, 6, 6, True, [0, 1, 2]),
        (3, 4, 6, True, [0, 1, 2]),
        (3, 2, 6, False, []),
        (3, 2, 6, True, []),
        (0, 6, 6, False, []),
        (3, 6, 2, False, []),
    ],
)
def test_what_may_be_read_is_assigned(
    read: int, perm: int, broker_permission: int, fifo: bool, queue_ids: list[int]
) -> None:
    topic = TopicConfig("orders", read, 3, perm=perm)
    assert list_assigned_queue_ids(topic, broker_permission, fifo=fifo) == queue_ids


@pytest.mark.parametrize("topic_type", [kind for kind in TopicType if kind is not TopicType.MIXED])
def test_a_topic_takes_its_own_type(topic_type: TopicType) -> None:
    assert list_accepted_types(TopicConfig("orders", 1, 1, topic_type)) == (topic_type,)


def test_a_mixed_topic_takes_all_types() -> None:
    types = [topic_type.value for topic_type in list_accepted_types(TopicConfig("orders", 1, 1, TopicType.MIXED))]
    assert types == ["NORMAL", "FIFO", "DELAY", "TRANSACTION"]
