"""The errors of queries: those of the client, and those that only Spark's side raises.

OptionError
└── TopicMissing         a topic or queue that an option names does not exist, or not yet
RmqpullError
├── CheckpointConflict   the broker has committed another micro-batch of the query under the same or a later number
├── BodyDamaged          a compressed body cannot be decompressed
└── InvalidRowError      a row cannot be sent as a message
"""

from __future__ import annotations

from rmqpull_client.errors import (
    BrokerUnavailable,
    DataLoss,
    HandshakeFailed,
    OptionError,
    RequestRefused,
    RmqpullError,
)

__all__ = [
    "BodyDamaged",
    "BrokerUnavailable",
    "CheckpointConflict",
    "DataLoss",
    "HandshakeFailed",
    "InvalidRowError",
    "OptionError",
    "RequestRefused",
    "RmqpullError",
    "TopicMissing",
]


class TopicMissing(OptionError):
    """A topic or queue that an option names and that does not exist."""


class CheckpointConflict(RmqpullError):
    """The checkpoint was restored or copied: the broker has committed another micro-batch under the same number."""


class CommitGap(RmqpullError):
    """The broker has never committed the micro-batches before this one (option ``onCommitGap``)."""


class InvalidRowError(RmqpullError):
    """A row that no broker would accept as a message."""


class BodyDamaged(RmqpullError):
    """A body that is marked as compressed and cannot be decompressed."""
