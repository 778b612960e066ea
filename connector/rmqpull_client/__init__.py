"""A RocketMQ client without Spark: publish, read ranges of queues, and keep consumer offsets.

:func:`connect` returns a :class:`BrokerClient`. The other names are what its methods take, return and raise, RocketMQ's
allocation strategies, and the file of a broadcasting group's offsets. ``docs/client.md`` shows how to use them. Names
that are not in ``__all__`` may change with any release.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmqpull_client.allocation.machine_room import ByMachineRoom, MachineRoomNearby, MachineRoomResolver
from rmqpull_client.allocation.strategies import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    Strategy,
    balance_backlog,
)
from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import (
    BrokerBusy,
    BrokerFailed,
    BrokerUnavailable,
    DataLoss,
    FilterRefused,
    GroupNotFound,
    HandshakeFailed,
    OffsetNotFound,
    OptionError,
    QueueNotFound,
    RequestRefused,
    RmqpullError,
    RowsRefused,
    TopicNotFound,
    Unserved,
)
from rmqpull_client.flow import Flow
from rmqpull_client.loss import Loss
from rmqpull_client.model import (
    EVERYTHING,
    SQL92,
    TAG,
    Bounds,
    GroupProgress,
    MessageFilter,
    MessageQueue,
    Part,
    QueueRange,
    RangeToCut,
    TopicBounds,
)
from rmqpull_client.offsets.local_file import LocalFileOffsetStore

if TYPE_CHECKING:
    from rmqpull_client.transports.choice import connect
    from rmqpull_client.transports.port import BrokerClient, QueueRows
    from rmqpull_proto.columns import PUBLISH_SCHEMA, PULLABLE_SCHEMA

__version__ = "0.2.0.dev0"

_LOADED_ON_USE = {
    "connect": "rmqpull_client.transports.choice",
    "BrokerClient": "rmqpull_client.transports.port",
    "QueueRows": "rmqpull_client.transports.port",
    "PUBLISH_SCHEMA": "rmqpull_proto.columns",
    "PULLABLE_SCHEMA": "rmqpull_proto.columns",
}
"""The modules of names that need gRPC or Arrow. Spark imports this package whenever it looks up data sources, and must
not load these."""

__all__ = [
    "EVERYTHING",
    "PUBLISH_SCHEMA",
    "PULLABLE_SCHEMA",
    "SQL92",
    "TAG",
    "Averagely",
    "AveragelyByCircle",
    "Bounds",
    "BrokerBusy",
    "BrokerClient",
    "BrokerFailed",
    "BrokerUnavailable",
    "ByConfig",
    "ByMachineRoom",
    "Connection",
    "ConsistentHash",
    "Credentials",
    "DataLoss",
    "FilterRefused",
    "Flow",
    "GroupNotFound",
    "GroupProgress",
    "HandshakeFailed",
    "LocalFileOffsetStore",
    "Loss",
    "MachineRoomNearby",
    "MachineRoomResolver",
    "MessageFilter",
    "MessageQueue",
    "OffsetNotFound",
    "OptionError",
    "Part",
    "QueueNotFound",
    "QueueRange",
    "QueueRows",
    "RangeToCut",
    "RequestRefused",
    "RmqpullError",
    "RowsRefused",
    "Strategy",
    "Tls",
    "TopicBounds",
    "TopicNotFound",
    "Unserved",
    "balance_backlog",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Loads a name of ``_LOADED_ON_USE``."""
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LOADED_ON_USE[name]), name)
