"""The order in which pops look at queues, and whether at the retries before or after all others (rules 3.17)."""

from __future__ import annotations

from collections.abc import Iterator

from rmqpull_broker.core.model import MessageQueue, TopicConfig, TopicType
from rmqpull_broker.core.popping.receipts import TopicKind
from rmqpull_broker.core.popping.request import (
    ALL_QUEUES,
    PopRequest,
)
from rmqpull_broker.core.state.broker_state import BrokerState
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import name_pop_retry_topic

PERCENT = 100
_RETRY_FIRST_PERCENT = 20
"""One of five looks at the retries first, as with popFromRetryProbability=20."""


def list_popped_queues(
    draft: Draft, request: PopRequest, topic: TopicConfig, drawn: int
) -> Iterator[tuple[TopicKind, MessageQueue]]:
    """Yields the queues that a pop looks at, in order, the retries before or after all others.

    ``drawn`` is a random number below ``PERCENT``.

    By priority (rules 3.19) it begins with the last queue or the first, and the retries come after; else with a random
    queue.
    """
    by_priority = topic.topic_type is TopicType.PRIORITY and not request.in_order
    shift, ascending = 0 if by_priority else drawn, draft.properties.priority_order_asc
    retries_first = not by_priority and drawn < _RETRY_FIRST_PERCENT
    retries = [(TopicKind.RETRY, queue) for queue in _list_retry_queues(draft, request, shift)]
    if retries_first:
        yield from retries
    count = topic.read_queue_nums
    ids = _order_queues(topic, shift, ascending) if request.queue_id == ALL_QUEUES else [request.queue_id]
    for queue_id in ids:
        yield TopicKind.NORMAL, MessageQueue(topic.name, request.broker_name, queue_id % count if count else queue_id)
    if not retries_first:
        yield from retries


def _list_retry_queues(draft: Draft, request: PopRequest, shift: int) -> Iterator[MessageQueue]:
    retry = None if request.in_order else draft.find_topic(name_pop_retry_topic(request.group, request.topic))
    if retry is not None and retry.name != request.topic:
        for queue_id in _order_queues(retry, shift, draft.properties.priority_order_asc):
            yield MessageQueue(retry.name, request.broker_name, queue_id)


def _order_queues(topic: TopicConfig, shift: int, ascending: bool) -> list[int]:
    """Returns the ids of the queues that consumers see, shifted by a number.

    Unshifted, they go from the last one down, as a higher number is a higher priority if priorities are ``ascending``.
    """
    count = topic.read_queue_nums
    places = range(count - 1, -1, -1) if ascending else range(count)
    return [(place + shift) % count for place in places]


def list_peeked_queues(
    state: BrokerState, broker_name: str, group: str, topic: TopicConfig, queue_id: int, drawn: int
) -> tuple[list[MessageQueue], list[MessageQueue]]:
    """Returns the queues that a look at a topic begins with, and those that it takes if there is room.

    ``drawn`` is as for :func:`list_popped_queues`. The queues go up from a random one, whatever their priorities.
    """
    retry = state.find_topic(name_pop_retry_topic(group, topic.name))
    retries = (
        [] if retry is None else [MessageQueue(retry.name, broker_name, at) for at in range(retry.read_queue_nums)]
    )
    count = topic.read_queue_nums
    ids = range(drawn, drawn + count) if queue_id < 0 else [queue_id]
    queues = [MessageQueue(topic.name, broker_name, at % count) for at in ids]
    return ([*retries, *queues], []) if drawn < _RETRY_FIRST_PERCENT else (queues, retries)
