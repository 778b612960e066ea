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

from rmqpull_proto.remoting.codes import ResponseCode

FAQ = "\nSee https://rocketmq.apache.org/docs/bestPractice/06FAQ for further details."
"""What Apache's brokers add to some of their refusals."""


class BrokerError(Exception):
    """A request that gets a code and a message instead of a result.

    ``code`` is the name of a value of ``apache.rocketmq.v2.Code`` (rules 5.4), derived from the class name;
    ``response_code`` is the code of a broker that speaks the remoting protocol (rules 3.1, 3.10.1).
    """

    code: ClassVar[str] = "INTERNAL_SERVER_ERROR"
    response_code: ClassVar[ResponseCode] = ResponseCode.SYSTEM_ERROR

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()


class BadRequest(BrokerError):
    """The request contradicts itself or the topic."""

    response_code = ResponseCode.INVALID_PARAMETER


class IllegalTopic(BrokerError):
    """Clients cannot use a topic with this name."""

    response_code = ResponseCode.INVALID_PARAMETER


class IllegalConsumerGroup(BrokerError):
    """Clients cannot use a consumer group with this name."""

    response_code = ResponseCode.INVALID_PARAMETER


class IllegalMessageTag(BrokerError):
    """A tag is blank, or contains ``|`` or a control character."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class IllegalMessageKey(BrokerError):
    """A key is blank or contains a control character."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class IllegalMessageGroup(BrokerError):
    """A message group is blank, too long, or contains a control character."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class IllegalMessagePropertyKey(BrokerError):
    """A user property has a reserved name or contains a control character."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class IllegalMessageId(BrokerError):
    """A message has no id."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class IllegalFilterExpression(BrokerError):
    """A filter expression cannot be parsed."""

    response_code = ResponseCode.SUBSCRIPTION_PARSE_FAILED


class IllegalPollingTime(BrokerError):
    """A pull requests to park for too long."""


class IllegalOffset(BrokerError):
    """An offset is negative, or a range of offsets is empty."""

    response_code = ResponseCode.INVALID_PARAMETER


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
    response_code = ResponseCode.MESSAGE_ILLEGAL


class NoMessage(BrokerError):
    """A receipt names an offset at which its queue has no message."""

    code = "INVALID_RECEIPT_HANDLE"
    response_code = ResponseCode.NO_MESSAGE


class PollingTimeout(BrokerError):
    """A pop arrives after its consumer has given up on it."""

    code = "MESSAGE_NOT_FOUND"
    response_code = ResponseCode.POLLING_TIMEOUT


class IllegalDeliveryTime(BrokerError):
    """A delivery time is too far in the future."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class InvalidTransactionId(BrokerError):
    """A call does not name its transaction, or another transaction was committed under its id and number."""


class UnrecognizedClientType(BrokerError):
    """A client has sent no settings, or its type is not supported."""


class InvalidClientProperties(BrokerError):
    """The settings of a client have too many client properties."""


class MessagePropertyConflictWithType(BrokerError):
    """The topic does not accept messages of this type."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class MessageCorrupted(BrokerError):
    """A send has no messages, mixes topics, or cannot be parsed."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class ClientIdRequired(BrokerError):
    """The call has no client id."""


class MessageBodyEmpty(BrokerError):
    """A message has no body."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class MessageBodyTooLarge(BrokerError):
    """A body exceeds the limit."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class MessagePropertiesTooLarge(BrokerError):
    """There are too many user properties, or they are too large."""

    response_code = ResponseCode.MESSAGE_ILLEGAL


class ForbiddenType(enum.IntEnum):
    """What forbids a pull: ``forbiddenType`` of its response (rules 3.1)."""

    BROKER = 1
    GROUP = 2
    TOPIC = 3
    BROADCASTING_DISABLE = 4
    SUBSCRIPTION = 5


class Forbidden(BrokerError):
    """A permission or a property of the broker forbids it. ``forbidden_type`` is None except for pulls."""

    response_code = ResponseCode.NO_PERMISSION

    def __init__(self, message: str, forbidden_type: ForbiddenType | None = None) -> None:
        super().__init__(message)
        self.forbidden_type = forbidden_type


class FilterNotSupported(BrokerError):
    """The broker's ``enablePropertyFilter`` is off, so it filters only by tags."""

    code = "INTERNAL_SERVER_ERROR"


class TopicNotFound(BrokerError):
    """The topic does not exist."""

    response_code = ResponseCode.TOPIC_NOT_EXIST


class ConsumerGroupNotFound(BrokerError):
    """The consumer group does not exist."""

    response_code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


class OffsetNotFound(BrokerError):
    """The group has no offset on this queue."""

    response_code = ResponseCode.QUERY_NOT_FOUND


class SubscriptionNotExist(BrokerError):
    """The group has sent no heartbeat with a subscription to the topic."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.SUBSCRIPTION_NOT_EXIST


class SubscriptionNotLatest(BrokerError):
    """The group's subscription is older than that of the pull."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.SUBSCRIPTION_NOT_LATEST


class FilterDataNotExist(BrokerError):
    """The group's subscription has no filter that can be evaluated."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.FILTER_DATA_NOT_EXIST


class FilterDataNotLatest(BrokerError):
    """The group's filter is older than that of the pull."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.FILTER_DATA_NOT_LATEST


class TooManyRequests(BrokerError):
    """A limit is reached; the same call may succeed later."""

    response_code = ResponseCode.SYSTEM_BUSY


class WrongTransaction(BrokerError):
    """The half message does not exist, or belongs to another producer group."""

    code = "INTERNAL_SERVER_ERROR"


class IllegalOperation(BrokerError):
    """A recall handle is invalid or too late, or a half message is ended too late."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.ILLEGAL_OPERATION


class PreconditionFailed(BrokerError):
    """A stage is missing, incomplete or already committed, its topic was deleted, or a commit lacks rows."""


class ServiceNotAvailable(BrokerError):
    """Nothing can be stored: the disk is full, or the commit log failed."""

    code = "INTERNAL_SERVER_ERROR"
    response_code = ResponseCode.SERVICE_NOT_AVAILABLE


class InternalError(BrokerError):
    """Any error for which RocketMQ has only SYSTEM_ERROR."""

    code = "INTERNAL_SERVER_ERROR"


class RequestFailed(InternalError):
    """A request that makes a handler of Apache's broker throw. The text is that of the Java exception, not ours."""

    code = "INTERNAL_SERVER_ERROR"
