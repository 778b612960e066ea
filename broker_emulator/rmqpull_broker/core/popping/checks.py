"""The broker's checks before it delivers a message or accepts a receipt, in RocketMQ's order (rules 3.17).

They are those of the remoting protocol; for gRPC clients, the proxy's own checks come first.
"""

from __future__ import annotations

from typing import NamedTuple

from rmqpull_broker.core.admin.groups import find_or_create_group
from rmqpull_broker.core.errors import (
    FAQ,
    BadRequest,
    BrokerError,
    ConsumerGroupNotFound,
    Forbidden,
    IllegalDelivery,
    IllegalFilterExpression,
    NoMessage,
    PollingTimeout,
    RequestFailed,
    TopicNotFound,
)
from rmqpull_broker.core.filters.message_filter import EVERYTHING, MessageFilter, bind_constants, make_pull_filter
from rmqpull_broker.core.messages.message_properties import make_common_properties
from rmqpull_broker.core.model import PERM_READ, MessageQueue, TopicConfig
from rmqpull_broker.core.popping.request import MESSAGES_MAX
from rmqpull_broker.core.state.draft import Draft

LATE_MS = 500
"""If a pop is handled this long after its polling time has ended, its consumer has given up on it."""


class Asked(NamedTuple):
    """What a consumer requests, and what refusals name: the consumer, and the address of the broker.

    ``what`` is the word for the request in the texts of Apache's broker.
    """

    group: str
    topic: str
    queue_id: int
    remote_address: str
    broker_ip: str
    what: str = "peeking"


def check_pop(draft: Draft, asked: Asked, late_ms: int, max_msg_nums: int) -> TopicConfig:
    """Checks a pop by all rows except that of its filter. ``late_ms`` is the time since its polling time ended.

    Adds GroupPut to the draft. Raises PollingTimeout, Forbidden, BadRequest, TopicNotFound and ConsumerGroupNotFound.
    """
    if late_ms > LATE_MS:
        raise PollingTimeout(f"the broker[{asked.broker_ip}] pop message is timeout too much")
    _check_broker(draft, asked)
    if max_msg_nums > MESSAGES_MAX:
        raise BadRequest(f"the broker[{asked.broker_ip}] pop message's num is greater than {MESSAGES_MAX}")
    if not draft.properties.timer_wheel_enable:
        text = f"the broker[{asked.broker_ip}] pop message is forbidden because timerWheelEnable is false"
        raise RequestFailed(text)
    return _check_topic_and_group(draft, asked)


def check_reader(draft: Draft, asked: Asked) -> TopicConfig:
    """Checks a request that delivers nothing: PEEK_MESSAGE, NOTIFICATION, POLLING_INFO. Raises like :func:`check_pop`.

    Adds GroupPut to the draft.
    """
    _check_broker(draft, asked)
    return _check_topic_and_group(draft, asked)


def _check_broker(draft: Draft, asked: Asked) -> None:
    if not draft.properties.broker_permission & PERM_READ:
        raise Forbidden(f"the broker[{asked.broker_ip}] {asked.what} message is forbidden")


def _check_topic_and_group(draft: Draft, asked: Asked) -> TopicConfig:
    topic = _find_topic(draft, asked)
    if not topic.is_readable:
        # Apache's broker writes "peeking" here for pops too.
        raise Forbidden(f"the topic[{asked.topic}] peeking message is forbidden")
    if asked.queue_id >= topic.read_queue_nums:
        raise BadRequest(_describe_bad_queue(asked, topic))
    group = find_or_create_group(draft, asked.group)
    if group is None:
        raise ConsumerGroupNotFound(f"subscription group [{asked.group}] does not exist, {FAQ}")
    if not group.consume_enable:
        raise Forbidden(f"subscription group no permission, {asked.group}")
    return topic


def _find_topic(draft: Draft, asked: Asked) -> TopicConfig:
    topic = draft.find_topic(asked.topic)
    if topic is None:
        raise TopicNotFound(f"topic[{asked.topic}] not exist, apply first please! {FAQ}")
    return topic


def _describe_bad_queue(asked: Asked, topic: TopicConfig) -> str:
    return (
        f"queueId[{asked.queue_id}] is illegal, topic:[{asked.topic}] "
        f"topicConfig.readQueueNums:[{topic.read_queue_nums}] consumer:[{asked.remote_address}]"
    )


def make_pop_filter(draft: Draft, expression_type: str | None, expression: str | None) -> MessageFilter:
    """Returns the filter of a pop. Unlike for pulls, brokers evaluate SQL even without ``enablePropertyFilter``.

    Raises IllegalFilterExpression, also for malformed SQL, which in a pull passes every message.
    """
    if not expression:
        return EVERYTHING
    try:
        built = make_pull_filter(expression_type, expression, enable_property_filter=True, is_strict=True)
    except BrokerError:
        raise IllegalFilterExpression("parse the consumer's subscription failed") from None
    return bind_constants(built, make_common_properties(draft.properties))


def check_receipt(draft: Draft, asked: Asked, queue: MessageQueue, offset: int, *, is_change: bool = False) -> None:
    """Checks the queue and offset of a receipt. Raises TopicNotFound, IllegalDelivery and NoMessage.

    A change of the invisible time needs a message at ``offset``. An acknowledgement may also name the max offset.
    """
    topic = _find_topic(draft, asked)
    if not 0 <= asked.queue_id < topic.read_queue_nums:
        raise IllegalDelivery(_describe_bad_queue(asked, topic))
    first, last = draft.state.bounds(queue)
    if is_change and not first <= offset < last:
        raise NoMessage
    if not first <= offset <= last:
        place = f"{asked.topic}@{asked.queue_id}"
        raise NoMessage(f"offset is illegal, key:{place}, commit:{offset}, store:{first}~{last}")
