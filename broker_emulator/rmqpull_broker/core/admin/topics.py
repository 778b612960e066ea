"""Commands on topics (rules 3.9), and their queues in a route (rules 5.8)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from rmqpull_broker.core.errors import BadRequest, BrokerError, IllegalTopic, TopicNotFound
from rmqpull_broker.core.limits import QUEUES_MAX
from rmqpull_broker.core.model import PERM_INHERIT, PERM_READ, PERM_WRITE, TopicConfig, TopicType
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.facts import TopicDeleted, TopicPut
from rmqpull_broker.core.state.names import (
    check_topic_name,
    check_topic_spelling,
    is_system_topic,
    name_pop_retry_topic,
)
from rmqpull_proto.names import TBW102

PERM_MAX = 7


def create_topic(draft: Draft, topic: TopicConfig) -> None:
    """Creates a topic. A topic with the same queues and type does not change.

    Raises IllegalTopic for a bad name, BadRequest for a bad number of queues, or when the topic exists with other
    queues or another type.
    """
    check_topic_name(topic.name)
    _check(draft, topic, 1)
    existing = draft.find_topic(topic.name)
    if existing is None:
        draft.add(TopicPut(topic))
    elif _shape(existing) != _shape(topic):
        raise BadRequest(
            f"topic {topic.name} exists with {_describe(existing)}, but the request has {_describe(topic)}; "
            "request the same, or change the topic with 'topic update'"
        )


def put_topic(draft: Draft, topic: TopicConfig, refusal: BrokerError | None = None, queues_min: int = 1) -> TopicConfig:
    """Creates or changes a topic, like UPDATE_AND_CREATE_TOPIC, and returns it.

    A change keeps the topic's creation id and its messages, even in queues that the topic no longer has. Raises
    IllegalTopic and BadRequest (rules 3.9.3), and ``refusal`` instead of a change.
    """
    check_changed_name(draft.state, topic.name)
    _check(draft, topic, queues_min)
    existing = draft.find_topic(topic.name)
    if existing is not None:
        topic = replace(topic, creation_id=existing.creation_id)
        if topic != existing and refusal is not None:
            raise refusal
    if topic != existing:
        draft.add(TopicPut(topic))
    return topic


def check_changed_name(state: BrokerState, name: str) -> None:
    """Raises IllegalTopic for a name that no topic can have, and BadRequest for the name of a system topic."""
    check_topic_spelling(name)
    _refuse_system_topic(state, name)


def delete_topic(draft: Draft, name: str) -> None:
    """Deletes a topic with its messages, all consumer offsets on it, and the redeliveries of its messages.

    Raises TopicNotFound, or IllegalTopic.
    """
    _refuse_system_topic(draft.state, name)
    if draft.find_topic(name) is None:
        raise TopicNotFound(f"topic[{name}] not exist, nothing to delete")
    found = (retry for group in draft.list_groups() if draft.find_topic(retry := name_pop_retry_topic(group, name)))
    for each in (*sorted(set(found) - {name}), name):
        draft.add(TopicDeleted(each))


def create_on_send(
    draft: Draft, name: str, default_topic: str, queue_nums: int, new_id: Callable[[], str]
) -> TopicConfig | None:
    """Creates the topic of a send to an unknown topic; returns None if that is not allowed (rules 3.9.3,
    createTopicInSendMessage).

    The new topic inherits the permission of ``default_topic``, normally TBW102. ``queue_nums`` is the number of queues
    in the request. ``new_id`` returns the creation id.
    """
    if default_topic == TBW102 and not draft.properties.auto_create_topic_enable:
        draft.state.end_inheriting(TBW102)
    default = draft.find_topic(default_topic)
    if default is None or not default.perm & PERM_INHERIT:
        return None
    queues = max(0, min(queue_nums, default.write_queue_nums))
    topic = TopicConfig(name, queues, queues, TopicType.NORMAL, new_id(), default.perm & ~PERM_INHERIT)
    draft.add(TopicPut(topic))
    return topic


def ensure_retry_topic(
    draft: Draft, name: str, queue_nums: int, new_id: Callable[[], str], *, within_limits: bool = True
) -> TopicConfig:
    """Returns a ``%RETRY%`` or ``%DLQ%`` topic, or creates it (createTopicInSendMessageBackMethod).

    Raises TooManyRequests above the limits, which apply only if ``within_limits`` is set.
    """
    topic = draft.find_topic(name)
    if topic is None:
        topic = TopicConfig(name, queue_nums, queue_nums, TopicType.NORMAL, new_id(), PERM_READ | PERM_WRITE)
        draft.add(TopicPut(topic), within_limits=within_limits)
    return topic


def _refuse_system_topic(state: BrokerState, name: str) -> None:
    if is_system_topic(name) or name in state.system_topics:
        raise IllegalTopic(f"The topic[{name}] is conflict with system topic.")


def _check(draft: Draft, topic: TopicConfig, queues_min: int) -> None:
    for count in (topic.read_queue_nums, topic.write_queue_nums):
        if not queues_min <= count <= QUEUES_MAX:
            raise BadRequest(f"topic {topic.name} needs {queues_min} to {QUEUES_MAX} queues, got {count}")
    if not 0 <= topic.perm <= PERM_MAX:
        raise BadRequest(f"topic {topic.name} has the permission {topic.perm}: expected 0 to {PERM_MAX}")
    if topic.topic_type is TopicType.MIXED and not draft.properties.enable_mixed_message_type:
        raise BadRequest("MIXED message type is not supported.")


def _shape(topic: TopicConfig) -> tuple[int, int, TopicType]:
    return topic.read_queue_nums, topic.write_queue_nums, topic.topic_type


def _describe(topic: TopicConfig) -> str:
    read, write, topic_type = _shape(topic)
    queues = f"{read}" if read == write else f"{read} read and {write} write"
    return f"{queues} queues of type {topic_type.value}"


_READ_WRITE = PERM_READ | PERM_WRITE

_PLAIN_TYPES = (TopicType.NORMAL, TopicType.FIFO, TopicType.DELAY, TopicType.TRANSACTION)


class RouteQueue(NamedTuple):
    """One queue on each broker. ``perm`` has the bits for reading and writing, or none of them."""

    queue_id: int
    perm: int


def list_route_queues(topic: TopicConfig, broker_permission: int) -> list[RouteQueue]:
    """Returns the queues of a topic on one broker, each with its own id and its permission.

    Apache's proxy numbers the queues that are both readable and writable last, so its ids are not the queues' own when
    the two numbers of queues differ. It ignores the queue ids of pops, but a pull needs the real ones. A topic without
    permissions also has at least one queue in its route.
    """
    return [RouteQueue(queue_id, perm) for queue_id, perm in enumerate(_list_permissions(topic, broker_permission))]


def _list_permissions(topic: TopicConfig, broker_permission: int) -> Iterator[int]:
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


def has_readable_queue(topic: TopicConfig, broker_permission: int) -> bool:
    """Whether consumers may read a queue of the topic."""
    return topic.read_queue_nums > 0 and bool(topic.perm & broker_permission & PERM_READ)


def list_assigned_queue_ids(topic: TopicConfig, broker_permission: int, *, fifo: bool) -> list[int]:
    """Returns the queues of one broker that every member of a group receives from: all share all queues (rules 5.9).

    Queue id -1 stands for all queues; a FIFO group gets the id of each queue. Empty when there is nothing to read.
    """
    if not has_readable_queue(topic, broker_permission):
        return []
    return list(range(topic.read_queue_nums)) if fifo else [-1]


def list_accepted_types(topic: TopicConfig) -> tuple[TopicType, ...]:
    """Returns the message types that a topic accepts. MIXED stands for all others."""
    return _PLAIN_TYPES if topic.topic_type is TopicType.MIXED else (topic.topic_type,)
