"""Refusals of the broker. A class is named after the ``apache.rocketmq.v2`` code that it becomes on the wire.

BrokerError
├── BadRequest, IllegalTopic, IllegalConsumerGroup, IllegalMessageTag, IllegalMessageKey, IllegalMessageGroup,
│   IllegalMessagePropertyKey, IllegalMessageId, IllegalFilterExpression, IllegalDeliveryTime,
│   IllegalPollingTime, IllegalOffset, MessagePropertyConflictWithType, MessageCorrupted, ClientIdRequired,
│   MessageBodyEmpty, MessageBodyTooLarge, MessagePropertiesTooLarge      the caller must change the request
├── TopicNotFound, ConsumerGroupNotFound, OffsetNotFound                  what it names is not there
├── TooManyRequests                                                       the caller may try again later
└── InternalError, NotImplementedYet                                      the server cannot do it
"""

from __future__ import annotations

from typing import ClassVar


class BrokerError(Exception):
    """A request that is answered with a code and a sentence instead of a result.

    ``code`` is the name of a value of ``apache.rocketmq.v2.Code`` (rocketmq-semantics 5.4).
    """

    code: ClassVar[str] = "INTERNAL_SERVER_ERROR"


class BadRequest(BrokerError):
    code = "BAD_REQUEST"


class IllegalTopic(BrokerError):
    code = "ILLEGAL_TOPIC"


class IllegalConsumerGroup(BrokerError):
    code = "ILLEGAL_CONSUMER_GROUP"


class IllegalMessageTag(BrokerError):
    code = "ILLEGAL_MESSAGE_TAG"


class IllegalMessageKey(BrokerError):
    code = "ILLEGAL_MESSAGE_KEY"


class IllegalMessageGroup(BrokerError):
    code = "ILLEGAL_MESSAGE_GROUP"


class IllegalMessagePropertyKey(BrokerError):
    code = "ILLEGAL_MESSAGE_PROPERTY_KEY"


class IllegalMessageId(BrokerError):
    code = "ILLEGAL_MESSAGE_ID"


class IllegalFilterExpression(BrokerError):
    code = "ILLEGAL_FILTER_EXPRESSION"


class IllegalDeliveryTime(BrokerError):
    code = "ILLEGAL_DELIVERY_TIME"


class IllegalPollingTime(BrokerError):
    code = "ILLEGAL_POLLING_TIME"


class IllegalOffset(BrokerError):
    code = "ILLEGAL_OFFSET"


class MessagePropertyConflictWithType(BrokerError):
    code = "MESSAGE_PROPERTY_CONFLICT_WITH_TYPE"


class MessageCorrupted(BrokerError):
    code = "MESSAGE_CORRUPTED"


class ClientIdRequired(BrokerError):
    code = "CLIENT_ID_REQUIRED"


class MessageBodyEmpty(BrokerError):
    code = "MESSAGE_BODY_EMPTY"


class MessageBodyTooLarge(BrokerError):
    code = "MESSAGE_BODY_TOO_LARGE"


class MessagePropertiesTooLarge(BrokerError):
    code = "MESSAGE_PROPERTIES_TOO_LARGE"


class TopicNotFound(BrokerError):
    code = "TOPIC_NOT_FOUND"


class ConsumerGroupNotFound(BrokerError):
    code = "CONSUMER_GROUP_NOT_FOUND"


class OffsetNotFound(BrokerError):
    code = "OFFSET_NOT_FOUND"


class TooManyRequests(BrokerError):
    code = "TOO_MANY_REQUESTS"


class InternalError(BrokerError):
    code = "INTERNAL_ERROR"


class NotImplementedYet(BrokerError):
    code = "NOT_IMPLEMENTED"
