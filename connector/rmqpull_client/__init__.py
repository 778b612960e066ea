"""RocketMQ from Python, without Spark.

:func:`connect` gives a client for a broker; the other names are what its methods take and return. The client pulls,
publishes, and reads and sets consumer offsets, over whichever transport the server speaks.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rmqpull_client.connection import Connection, Credentials, Tls
from rmqpull_client.errors import (
    BrokerUnavailable,
    DataLoss,
    HandshakeFailed,
    OptionError,
    RequestRefused,
    RmqpullError,
)
from rmqpull_client.flow import Flow
from rmqpull_client.model import Bounds, MessageFilter, MessageQueue, QueueRange, TopicBounds

if TYPE_CHECKING:
    from rmqpull_client.transports.choice import connect
    from rmqpull_client.transports.port import BrokerClient, QueueRows

__version__ = "0.1.0"

_TRANSPORTS = {"connect": "choice", "BrokerClient": "port", "QueueRows": "port"}

__all__ = [
    "Bounds",
    "BrokerClient",
    "BrokerUnavailable",
    "Connection",
    "Credentials",
    "DataLoss",
    "Flow",
    "HandshakeFailed",
    "MessageFilter",
    "MessageQueue",
    "OptionError",
    "QueueRange",
    "QueueRows",
    "RequestRefused",
    "RmqpullError",
    "Tls",
    "TopicBounds",
    "connect",
]


def __getattr__(name: str) -> Any:
    """Loads gRPC and Arrow only for those who connect: Spark imports the rest on each look-up of a data source."""
    if name not in _TRANSPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.transports.{_TRANSPORTS[name]}"), name)
