"""Chooses the transport: what a server says of itself decides how it is spoken to."""

from __future__ import annotations

from rmqpull_client.connection import Connection
from rmqpull_client.flow import DEFAULT_FLOW, Flow
from rmqpull_client.transports.columnar.client import ColumnarClient
from rmqpull_client.transports.grpc.channel import BrokerChannel, get_channel
from rmqpull_client.transports.grpc.failures import Unserved
from rmqpull_client.transports.port import BrokerClient
from rmqpull_client.transports.standard.client import StandardClient


def connect(connection: Connection | str, flow: Flow = DEFAULT_FLOW) -> BrokerClient:
    """A client for the broker that ``connection`` names, or that listens at HOST:PORT; the process shares its channel.

    Raises BrokerUnavailable when nobody answers in time.
    """
    channel = get_channel(Connection(connection) if isinstance(connection, str) else connection)
    return ColumnarClient(channel, flow) if _has_columns(channel) else StandardClient(channel, flow)


def _has_columns(channel: BrokerChannel) -> bool:
    if channel.has_columns is None:
        try:
            channel.has_columns = "columns" in ColumnarClient(channel).extensions()
        except Unserved:
            channel.has_columns = False
    return channel.has_columns
