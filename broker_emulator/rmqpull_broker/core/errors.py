"""Refusals of the broker. A class is named after the ``apache.rocketmq.v2`` code that it becomes on the wire.

BrokerError
├── BadRequest, IllegalTopic, IllegalConsumerGroup, IllegalMessageTag, IllegalMessageKey, IllegalMessageGroup,
│   IllegalMessagePropertyKey, IllegalMessageId, IllegalFilterExpression, IllegalPollingTime, IllegalDeliveryTime,
│   IllegalOffset, IllegalResetOffset, NothingToReset, InvalidTransactionId, MessagePropertyConflictWithType,
│   MessageCorrupted, ClientIdRequired, UnrecognizedClientType, InvalidClientProperties, MessageBodyEmpty,
│   MessageBodyTooLarge, MessagePropertiesTooLarge                        the caller must change the request
├── Forbidden, FilterNotSupported                                         a permission or a switch is against it
├── TopicNotFound, ConsumerGroupNotFound, OffsetNotFound, MessageNotFound what it names is not there
├── SubscriptionNotExist, SubscriptionNotLatest, FilterDataNotExist,
│   FilterDataNotLatest                                                   the group's heartbeat does not fit the pull
├── TooManyRequests                                                       the caller may try again later
├── IllegalOperation, WrongTransaction, PreconditionFailed                it comes at the wrong time, or to the wrong
└── InternalError, NotLeaderForQueue, ServiceNotAvailable                 the server cannot do it
"""

from __future__ import annotations

import enum
import re
from typing import ClassVar


class BrokerError(Exception):
    """A request that is answered with a code and a sentence instead of a result.

    ``code`` is the name of a value of ``apache.rocketmq.v2.Code`` (rules 5.4), made from the class's own;
    ``response_code`` is what a broker answers over the remoting protocol (rules 3.1, 3.10.1).
    """

    code: ClassVar[str] = "INTERNAL_SERVER_ERROR"
    response_code: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()


class BadRequest(BrokerError):
    """The request contradicts itself or the topic."""

    response_code = 29


class IllegalTopic(BrokerError):
    """No topic that clients may use can have this name."""

    response_code = 29


class IllegalConsumerGroup(BrokerError):
    """No consumer group that clients may use can have this name."""

    response_code = 29


class IllegalMessageTag(BrokerError):
    """A tag is blank, or holds ``|`` or a control character."""

    response_code = 13


class IllegalMessageKey(BrokerError):
    """A key is blank or holds a control character."""

    response_code = 13


class IllegalMessageGroup(BrokerError):
    """A message group is blank, too long, or holds a control character."""

    response_code = 13


class IllegalMessagePropertyKey(BrokerError):
    """A user property has a reserved name or holds a control character."""

    response_code = 13


class IllegalMessageId(BrokerError):
    """A message has no id."""

    response_code = 13


class IllegalFilterExpression(BrokerError):
    """A filter expression cannot be read."""

    response_code = 23


class IllegalPollingTime(BrokerError):
    """A pull asks to be held for too long."""


class IllegalOffset(BrokerError):
    """An offset that no queue can have."""

    response_code = 29


class IllegalResetOffset(BrokerError):
    """A group cannot be set to this offset from outside: it lies beyond the ends of its queue."""

    code = "ILLEGAL_OFFSET"


class NothingToReset(BrokerError):
    """A group is to be reset on a topic without queues."""

    code = "BAD_REQUEST"


class IllegalDeliveryTime(BrokerError):
    """A delivery time that is too far away."""

    response_code = 13


class InvalidTransactionId(BrokerError):
    """A transaction is ended without saying which, or its id and number stand for another one that was committed."""


class UnrecognizedClientType(BrokerError):
    """A client that never told its settings, or of a kind that is not served."""


class InvalidClientProperties(BrokerError):
    """An application says too much of itself."""


class MessagePropertyConflictWithType(BrokerError):
    """A message is of another type than its topic takes."""

    response_code = 13


class MessageCorrupted(BrokerError):
    """What was sent cannot be read as messages."""

    response_code = 13


class ClientIdRequired(BrokerError):
    """The call does not say which client makes it."""


class MessageBodyEmpty(BrokerError):
    """A message has no body."""

    response_code = 13


class MessageBodyTooLarge(BrokerError):
    """A body is above the limit."""

    response_code = 13


class MessagePropertiesTooLarge(BrokerError):
    """There are too many user properties, or they are too large."""

    response_code = 13


class ForbiddenType(enum.IntEnum):
    """What forbids a pull: ``forbiddenType`` of its answer (rules 3.1)."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING_DISABLE = 4
    SUBSCRIPTION = 5


class Forbidden(BrokerError):
    """A permission, or a switch of the broker, is against it. ``forbidden_type`` is None for other calls than pulls."""

    response_code = 16

    def __init__(self, message: str, forbidden_type: ForbiddenType | None = None) -> None:
        super().__init__(message)
        self.forbidden_type = forbidden_type


class FilterNotSupported(BrokerError):
    """The broker's ``enablePropertyFilter`` is off, so that it filters by nothing but tags."""

    code = "INTERNAL_SERVER_ERROR"


class TopicNotFound(BrokerError):
    """The topic does not exist."""

    response_code = 17


class ConsumerGroupNotFound(BrokerError):
    """The consumer group does not exist."""

    response_code = 26


class OffsetNotFound(BrokerError):
    """The group has no offset on this queue."""

    response_code = 22


class MessageNotFound(BrokerError):
    """There is no message at this place, or it cannot be recalled any more."""


class SubscriptionNotExist(BrokerError):
    """The group sent no heartbeat, or none that subscribes to the topic."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 24


class SubscriptionNotLatest(BrokerError):
    """The group's subscription is older than the pull's."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 25


class FilterDataNotExist(BrokerError):
    """The group's subscription has no filter that can be evaluated."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 27


class FilterDataNotLatest(BrokerError):
    """The group's filter is older than the pull's."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 28


class TooManyRequests(BrokerError):
    """Too much waits already; the same call may succeed later."""

    response_code = 2


class WrongTransaction(BrokerError):
    """There is no such half message, or it is another producer group's."""

    code = "INTERNAL_SERVER_ERROR"


class IllegalOperation(BrokerError):
    """What is asked comes at the wrong time."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 604


class PreconditionFailed(BrokerError):
    """What is asked for needs something that is not there any more."""


class ServiceNotAvailable(BrokerError):
    """Nothing can be stored: the disk is full, or the commit log failed."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 14


class InternalError(BrokerError):
    """What RocketMQ answers with SYSTEM_ERROR: whatever has no code of its own."""

    code = "INTERNAL_SERVER_ERROR"


class NotLeaderForQueue(BrokerError):
    """A static topic's queue is led by another broker."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 501
