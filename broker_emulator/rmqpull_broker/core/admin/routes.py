"""What a route says of a topic's queues (rules 5.8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rmqpull_broker.core.model import PERM_READ, PERM_WRITE, TopicConfig, TopicType

_READ_WRITE = PERM_READ | PERM_WRITE

_PLAIN_TYPES = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)


class RouteQueue(NamedTuple):
    """One queue on each broker. ``perm`` holds the bits for reading and writing, or none of them."""

    queue_id: int
    perm: int


def route_queues(topic: TopicConfig, broker_permission: int) -> list[RouteQueue]:
    """The queues of a topic on one broker by their own ids, each with what may be done with it.

    Apache's proxy counts those for both last, so that its ids are not the queues' own when the numbers differ; it does
    not look at them when it is asked for messages, and a puller's are looked at. A topic that may be neither read nor
    written has queues all the same, at least one.
    """
    return [RouteQueue(queue_id, perm) for queue_id, perm in enumerate(_permissions(topic, broker_permission))]


def _permissions(topic: TopicConfig, broker_permission: int) -> Iterator[int]:
    perm = topic.perm & broker_permission & _READ_WRITE
    read, write = topic.read_queue_nums, topic.write_queue_nums
    if perm == _READ_WRITE:
        both = min(read, write)
        yield from [_READ_WRITE] * both
        yield from [PERM_READ] * (read - both)
        yield from [PERM_WRITE] * (write - both)
    elif perm:
        yield from [perm] * (read if perm == PERM_READ else write)
    else:
        yield from [0] * max(1, read, write)


def assigned_queue_ids(topic: TopicConfig, broker_permission: int, *, fifo: bool) -> list[int]:
    """The queues of one broker that every member of a group is told to receive from (rules 5.9).

    Queue id -1 stands for all of them; a FIFO group gets each by its id. Empty when there is nothing to read.
    """
    if not topic.perm & broker_permission & PERM_READ or topic.read_queue_nums == 0:
        return []
    return list(range(topic.read_queue_nums)) if fifo else [-1]


def accepted_types(topic: TopicConfig) -> tuple[TopicType, ...]:
    """The types of messages that a topic takes; MIXED stands for all others."""
    return _PLAIN_TYPES if topic.topic_type is TopicType.MIXED else (topic.topic_type,)
