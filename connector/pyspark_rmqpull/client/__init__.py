"""The broker as the connector sees it: one port, :class:`BrokerClient`, over the transports that servers speak.

:func:`connect` asks the server once which extensions it has, and gives the columnar client or the standard one.
"""

from __future__ import annotations

from pyspark_rmqpull.client.channel import BrokerChannel, Unserved, channel_of_process
from pyspark_rmqpull.client.columnar import ColumnarClient
from pyspark_rmqpull.client.port import BrokerClient, QueueRows
from pyspark_rmqpull.client.standard import StandardClient

__all__ = ["BrokerClient", "QueueRows", "connect"]


def connect(endpoints: str, request_timeout_ms: int = 10_000, pull_batch_size: int = 32) -> BrokerClient:
    """A client for the broker at ``endpoints``; its channel is shared by this process.

    Raises BrokerUnavailable when nobody answers within ``request_timeout_ms``.
    """
    channel = channel_of_process(endpoints, request_timeout_ms)
    return ColumnarClient(channel) if _has_columns(channel) else StandardClient(channel, pull_batch_size)


def _has_columns(channel: BrokerChannel) -> bool:
    if channel.has_columns is None:
        try:
            channel.has_columns = "columns" in ColumnarClient(channel).extensions()
        except Unserved:
            channel.has_columns = False
    return channel.has_columns
