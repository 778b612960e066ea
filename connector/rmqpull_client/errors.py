"""What can go wrong, by who can mend it. Every text says what, where, what was seen and what to do.

RmqpullError
├── OptionError          the query must be changed
│   └── TopicMissing     a topic or queue that is named does not exist, or not yet
├── BrokerUnavailable    nobody answers in time; trying again may help, and has been tried
├── HandshakeFailed      TLS cannot be agreed on with the server
├── RequestRefused       the broker answers with a refusal
├── CheckpointConflict   the broker has committed another micro-batch of this query under the same or a later number
├── DataLoss             messages that should be read are gone
├── BodyDamaged          a packed body cannot be unpacked
└── InvalidRowError      a row cannot be sent as a message
"""

from __future__ import annotations

from typing import ClassVar


class RmqpullError(Exception):
    """Base of all errors of the connector. ``retriable`` says whether the same call may succeed later."""

    retriable: ClassVar[bool] = False


class OptionError(RmqpullError):
    """An option or a schema that the source or the sink cannot work with."""


class TopicMissing(OptionError):
    """A topic or a queue that options name and that never was there."""


class BrokerUnavailable(RmqpullError):
    """No answer from the endpoints within ``requestTimeoutMs``."""

    retriable = True


class HandshakeFailed(RmqpullError):
    """The server's certificate is not trusted, or it does not speak TLS: waiting would not help."""


class RequestRefused(RmqpullError):
    """A status other than OK; ``code`` is the name of an ``apache.rocketmq.v2.Code``."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[RequestRefused], tuple[str, str]]:
        # Tasks send their errors to the driver pickled.
        return RequestRefused, (self.code, str(self))


class CheckpointConflict(RmqpullError):
    """A checkpoint that was restored or copied numbers its micro-batches as others that the broker has committed."""


class DataLoss(RmqpullError):
    """Messages between the position of the query and what the broker still has are gone."""


class InvalidRowError(RmqpullError):
    """A row that no broker would take for a message."""


class BodyDamaged(RmqpullError):
    """A body that is marked as packed and is not, or not whole."""
