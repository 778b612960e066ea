"""Refusals of the broker. A class is named after the ``apache.rocketmq.v2`` code that it becomes on the wire.

BrokerError
├── BadRequest, IllegalTopic, IllegalConsumerGroup, IllegalMessageTag, IllegalMessageKey, IllegalMessageGroup,
│   IllegalMessagePropertyKey, IllegalMessageId, IllegalFilterExpression, IllegalPollingTime,
│   IllegalOffset, MessagePropertyConflictWithType, MessageCorrupted, ClientIdRequired,
│   MessageBodyEmpty, MessageBodyTooLarge, MessagePropertiesTooLarge      the caller must change the request
├── TopicNotFound, ConsumerGroupNotFound, OffsetNotFound                  what it names is not there
├── TooManyRequests                                                       the caller may try again later
└── InternalError, NotImplementedYet                                      the server cannot do it
"""

from __future__ import annotations

import re
from typing import ClassVar


class BrokerError(Exception):
    """A request that is answered with a code and a sentence instead of a result.

    ``code`` is the name of a value of ``apache.rocketmq.v2.Code`` (rocketmq-semantics 5.4), made from the class's own.
    """

    code: ClassVar[str] = "INTERNAL_SERVER_ERROR"

    def __init_subclass__(cls) -> None:
        if "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).upper()


class BadRequest(BrokerError):
    """The request contradicts itself or the topic."""


class IllegalTopic(BrokerError):
    """No topic that clients may use can have this name."""


class IllegalConsumerGroup(BrokerError):
    """No consumer group that clients may use can have this name."""


class IllegalMessageTag(BrokerError):
    """A tag is blank, or holds ``|`` or a control character."""


class IllegalMessageKey(BrokerError):
    """A key is blank or holds a control character."""


class IllegalMessageGroup(BrokerError):
    """A message group is blank, too long, or holds a control character."""


class IllegalMessagePropertyKey(BrokerError):
    """A user property has a reserved name or holds a control character."""


class IllegalMessageId(BrokerError):
    """A message has no id."""


class IllegalFilterExpression(BrokerError):
    """A filter expression cannot be read."""


class IllegalPollingTime(BrokerError):
    """A pull asks to be held for too long."""


class IllegalOffset(BrokerError):
    """An offset that no queue can have."""


class MessagePropertyConflictWithType(BrokerError):
    """A message is of another type than its topic takes."""


class MessageCorrupted(BrokerError):
    """What was sent cannot be read as messages."""


class ClientIdRequired(BrokerError):
    """The call does not say which client makes it."""


class MessageBodyEmpty(BrokerError):
    """A message has no body."""


class MessageBodyTooLarge(BrokerError):
    """A body is above the limit."""


class MessagePropertiesTooLarge(BrokerError):
    """There are too many user properties, or they are too large."""


class TopicNotFound(BrokerError):
    """The topic does not exist."""


class ConsumerGroupNotFound(BrokerError):
    """The consumer group does not exist."""


class OffsetNotFound(BrokerError):
    """The group has no offset on this queue."""


class TooManyRequests(BrokerError):
    """Too much waits already; the same call may succeed later."""


class InternalError(BrokerError):
    """The broker cannot keep what it was sent."""


class NotImplementedYet(BrokerError):
    """A part of RocketMQ that this broker does not serve yet."""

    code = "NOT_IMPLEMENTED"
