"""The calls that a process makes to one cluster: to its name servers, and through routes to its brokers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from rmqpull_client.connection import Connection, wrap_name
from rmqpull_client.errors import BrokerUnavailable
from rmqpull_client.light_queues import find_route_topic
from rmqpull_client.transports.remoting.network.cluster import (
    NAME_SERVER,
    BrokerNotListed,
    ClusterView,
    Place,
    Target,
)
from rmqpull_client.transports.remoting.network.connections import BrokerConnection, Cause, ConnectionLost
from rmqpull_client.transports.remoting.network.exchange import SUCCESS, Exchange
from rmqpull_client.transports.remoting.network.listings import Listings
from rmqpull_client.transports.remoting.network.pool import ConnectionPool
from rmqpull_client.transports.remoting.network.routes import Routes
from rmqpull_client.transports.remoting.network.servers import NotLocatedYet
from rmqpull_client.transports.remoting.signing import sign_fields
from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import RemotingCommand, encode_command

_NAMES = frozenset(("topic", "consumerGroup", "producerGroup", "group"))
_SHORT_NAMES = {RequestCode.SEND_MESSAGE_V2: "ab", RequestCode.SEND_BATCH_MESSAGE: "ab"}
_BROKER_NAMES: Mapping[int, str] = {RequestCode.SEND_MESSAGE_V2: "n", RequestCode.SEND_BATCH_MESSAGE: "n"}
"""The field with the broker's name, by request code. In other requests it is ``bname`` (rules 4.2.3)."""


class RemotingChannel:
    """Calls to the cluster of one connection. Threads may share it; each call has connections of its own.

    Calls raise BrokerUnavailable if no server responds in time, HandshakeFailed if a server speaks no TLS or another
    protocol, OptionError if a certificate or key file cannot be used, and RequestRefused.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.connection = connection
        self.cluster = ClusterView(connection)
        self.listings = Listings(self, self.cluster, clock, sleep)
        self.routes = Routes(self, self.cluster, self.listings, clock, sleep)
        self._pool = ConnectionPool(connection.tls)

    @property
    def endpoints(self) -> str:
        """The name servers and the namespace, for error messages."""
        return self.connection.endpoints_and_namespace

    def close(self) -> None:
        """Closes the idle connections. The next call opens new ones."""
        self._pool.close()

    def call(
        self,
        target: Target,
        command: RemotingCommand,
        *,
        accepted: Collection[int] = SUCCESS,
        may_repeat: bool = True,
        extra_ms: int = 0,
    ) -> RemotingCommand:
        """Sends one request and returns its response: see :meth:`Exchange.start`."""
        with Exchange(self) as exchange:
            call = exchange.start(target, command, accepted=accepted, may_repeat=may_repeat, extra_ms=extra_ms)
            return exchange.wait([call])[0]

    def call_all(
        self, requests: Iterable[tuple[Target, RemotingCommand]], *, accepted: Collection[int] = SUCCESS
    ) -> list[RemotingCommand]:
        """Sends requests at the same time, and returns their responses in order. They must be repeatable."""
        requests = list(requests)
        deadline_s = time.monotonic() + self.connection.request_timeout_ms / 1000
        with Exchange(self) as exchange:
            calls = [
                exchange.start(target, command, accepted=accepted, deadline_s=deadline_s)
                for target, command in requests
            ]
            self.routes.refresh((target.topic for target, _ in requests if target != NAME_SERVER), deadline_s)
            return exchange.wait(calls)

    def encode(self, command: RemotingCommand, opaque: int, broker_name: str = "") -> bytes:
        """Returns the frame of a request, with its names in the namespace, and signed if there are credentials.

        ``broker_name`` names the broker that the request is for, as Java's clients do: Apache's proxy forwards the
        request to it. Brokers do not need it.
        """
        fields = self._wrap_fields(command)
        if broker_name:
            fields = {**fields, _BROKER_NAMES.get(command.code, "bname"): broker_name}
        if (credentials := self.connection.credentials) is not None:
            fields = {**fields, **sign_fields(fields, command.body, credentials.access_key, credentials.secret_key)}
        return encode_command(replace(command, fields=fields, opaque=opaque))

    def _wrap_fields(self, command: RemotingCommand) -> Mapping[str, str]:
        if not self.connection.namespace:
            return command.fields
        names = _SHORT_NAMES.get(RequestCode(command.code), _NAMES)
        return {name: self._wrap(value) if name in names else value for name, value in command.fields.items()}

    def find_places(self, target: Target, deadline_s: float) -> list[Place]:
        """Returns where to send a request, the best place first. Asks for the route if it is not fresh.

        Raises NotLocatedYet, and RmqpullError.
        """
        if target == NAME_SERVER:
            return self.cluster.list_name_servers()
        if not target.topic:
            return self._find_listed(target)
        self.routes.refresh([target.topic], deadline_s)
        name = find_route_topic(self.connection, target.topic)
        if self.cluster.get_known(name) is None:
            raise NotLocatedYet(self.routes.make_no_topic_error(target.topic))
        try:
            return self.cluster.find_places(name, target)
        except BrokerNotListed as error:
            self.cluster.suspect(name)
            raise NotLocatedYet(
                BrokerUnavailable(
                    f"The name server at {self.endpoints} does not know where to send requests for {target.topic}: "
                    f"{error}. Check that the broker is running and registered at the name server."
                )
            ) from None

    def _find_listed(self, target: Target) -> list[Place]:
        try:
            return self.cluster.find_places("", target)
        except BrokerNotListed as error:
            raise NotLocatedYet(
                BrokerUnavailable(f"The name server at {self.endpoints} has changed: {error}.")
            ) from None

    def borrow(self, place: Place, attempt: int = 0) -> BrokerConnection:
        """Returns a connection that nobody else uses: see :meth:`ConnectionPool.borrow`."""
        return self._pool.borrow(place.address, attempt)

    def give_back(self, connection: BrokerConnection) -> None:
        """Takes back a connection that has no request in flight."""
        self._pool.give_back(connection)

    def note_lost(self, target: Target, place: Place, lost: ConnectionLost) -> None:
        """Records that a server did not respond: the next attempt asks another name server, or gets the route again."""
        if place.is_name_server:
            self.cluster.leave_name_server(place.address)
        elif target.topic:
            self.cluster.suspect(find_route_topic(self.connection, target.topic))
        if lost.cause in (Cause.HANDSHAKE, Cause.CLOSED_IN_HANDSHAKE):
            self._pool.forget_files()

    def _wrap(self, name: str) -> str:
        return wrap_name(self.connection.namespace, name)


# The key has the process id: Spark forks its Python workers and reuses them, and processes must not share connections.
_channels: dict[tuple[int, Connection], RemotingChannel] = {}


def get_remoting_channel(connection: Connection) -> RemotingChannel:
    """Returns this process's channel for ``connection``. It is created on first use. Raises OptionError."""
    key = (os.getpid(), connection)
    if key not in _channels:
        _channels[key] = RemotingChannel(connection)
    return _channels[key]
