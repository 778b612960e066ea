"""Messages that could not be consumed: tried again after a delay, given up at last (rules 3.10.3, 1.14).

A group's retries are in ``%RETRY%group``, what it gave up is in ``%DLQ%group``. A message that is returned goes

    ===================================================================  ==========================================
    when                                                                 where
    ===================================================================  ==========================================
    the group has no retry queues                                        nowhere: it is dropped
    it was returned as often as allowed, or the level is below 0         ``%DLQ%group``, at once
    the level is 0                                                       ``%RETRY%group``, level 3 + times returned
    the level is above 0                                                 ``%RETRY%group``, that level, or the last
    ===================================================================  ==========================================
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.admin.topics import ensure_retry_topic
from rmqpull_broker.core.errors import ConsumerGroupNotFound, Forbidden, InternalError
from rmqpull_broker.core.limits import RECONSUME_TIMES_MAX
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import PERM_WRITE, GroupConfig, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import parse_level_delays
from rmqpull_broker.core.sending.storing import MessageToStore
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import DLQ_PREFIX, RETRY_PREFIX, RETRY_TOPIC_LENGTH_MAX

DLQ_QUEUE_NUMS = 1
FIRST_LEVEL = 3
"""The level of a first retry, when the consumer leaves it to the broker."""


@dataclass(frozen=True)
class SendBack:
    """CONSUMER_SEND_MSG_BACK: a consumer returns a message of ``queue`` (rules 4.5).

    ``max_reconsume_times`` is None for clients that do not say it; then the group's own number holds.
    """

    group: str
    queue: MessageQueue
    queue_offset: int
    delay_level: int = 0
    max_reconsume_times: int | None = None


def returned(
    draft: Draft, request: SendBack, host: str, draw: Callable[[int], int], new_id: Callable[[], str]
) -> MessageToStore | None:
    """What a returned message becomes and where it is meant to go; None when it is dropped.

    ``draw`` gives a random number below its argument; ``new_id`` names a topic that must be made. The rows of
    rules 3.10.3 in their order: raises ConsumerGroupNotFound, Forbidden, InternalError.
    """
    group = _group(draft, request.group)
    if not draft.properties.broker_permission & PERM_WRITE:
        raise Forbidden(f"the broker[{host}] sending message is forbidden")
    if group.retry_queue_nums <= 0:
        return None
    queue = request.queue._replace(topic=RETRY_PREFIX + group.name, queue_id=draw(group.retry_queue_nums))
    topic = ensure_retry_topic(draft, queue.topic, group.retry_queue_nums, new_id)
    if not topic.is_writable:
        raise Forbidden(f"the topic[{topic.name}] sending message is forbidden")
    original = _find(draft, request.queue, request.queue_offset)
    times, level = original.reconsume_times, request.delay_level
    times_max = group.retry_max_times if request.max_reconsume_times is None else request.max_reconsume_times
    if times >= times_max or level < 0:
        queue, level = _dead_letter_queue(draft, group.name, queue.broker_name, draw, new_id), 0
    else:
        level = min(level or FIRST_LEVEL + times, len(parse_level_delays(draft.properties.message_delay_level)))
    if len(queue.topic) > RETRY_TOPIC_LENGTH_MAX:
        raise InternalError("MESSAGE_ILLEGAL")
    return MessageToStore(
        queue, _copy(original.message, request.queue.topic, level), min(times + 1, RECONSUME_TIMES_MAX)
    )


def retried(
    draft: Draft,
    placed: MessageToStore,
    max_reconsume_times: int | None,
    *,
    in_order: bool,
    draw: Callable[[int], int],
    new_id: Callable[[], str],
) -> MessageToStore:
    """Where a message that was sent to ``%RETRY%group`` is meant to go: there, or to the group's dead letters.

    Clients send there themselves when they cannot return a message, and have counted already: the limit is passed, not
    reached. ``in_order`` tells that the group holds a queue lock; then nothing of it is tried again
    (handleRetryAndDLQ). Raises ConsumerGroupNotFound.
    """
    group = _group(draft, placed.queue.topic[len(RETRY_PREFIX) :])
    times_max = group.retry_max_times if max_reconsume_times is None else max_reconsume_times
    if placed.reconsume_times <= times_max and not in_order:
        return placed
    queue = _dead_letter_queue(draft, group.name, placed.queue.broker_name, draw, new_id)
    message = replace(placed.message, system_properties={**placed.message.system_properties, "DELAY": "0"})
    return MessageToStore(queue, message, placed.reconsume_times)


def _group(draft: Draft, name: str) -> GroupConfig:
    group = find_or_create_group(draft, name)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group not exist, {name} ")
    return group


def _dead_letter_queue(
    draft: Draft, group: str, broker_name: str, draw: Callable[[int], int], new_id: Callable[[], str]
) -> MessageQueue:
    topic = ensure_retry_topic(draft, DLQ_PREFIX + group, DLQ_QUEUE_NUMS, new_id)
    return MessageQueue(topic.name, broker_name, draw(DLQ_QUEUE_NUMS))


def _find(draft: Draft, queue: MessageQueue, queue_offset: int) -> StoredMessage:
    bounds = draft.kept_bounds(queue)
    if not bounds.min_offset <= queue_offset < bounds.max_offset:
        raise InternalError(f"look message by offset failed, {queue_offset}")
    (original,) = columns.to_rows(draft.state.store.read(queue, queue_offset, queue_offset + 1))
    return original


def _copy(message: Message, topic: str, level: int) -> Message:
    """A returned message as it is stored again: the first topic and id stay with it, whatever it goes through."""
    properties = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": message.msg_id, **message.system_properties}
    properties.update(WAIT="false", DELAY=str(level))
    # A level wins over a delivery time (rules 3.14.2).
    delivery_ms = None if level > 0 else message.delivery_timestamp_ms
    return replace(message, delivery_timestamp_ms=delivery_ms, system_properties=properties)
