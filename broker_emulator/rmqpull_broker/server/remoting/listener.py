"""Listens for clients of the remoting protocol, and keeps track of their connections."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import ip_address

from rmqpull_broker.core.clients.unfinished_frames import UnfinishedFrames
from rmqpull_broker.core.pulling.record_pull import RecordPulls
from rmqpull_broker.core.pulling.standing_verdicts import StandingVerdicts
from rmqpull_broker.core.shares import Shares, find_holder
from rmqpull_broker.server.clients import Clients
from rmqpull_broker.server.clock import Clock, Timer
from rmqpull_broker.server.remoting.acceptor import Acceptor
from rmqpull_broker.server.remoting.calls import RemotingService, Site
from rmqpull_broker.server.remoting.connection import RemotingConnection
from rmqpull_broker.server.remoting.dispatch import Dispatcher
from rmqpull_broker.server.remoting.left import list_left
from rmqpull_broker.server.remoting.ports import LOOPBACK, RemotingAddress, bind_ports
from rmqpull_broker.server.remoting.registry import list_handlers
from rmqpull_broker.server.remoting.turns import Turns
from rmqpull_broker.server.runtime.service import Service

CONNECTIONS_MAX = 20_000
"""Connections of a lone address; see :mod:`rmqpull_broker.core.shares`."""
IDLE_MS_MAX = 120_000
"""``serverChannelMaxIdleTimeSeconds``: a connection that is idle for longer is closed (rules 4.12)."""
_SCAN_INTERVAL_MS = 10_000
_PAUSED_INTERVAL_MS = 1_000

_logger = logging.getLogger(__name__)


class RemotingListener:
    """Listens, and keeps the connections. Belongs to the event loop.

    Call :meth:`bind`, which finds the ports, and then :meth:`start`.
    """

    def __init__(self, clients: Clients, clock: Clock) -> None:
        self._clients = clients
        self._clock = clock
        self.dispatcher: Dispatcher | None = None
        self.turns = Turns()
        self.sites: Sequence[Site] = ()
        self._has_vip = False
        self._service: RemotingService | None = None
        self.connections: dict[str, RemotingConnection] = {}
        self._shares = Shares(CONNECTIONS_MAX)
        self._unfinished = UnfinishedFrames[str]()
        self._numbers = itertools.count(1)
        self._acceptors: list[Acceptor] = []
        self._timer: Timer | None = None
        self._paused_timer: Timer | None = None

    async def bind(self, address: RemotingAddress, broker_names: Sequence[str]) -> None:
        """Listens on a port for each broker. Raises PortUnavailable."""
        sites: list[Site] = []
        taken: set[int] = set()
        try:
            for index, name in enumerate(broker_names):
                ports = bind_ports(address, index, taken)
                taken.update(bound.getsockname()[1] for bound in ports if bound is not None)
                host, port = address.tell(index, ports.main.getsockname()[1])
                site = Site(name, host, port, await _find_ip(host))
                sites.append(site)
                self._add_acceptor(ports.main, site, address)
                if ports.vip is not None:
                    self._add_acceptor(ports.vip, replace(site, is_vip=True), address)
        except BaseException:
            self._stop_listening()
            raise
        self.sites, self._has_vip = sites, address.has_vip

    def _add_acceptor(self, bound: socket.socket, site: Site, address: RemotingAddress) -> None:
        acceptor = Acceptor(bound, lambda: RemotingConnection(self, site), address.tls, address.needs_tls)
        self._acceptors.append(acceptor)

    async def start(self, service: Service) -> None:
        """Serves requests from now on."""
        pulls, verdicts = RecordPulls(service.state), StandingVerdicts(service.state, service.clients.consumers)
        self._service = RemotingService(
            **vars(service), sites=self.sites, record_pulls=pulls, standing_verdicts=verdicts
        )
        self.dispatcher = Dispatcher(self._service, list_handlers(), has_vip=self._has_vip)
        for acceptor in self._acceptors:
            acceptor.start()

    def forget(self) -> None:
        """Drops caches."""
        if self._service is not None:
            self._service.standing_verdicts.forget()
            self._service.record_pulls.pieces.forget()

    # --- connections --------------------------------------------------------------------------------------------------

    def passing_ms(self) -> int:
        """Returns the time by which idle connections are found, in milliseconds."""
        return self._clock.passing_ms()

    def add(self, connection: RemotingConnection) -> str | None:
        """Registers a connection, and returns its channel id; None if the share of its address is used up."""
        holder = find_holder(connection.remote_address)
        if not self._shares.allows(holder):
            return None
        self._shares.take(holder)
        channel_id = f"{connection.remote_address}#{next(self._numbers)}"
        self.connections[channel_id] = connection
        self._watch()
        return channel_id

    def remove(self, connection: RemotingConnection) -> None:
        """Forgets a closed connection, and removes its client from the registries."""
        if self.connections.pop(connection.channel_id, None) is not None:
            self._shares.give_back(find_holder(connection.remote_address))
            self.note_unfinished(connection, 0)
            self._clients.connection_closed(connection.channel_id)

    def note_unfinished(self, connection: RemotingConnection, held_bytes: int) -> None:
        """Notes how many bytes of an incomplete frame a connection holds; 0 if there is none."""
        if held_bytes:
            address = find_holder(connection.remote_address).address
            changed = self._unfinished.note(connection.channel_id, address, held_bytes, self._clock.passing_ms())
        else:
            changed = self._unfinished.remove(connection.channel_id)
        for channel_id in changed:
            if channel_id in self.connections:
                self.connections[channel_id].hold_up(channel_id in self._unfinished.paused)
        if self._unfinished.paused:
            self._watch_paused()

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = self._clock.call_at(self._clock.passing_ms() + _SCAN_INTERVAL_MS, self._close_idle_and_late)

    def _watch_paused(self) -> None:
        """Checks every second which clients have left: their connections are not read, which would show it."""
        if self._paused_timer is None:
            at_ms = self._clock.passing_ms() + _PAUSED_INTERVAL_MS
            self._paused_timer = self._clock.call_at(at_ms, self._close_left)

    def _close_left(self) -> None:
        self._paused_timer = None
        paused = [self.connections[each] for each in self._unfinished.paused if each in self.connections]
        for connection in list_left(paused):
            connection.abort("the client has left in the middle of a frame")
        if self._unfinished.paused:
            self._watch_paused()

    def _close_idle_and_late(self) -> None:
        self._timer = None
        latest_ms = self._clock.passing_ms() - IDLE_MS_MAX
        for connection in [each for each in self.connections.values() if each.active_ms <= latest_ms]:
            connection.close()
        for channel_id in self._unfinished.list_late(self._clock.passing_ms()):
            self.connections[channel_id].abort("a frame was not complete in time")
        if self.connections:
            self._watch()

    # --- the end ------------------------------------------------------------------------------------------------------

    async def stop(self, grace_s: float, *, cancels: bool = True) -> bool:
        """Accepts no more connections, lets requests in flight end for ``grace_s`` seconds, and closes all.

        Without ``cancels``, it leaves unfinished requests and the connections to the exit of the process. Returns
        whether all requests have ended.
        """
        self._stop_listening()
        for timer in (self._timer, self._paused_timer):
            if timer is not None:
                timer.cancel()
        if self.dispatcher is not None and not await self.dispatcher.stop(grace_s, cancels=cancels):
            return False
        for connection in list(self.connections.values()):
            connection.close()
        return True

    def _stop_listening(self) -> None:
        for acceptor in self._acceptors:
            acceptor.close()


async def _find_ip(host: str) -> str:
    """Returns the IP address of a host for message ids, which cannot hold names: the first IPv4 address, if any.

    For a name that is unknown here, because only clients can resolve it, returns the loopback address.
    """
    try:
        return str(ip_address(host))
    except ValueError:
        pass
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        _logger.warning("%s is unknown here, so the ids of messages contain %s", host, LOOPBACK)
        return LOOPBACK
    found.sort(key=lambda each: each[0] is not socket.AF_INET)  # stable, so the order within each family stays
    return str(found[0][4][0])
