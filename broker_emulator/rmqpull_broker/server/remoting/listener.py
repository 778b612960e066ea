"""The ports of the remoting protocol: one for each logical broker. The first one is the name server's, too.

A pull of 4.x does not name its broker, so each broker needs a port of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence

from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.grpc.connections import PortUnavailable
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.server.runtime.remoting_calls import RemotingService, Site
from rmqpull_broker.server.runtime.service import Service


class RemotingListener:
    """Listens, and keeps the connections. Belongs to the event loop.

    Call :meth:`bind`, which finds the ports, and then :meth:`start`.
    """

    dispatcher: Dispatcher

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self.sites: Sequence[Site] = ()
        self.connections: dict[str, RemotingConnection] = {}
        self._numbers = itertools.count(1)
        self._servers: list[asyncio.Server] = []

    async def bind(self, host: str, port: int, broker_names: Sequence[str]) -> None:
        """Listens on ``port`` and the ports after it, or on free ones if it is 0. Raises PortUnavailable."""
        sites = []
        for index, name in enumerate(broker_names):
            its_port = port + index if port else 0
            server = await self._listen(host, its_port, index)
            self._servers.append(server)
            sites.append(Site(name, host, server.sockets[0].getsockname()[1]))
        self.sites = sites

    async def _listen(self, host: str, port: int, index: int) -> asyncio.Server:
        loop = asyncio.get_running_loop()
        try:
            return await loop.create_server(
                lambda: RemotingConnection(self, self.sites[index]), host, port, start_serving=False
            )
        except OSError as error:
            address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
            reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
            raise PortUnavailable(f"cannot listen on {address} for the remoting protocol: {reason}") from None

    async def start(self, service: Service) -> None:
        """Serves requests from now on."""
        self.dispatcher = Dispatcher(RemotingService(service, self.sites, RecordPulls(service.state)), list_handlers())
        for server in self._servers:
            await server.start_serving()

    def add(self, connection: RemotingConnection) -> str:
        """Keeps a connection, and returns its channel id."""
        channel_id = f"{connection.remote_address}#{next(self._numbers)}"
        self.connections[channel_id] = connection
        return channel_id

    def remove(self, connection: RemotingConnection) -> None:
        """Forgets a closed connection, and takes its client out of the registries."""
        self.connections.pop(connection.channel_id, None)
        self._clients.connection_closed(connection.channel_id)

    def close(self) -> None:
        """Stops listening, and closes all connections."""
        for server in self._servers:
            server.close()
        for connection in list(self.connections.values()):
            connection.close()
