"""Chooses the transport for a connection."""

from __future__ import annotations

import importlib.util
import sys

from rmqpull_client.connection import Connection
from rmqpull_client.errors import OptionError, Unserved
from rmqpull_client.flow import DEFAULT_FLOW, Flow
from rmqpull_client.transports.port import BrokerClient, Producer

PRODUCER_GROUP = "rmqpull-producer"
"""The producer group of producers that name none."""


def connect(connection: Connection | str, flow: Flow = DEFAULT_FLOW) -> BrokerClient:
    """Returns a client for a broker, over the fastest transport that the server has.

    With ``Connection.name_servers`` it is a client for a RocketMQ cluster, over the remoting protocol. It connects when
    it is used. All clients of a process with equal connections share one gRPC connection, or a pool of connections.

    Args:
        connection: The settings, or just the endpoints ``HOST:PORT``.
        flow: The limits of reads.

    Raises BrokerUnavailable if no server responds in time, HandshakeFailed if the TLS handshake fails, OptionError if a
    certificate or key file cannot be used or NumPy is missing, and RequestRefused, for example for wrong keys.
    """
    settings = Connection(connection) if isinstance(connection, str) else connection
    if settings.name_servers:
        _require_numpy()
        # Imported here, because it needs NumPy, which gRPC does not.
        from rmqpull_client.transports.remoting.client import get_remoting_client

        return get_remoting_client(settings, flow)
    return _connect_by_grpc(settings, flow)


def get_producer(connection: Connection, producer_group: str = PRODUCER_GROUP) -> Producer:
    """Returns a producer for Spark's sink, over this process's connection to the server. One thread uses it."""
    if connection.name_servers:
        _require_numpy()
        # Imported here, because it needs NumPy, which gRPC does not.
        from rmqpull_client.transports.remoting.network.channel import get_remoting_channel
        from rmqpull_client.transports.remoting.sending.producer import RemotingProducer

        return RemotingProducer(get_remoting_channel(connection), producer_group)
    # Imported here, as above.
    from rmqpull_client.transports.grpc.channel import get_channel
    from rmqpull_client.transports.grpc.producer import GrpcProducer

    return GrpcProducer(get_channel(connection))


def _connect_by_grpc(settings: Connection, flow: Flow) -> BrokerClient:
    # Imported here, because each query on a cluster starts a process, which starts faster without gRPC.
    from rmqpull_client.transports.grpc.channel import get_channel
    from rmqpull_client.transports.grpc.columnar.client import ColumnarClient
    from rmqpull_client.transports.grpc.standard.client import StandardClient

    channel = get_channel(settings)
    if (has_columns := channel.has_columns) is None:
        try:
            has_columns = "columns" in ColumnarClient(channel).list_extensions()
        except Unserved:
            has_columns = False
        channel.note_columns(has_columns)
    return ColumnarClient(channel, flow) if has_columns else StandardClient(channel, flow)


def _require_numpy() -> None:
    """Raises OptionError without NumPy. The text names the Python: Spark's workers may run another than the driver."""
    if importlib.util.find_spec("numpy") is None:
        raise OptionError(
            "Option nameServers (Connection.name_servers) needs NumPy, which is not installed for the Python at "
            f"{sys.executable}: install it there, with pip install 'rmqpull[remoting]'."
        )
