"""The ports of the remoting protocol: one for each logical broker. The first one is also the name server's.

A pull of 4.x does not name its broker, so each broker needs its own port, and another one if the VIP channel is served,
to which Java's clients up to 4.5.0 send: they subtract two from the port in a route (rules 4.12).
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rmqpull_broker.server.addresses import (
    VIP_DISTANCE,
    WILDCARDS,
    PortUnavailable,
    find_address,
    join_address,
)

LOOPBACK = "127.0.0.1"
RECEIVE_BUFFER_BYTES = 1 << 18
"""The receive buffer that the system is asked for; Linux doubles it. By default it may grow to many megabytes, and then
requests of a client that has left would be handled until all of it is read."""
_TRIES_MAX = 100
"""Free ports that are tried until the one two below is also free."""


@dataclass(frozen=True)
class RemotingAddress:
    """Where to listen, and which addresses routes have.

    ``addresses`` has a (host, port) for each logical broker, or only that of the first; then the others have the
    following ports, or free ones if it is 0. ``advertised`` has an address for each broker if clients reach it at
    another one. ``tls`` serves connections that begin with TLS, and with ``needs_tls`` no others. ``has_vip`` adds the
    VIP channel.
    """

    addresses: Sequence[tuple[str, int]]
    advertised: Sequence[tuple[str, int]] = ()
    tls: ssl.SSLContext | None = None
    needs_tls: bool = False
    has_vip: bool = False

    def tell(self, index: int, port: int) -> tuple[str, int]:
        """Returns the host and port in routes for the broker of this index, which listens on ``port``."""
        if self.advertised:
            return self.advertised[index]
        host, _ = find_address(self.addresses, index)
        return LOOPBACK if host in WILDCARDS else host, port


class Ports(NamedTuple):
    """The bound sockets of one logical broker."""

    main: socket.socket
    vip: socket.socket | None


def bind_ports(address: RemotingAddress, index: int, taken: Container[int] = ()) -> Ports:
    """Binds the ports of the broker of this index. ``taken`` are those of other brokers. Raises PortUnavailable.

    ``taken`` is needed because the system lets two sockets bind the same port until one of them listens.
    """
    host, port = find_address(address.addresses, index)
    if not address.has_vip:
        return Ports(_bind(host, port), None)
    tries = 1 if port or address.advertised else _TRIES_MAX
    while True:
        tries -= 1
        main = _bind(host, port)
        _, told = address.tell(index, main.getsockname()[1])
        vip = told - VIP_DISTANCE
        try:
            if vip in taken:
                raise PortUnavailable(f"port {vip}, two below {told}, is that of another broker", "--remoting")
            return Ports(main, _bind(host, vip, f" for the VIP channel, two below {told}"))
        except PortUnavailable:
            main.close()
            if not tries:
                raise


def _bind(host: str, port: int, purpose: str = "") -> socket.socket:
    """Returns a socket that is bound to an address. Raises PortUnavailable."""
    address = join_address(host, port)
    bound = None
    try:
        family, kind, _, _, target = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)  # each connection inherits it
        bound.bind(target)
        bound.setblocking(False)
    except (OSError, OverflowError) as error:
        if bound is not None:
            bound.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise PortUnavailable(f"cannot listen on {address}{purpose}: {reason}", "--remoting") from None
    return bound
