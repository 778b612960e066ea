"""Returned messages, which could not be consumed: retried after a delay, in the end dead letters (rules 1.14, 3.10.3).

The retries of a group are in ``%RETRY%group``, its dead letters in ``%DLQ%group``. A returned message goes

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.admin.topics import ensure_retry_topic
from rmqpull_broker.core.errors import FAQ, ConsumerGroupNotFound, Forbidden, InternalError
from rmqpull_broker.core.limits import RECONSUME_TIMES_MAX
from rmqpull_broker.core.messages import columns
from rmqpull_broker.core.model import PERM_WRITE, GroupConfig, Message, MessageQueue, StoredMessage
from rmqpull_broker.core.properties import parse_level_delays
from rmqpull_broker.core.sending import refusals
from rmqpull_broker.core.sending.storing import MessageToStore
from rmqpull_broker.core.state.draft import Draft
from rmqpull_broker.core.state.names import RETRY_TOPIC_LENGTH_MAX, TOPIC_LENGTH_MAX
from rmqpull_proto.names import DLQ_PREFIX, RETRY_PREFIX

DLQ_QUEUE_NUMS = 1
RECONSUME_TIME = "RECONSUME_TIME"
FIRST_LEVEL = 3
"""The delay level of a first retry, if the consumer leaves it to the broker."""


@dataclass(frozen=True)
class SendBack:
    """CONSUMER_SEND_MSG_BACK: a consumer returns a message of ``queue`` (rules 4.5).

    ``max_reconsume_times`` is None when the client does not send it. Then the group's own maximum applies. A client of
    the remoting protocol names a message by its ``physical_offset``, and knows it as ``offset_msg_id``.
    """

    group: str
    queue: MessageQueue
    queue_offset: int
    delay_level: int = 0
    max_reconsume_times: int | None = None
    physical_offset: int | None = None
    offset_msg_id: str = ""


def return_message(
    draft: Draft, request: SendBack, host: str, draw: Callable[[int], int], new_id: Callable[[], str]
) -> MessageToStore | None:
    """Returns the message that a returned message becomes, and its queue; None when it is dropped.

    ``draw`` returns a random number below its argument; ``new_id`` returns the creation id of a new topic. The rows of
    rules 3.10.3 in their order: raises ConsumerGroupNotFound, Forbidden, InternalError.
    """
    group = _require_group(draft, request.group)
    if not draft.properties.broker_permission & PERM_WRITE:
        raise Forbidden(f"the broker[{host}] sending message is forbidden")
    if group.retry_queue_nums <= 0:
        return None
    queue = request.queue._replace(topic=RETRY_PREFIX + group.name, queue_id=draw(group.retry_queue_nums))
    topic = ensure_retry_topic(draft, queue.topic, group.retry_queue_nums, new_id)
    if not topic.is_writable:
        raise Forbidden(f"the topic[{topic.name}] sending message is forbidden")
    original = _read_message(draft, request)
    times, level = original.reconsume_times, request.delay_level
    times_max = group.retry_max_times if request.max_reconsume_times is None else request.max_reconsume_times
    if times >= times_max or level < 0:
        queue, level = _find_dead_letter_queue(draft, group.name, queue.broker_name, draw, new_id), 0
    else:
        level = min(level or FIRST_LEVEL + times, len(parse_level_delays(draft.properties.message_delay_level)))
    if len(queue.topic) > (RETRY_TOPIC_LENGTH_MAX if queue.topic.startswith(RETRY_PREFIX) else TOPIC_LENGTH_MAX):
        raise InternalError("MESSAGE_ILLEGAL")
    copy = _copy(original.message, request.queue.topic, request.offset_msg_id or original.message.msg_id, level)
    return MessageToStore(queue, copy, min(times + 1, RECONSUME_TIMES_MAX))


def redirect_retry(
    draft: Draft,
    to_store: MessageToStore,
    max_reconsume_times: int | None,
    *,
    in_order: bool,
    draw: Callable[[int], int],
    new_id: Callable[[], str],
) -> MessageToStore:
    """Lets a message that was sent to ``%RETRY%group`` go there, or to the group's dead letters (handleRetryAndDLQ).

    Clients send to that topic when they cannot return a message. They have counted the retry already, so a message
    becomes a dead letter above the limit, not at it. ``in_order``: the group holds a queue lock, and its messages are
    not retried. Raises ConsumerGroupNotFound.
    """
    group = _require_group(draft, to_store.queue.topic[len(RETRY_PREFIX) :])
    times_max = group.retry_max_times if max_reconsume_times is None else max_reconsume_times
    if to_store.reconsume_times <= times_max and not in_order:
        return to_store
    queue = _find_dead_letter_queue(draft, group.name, to_store.queue.broker_name, draw, new_id)
    message = replace(to_store.message, system_properties={**to_store.message.system_properties, "DELAY": "-1"})
    return MessageToStore(queue, message, to_store.reconsume_times)


def count_retry(to_store: Sequence[MessageToStore]) -> MessageToStore:
    """Sets the number of retries that the producer sent in RECONSUME_TIME, which is not stored (rules 5.11).

    Raises MessageCorrupted for more than one message.
    """
    if len(to_store) > 1:
        raise refusals.batch_of_retries(to_store[0].queue.topic)
    [(queue, message, _)] = to_store
    properties = dict(message.system_properties)
    times = min(int(properties.pop(RECONSUME_TIME, "0")), RECONSUME_TIMES_MAX)
    return MessageToStore(queue, replace(message, system_properties=properties), times)


def _require_group(draft: Draft, name: str) -> GroupConfig:
    group = find_or_create_group(draft, name)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group not exist, {name} {FAQ}")
    return group


def _find_dead_letter_queue(
    draft: Draft, group: str, broker_name: str, draw: Callable[[int], int], new_id: Callable[[], str]
) -> MessageQueue:
    topic = ensure_retry_topic(draft, DLQ_PREFIX + group, DLQ_QUEUE_NUMS, new_id)
    return MessageQueue(topic.name, broker_name, draw(DLQ_QUEUE_NUMS))


def _read_message(draft: Draft, request: SendBack) -> StoredMessage:
    queue, queue_offset = request.queue, request.queue_offset
    bounds = draft.find_kept_bounds(queue)
    if not bounds.min_offset <= queue_offset < bounds.max_offset:
        named = queue_offset if request.physical_offset is None else request.physical_offset
        raise InternalError(f"look message by offset failed, {named}")
    (original,) = columns.to_rows(draft.state.store.read(queue, queue_offset, queue_offset + 1))
    return original


def _copy(message: Message, topic: str, msg_id: str, level: int) -> Message:
    """Returns the copy of a returned message to store. It keeps the first topic and the first id through all
    retries."""
    properties = {"RETRY_TOPIC": topic, "ORIGIN_MESSAGE_ID": msg_id, **message.system_properties}
    properties.update(WAIT="false", DELAY=str(level))
    # A broker that finds both a level and a delivery time on a message follows the level (rules 3.14.2).
    delivery_ms = None if level > 0 else message.delivery_timestamp_ms
    return replace(message, delivery_timestamp_ms=delivery_ms, system_properties=properties)
