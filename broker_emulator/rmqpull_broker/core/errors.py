"""The broker's refusals. Each class has the name of its ``apache.rocketmq.v2`` code.

BrokerError
├── BadRequest, IllegalTopic, IllegalConsumerGroup, IllegalMessageTag, IllegalMessageKey, IllegalMessageGroup,
│   IllegalMessagePropertyKey, IllegalMessageId, IllegalFilterExpression, IllegalPollingTime, IllegalDeliveryTime,
│   IllegalOffset, IllegalResetOffset, NothingToReset, IllegalInvisibleTime, InvalidReceiptHandle,
│   IllegalDelivery, NoMessage, PollingTimeout,
│   InvalidTransactionId, MessagePropertyConflictWithType,
│   MessageCorrupted, ClientIdRequired, UnrecognizedClientType, InvalidClientProperties, MessageBodyEmpty,
│   MessageBodyTooLarge, MessagePropertiesTooLarge                        the caller must change the request
├── Forbidden, FilterNotSupported                                         a permission or a property forbids it
├── TopicNotFound, ConsumerGroupNotFound, OffsetNotFound the request names what does not exist
├── SubscriptionNotExist, SubscriptionNotLatest, FilterDataNotExist,
│   FilterDataNotLatest                                                   the group's heartbeat does not fit the pull
├── TooManyRequests                                                       the caller may try again later
├── IllegalOperation, WrongTransaction, PreconditionFailed                its time or its target is wrong
└── InternalError (RequestFailed), ServiceNotAvailable                    the server cannot do it
"""

from __future__ import annotations

import enum
import re
from typing import ClassVar

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""What Apache's brokers add to some of their refusals."""


class BrokerError(Exception):
    """A request that gets a code and a message instead of a result.

    ``code`` is the name of a value of ``apache.rocketmq.v2.Code`` (rules 5.4), derived from the class name;
    ``response_code`` is the code of a broker that speaks the remoting protocol (rules 3.1, 3.10.1).
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
    """Clients cannot use a topic with this name."""

    response_code = 29


class IllegalConsumerGroup(BrokerError):
    """Clients cannot use a consumer group with this name."""

    response_code = 29


class IllegalMessageTag(BrokerError):
    """A tag is blank, or contains ``|`` or a control character."""

    response_code = 13


class IllegalMessageKey(BrokerError):
    """A key is blank or contains a control character."""

    response_code = 13


class IllegalMessageGroup(BrokerError):
    """A message group is blank, too long, or contains a control character."""

    response_code = 13


class IllegalMessagePropertyKey(BrokerError):
    """A user property has a reserved name or contains a control character."""

    response_code = 13


class IllegalMessageId(BrokerError):
    """A message has no id."""

    response_code = 13


class IllegalFilterExpression(BrokerError):
    """A filter expression cannot be parsed."""

    response_code = 23


class IllegalPollingTime(BrokerError):
    """A pull requests to park for too long."""


class IllegalOffset(BrokerError):
    """An offset is negative, or a range of offsets is empty."""

    response_code = 29


class IllegalResetOffset(BrokerError):
    """An offset for a reset is outside its queue."""

    code = "ILLEGAL_OFFSET"


class NothingToReset(BrokerError):
    """A reset names a topic without queues."""

    code = "BAD_REQUEST"


class IllegalInvisibleTime(BrokerError):
    """An invisible time is too short or too long."""


class InvalidReceiptHandle(BrokerError):
    """A receipt handle cannot be parsed, or has expired."""


class IllegalDelivery(BrokerError):
    """A receipt names a queue that the topic does not have, or a message that was not delivered with it."""

    code = "INVALID_RECEIPT_HANDLE"
    response_code = 13


class NoMessage(BrokerError):
    """A receipt names an offset at which its queue has no message."""

    code = "INVALID_RECEIPT_HANDLE"
    response_code = 208


class PollingTimeout(BrokerError):
    """A pop arrives after its consumer has given up on it."""

    code = "MESSAGE_NOT_FOUND"
    response_code = 210


class IllegalDeliveryTime(BrokerError):
    """A delivery time is too far in the future."""

    response_code = 13


class InvalidTransactionId(BrokerError):
    """A call does not name its transaction, or another transaction was committed under its id and number."""


class UnrecognizedClientType(BrokerError):
    """A client has sent no settings, or its type is not supported."""


class InvalidClientProperties(BrokerError):
    """The settings of a client have too many client properties."""


class MessagePropertyConflictWithType(BrokerError):
    """The topic does not accept messages of this type."""

    response_code = 13


class MessageCorrupted(BrokerError):
    """A send has no messages, mixes topics, or cannot be parsed."""

    response_code = 13


class ClientIdRequired(BrokerError):
    """The call has no client id."""


class MessageBodyEmpty(BrokerError):
    """A message has no body."""

    response_code = 13


class MessageBodyTooLarge(BrokerError):
    """A body exceeds the limit."""

    response_code = 13


class MessagePropertiesTooLarge(BrokerError):
    """There are too many user properties, or they are too large."""

    response_code = 13


class ForbiddenType(enum.IntEnum):
    """What forbids a pull: ``forbiddenType`` of its response (rules 3.1)."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING_DISABLE = 4
    SUBSCRIPTION = 5


class Forbidden(BrokerError):
    """A permission or a property of the broker forbids it. ``forbidden_type`` is None except for pulls."""

    response_code = 16

    def __init__(self, message: str, forbidden_type: ForbiddenType | None = None) -> None:
        super().__init__(message)
        self.forbidden_type = forbidden_type


class FilterNotSupported(BrokerError):
    """The broker's ``enablePropertyFilter`` is off, so it filters only by tags."""

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


class SubscriptionNotExist(BrokerError):
    """The group has sent no heartbeat with a subscription to the topic."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 24


class SubscriptionNotLatest(BrokerError):
    """The group's subscription is older than that of the pull."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 25


class FilterDataNotExist(BrokerError):
    """The group's subscription has no filter that can be evaluated."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 27


class FilterDataNotLatest(BrokerError):
    """The group's filter is older than that of the pull."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 28


class TooManyRequests(BrokerError):
    """A limit is reached; the same call may succeed later."""

    response_code = 2


class WrongTransaction(BrokerError):
    """The half message does not exist, or belongs to another producer group."""

    code = "INTERNAL_SERVER_ERROR"


class IllegalOperation(BrokerError):
    """A recall handle is invalid or too late, or a half message is ended too late."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 604


class PreconditionFailed(BrokerError):
    """A stage is missing, incomplete or already committed, its topic was deleted, or a commit lacks rows."""


class ServiceNotAvailable(BrokerError):
    """Nothing can be stored: the disk is full, or the commit log failed."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = 14


class InternalError(BrokerError):
    """Any error for which RocketMQ has only SYSTEM_ERROR."""

    code = "INTERNAL_SERVER_ERROR"


class RequestFailed(InternalError):
    """A request that makes a handler of Apache's broker throw. The text is that of the Java exception, not ours."""

    code = "INTERNAL_SERVER_ERROR"
