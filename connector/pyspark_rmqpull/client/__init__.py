"""The broker as the connector sees it: one port, :class:`BrokerClient`, over the transports that servers speak.

:func:`connect` asks the server once which extensions it has, and gives the columnar client or the standard one.
"""

from __future__ import annotations

from pyspark_rmqpull.client.channel import BrokerChannel, Unserved, channel_of_process
from pyspark_rmqpull.client.columnar import ColumnarClient
from pyspark_rmqpull.client.port import BrokerClient, QueueRows
from pyspark_rmqpull.client.standard import StandardClient
from pyspark_rmqpull.connection import Connection
from pyspark_rmqpull.flow import DEFAULT_FLOW, Flow

__all__ = ["BrokerClient", "Connection", "QueueRows", "connect"]


def connect(connection: Connection | str, flow: Flow = DEFAULT_FLOW) -> BrokerClient:
    """A client for the broker that ``connection`` names, or that listens at HOST:PORT; the process shares its channel.

    Raises BrokerUnavailable when nobody answers in time.
    """
    channel = channel_of_process(Connection(connection) if isinstance(connection, str) else connection)
    return ColumnarClient(channel, flow) if _has_columns(channel) else StandardClient(channel, flow)


def _has_columns(channel: BrokerChannel) -> bool:
    if channel.has_columns is None:
        try:
            channel.has_columns = "columns" in ColumnarClient(channel).extensions()
        except Unserved:
            channel.has_columns = False
    return channel.has_columns
