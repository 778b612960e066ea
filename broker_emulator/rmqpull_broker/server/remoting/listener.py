"""The ports of the remoting protocol: one for each logical broker. The first one is the name server's, too.

A pull of 4.x does not name its broker, so each broker needs a port of its own.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_broker.core.pulling.standing_verdicts import StandingVerdicts
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import Clock, Timer
from rmqpull_broker.server.remoting.acceptor import Acceptor
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.server.runtime.remoting_calls import RemotingService, Site
from rmqpull_broker.server.runtime.service import Service
from rmqpull_broker.server.wire.addresses import PortUnavailable, join_address

CONNECTIONS_MAX = 20_000
IDLE_MS_MAX = 120_000
"""``serverChannelMaxIdleTimeSeconds``: a connection on which nothing moves for longer is closed (rules 4.12)."""
_SCAN_INTERVAL_MS = 10_000
_WILDCARDS = ("0.0.0.0", "::", "")
_LOOPBACK = "127.0.0.1"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RemotingAddress:
    """Where to listen, and what routes tell.

    ``addresses`` has a (host, port) for each logical broker, or one for the first; then the others have the ports after
    it, or free ones if it is 0. ``advertised`` has the ones that clients reach if they are others, for each broker.
    ``tls`` serves connections that begin with TLS, and with ``needs_tls`` no others.
    """

    addresses: Sequence[tuple[str, int]]
    advertised: Sequence[tuple[str, int]] = ()
    tls: ssl.SSLContext | None = None
    needs_tls: bool = False

    def find(self, index: int) -> tuple[str, int]:
        """Returns where the broker of this index listens."""
        if index < len(self.addresses):
            return self.addresses[index]
        host, port = self.addresses[0]
        return host, port + index if port else 0


class RemotingListener:
    """Listens, and keeps the connections. Belongs to the event loop.

    Call :meth:`bind`, which finds the ports, and then :meth:`start`.
    """

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self.dispatcher: Dispatcher | None = None
        self.sites: Sequence[Site] = ()
        self.connections: dict[str, RemotingConnection] = {}
        self._numbers = itertools.count(1)
        self._acceptors: list[Acceptor] = []
        self._timer: Timer | None = None

    async def bind(self, address: RemotingAddress, broker_names: Sequence[str]) -> None:
        """Listens on a port for each broker. Raises PortUnavailable."""
        sites = []
        try:
            for index, name in enumerate(broker_names):
                host, port = address.find(index)
                bound = _bind(host, port)
                port = bound.getsockname()[1]
                if address.advertised:
                    host, port = address.advertised[index]
                elif host in _WILDCARDS:
                    host = _LOOPBACK
                site = Site(name, host, port, await _find_ip(host))
                sites.append(site)
                self._acceptors.append(Acceptor(bound, self._make_factory(site), address.tls, address.needs_tls))
        except BaseException:
            self._stop_listening()
            raise
        self.sites = sites

    def _make_factory(self, site: Site) -> Callable[[], RemotingConnection]:
        return lambda: RemotingConnection(self, site)

    async def start(self, service: Service) -> None:
        """Serves requests from now on."""
        pulls, verdicts = RecordPulls(service.state), StandingVerdicts(service.state, service.clients.consumers)
        self.dispatcher = Dispatcher(RemotingService(service, self.sites, pulls, verdicts), list_handlers())
        for acceptor in self._acceptors:
            acceptor.start()

    # --- connections --------------------------------------------------------------------------------------------------

    def passing_ms(self) -> int:
        """Returns the time by which idle connections are found, in milliseconds."""
        return self._clock.passing_ms()

    def add(self, connection: RemotingConnection) -> str | None:
        """Keeps a connection, and returns its channel id; None if there are too many."""
        if len(self.connections) >= CONNECTIONS_MAX:
            return None
        channel_id = f"{connection.remote_address}#{next(self._numbers)}"
        self.connections[channel_id] = connection
        self._watch()
        return channel_id

    def remove(self, connection: RemotingConnection) -> None:
        """Forgets a closed connection, and takes its client out of the registries."""
        if self.connections.pop(connection.channel_id, None) is not None:
            self._clients.connection_closed(connection.channel_id)

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.passing_ms() + _SCAN_INTERVAL_MS, self._close_idle)

    def _close_idle(self) -> None:
        self._timer = None
        latest_ms = self._clock.passing_ms() - IDLE_MS_MAX
        for connection in [each for each in self.connections.values() if each.active_ms <= latest_ms]:
            connection.close()
        if self.connections:
            self._watch()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def stop(self, grace_s: float) -> None:
        """Takes no more connections, lets requests in flight end for ``grace_s`` seconds, and closes all."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        if self.dispatcher is not None:
            await self.dispatcher.stop(grace_s)
        for connection in list(self.connections.values()):
            connection.close()

    def _stop_listening(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()


def _bind(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound to an address. Raises PortUnavailable."""
    address = join_address(host, port)
    bound = None
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(target)
        bound.setblocking(False)
    except (OSError, OverflowError) as error:
        if bound is not None:
            bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise PortUnavailable(f"cannot listen on {address}: {reason}", "--remoting") from None
    return bound


async def _find_ip(host: str) -> str:
    """Returns the address of a host for message ids, which have no names: the first of IPv4, if it has one.

    A broker may advertise a name that only its clients know. Then it is the loopback address.
    """
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        _logger.warning("%s is unknown here, so the ids of messages name %s", host, _LOOPBACK)
        return _LOOPBACK
    found.sort(key=lambda each: each[0] is not socket.AF_INET)  # keeps the order of each kind
    return str(found[0][4][0])
