"""The errors of the client. Each text says what failed, where, what the server responded, and what to do.

RmqpullError
├── OptionError          a setting must be changed
├── BrokerUnavailable    no server responded in time, retries included
├── HandshakeFailed      the TLS handshake failed, or the server speaks another protocol
├── RequestRefused       the server refused the request; ``code`` is the status code
│   ├── Unserved         the server does not have this method
│   ├── BrokerBusy       the server asks to retry later, and retries did not help
│   ├── BrokerFailed     the server failed; it may or may not have executed the request
│   ├── FilterRefused    the broker does not evaluate this message filter
│   ├── TransactionTaken  another transaction was committed under this id
│   ├── RowsRefused      the server refused some rows of a batch and stored the others
│   └── TopicNotFound, QueueNotFound, GroupNotFound, OffsetNotFound
└── DataLoss             messages that should be read are lost
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar


class RmqpullError(Exception):
    """Base class of all errors. ``retriable`` says whether the same call may succeed later."""

    retriable: ClassVar[bool] = False


class OptionError(RmqpullError):
    """A setting that cannot work: of a connection, a file that it names, a filter, or an option of a query."""


class BrokerUnavailable(RmqpullError):
    """No server responded within the request timeout."""

    retriable = True


class HandshakeFailed(RmqpullError):
    """The server's certificate is not trusted, or it speaks another protocol than expected. Retries would not help."""


class DataLoss(RmqpullError):
    """Messages between the next offset to read and what the broker still has are lost."""


class RequestRefused(RmqpullError):
    """The server responded with a status other than OK.

    ``code`` is a name. With ``endpoints`` it is a code of ``apache.rocketmq.v2``, such as ``FORBIDDEN``, or of gRPC,
    such as ``INTERNAL``. With ``name_servers`` it is a response code of the remoting protocol, such as
    ``SUBSCRIPTION_GROUP_NOT_EXIST``, or its number if it has no known name.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code

    def __reduce__(self) -> tuple[type[RequestRefused], tuple[str, str]]:
        # Spark's tasks send their errors to the driver pickled.
        return type(self), (self.code, str(self))


class Unserved(RequestRefused):
    """The server does not have this method."""


class BrokerBusy(RequestRefused):
    """The server asked to retry later, until the retries were used up."""


class BrokerFailed(RequestRefused):
    """The server failed. It is not known whether it executed the request."""


class FilterRefused(RequestRefused):
    """The broker does not evaluate this message filter."""


class TransactionTaken(RequestRefused):
    """Another transaction was committed under this id."""


class RowsRefused(RequestRefused):
    """The server refused some rows of a batch, and has stored the others.

    ``reasons`` has the reason of each refused row by its number in the batch, from 0.
    """

    def __init__(self, code: str, text: str, reasons: Mapping[int, str]) -> None:
        super().__init__(code, text)
        self.reasons = dict(reasons)

    def __reduce__(self) -> tuple[type[RowsRefused], tuple[str, str, dict[int, str]]]:  # type: ignore[override]
        return type(self), (self.code, str(self), self.reasons)


class TopicNotFound(RequestRefused):
    """The topic does not exist."""


class QueueNotFound(RequestRefused):
    """The topic has no queue with this id."""


class GroupNotFound(RequestRefused):
    """The consumer group does not exist."""


class OffsetNotFound(RequestRefused):
    """The group has no consumer offset for this queue."""
