"""Clients that close their connections in each way that a server can tell apart."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rmqpull_broker.server.remoting.left import Departure

_RESETS = struct.pack("ii", 1, 0)
"""SO_LINGER of no time: closing resets the connection, as the system does for a process that has left data unread."""


@contextmanager
def connected_ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connects a client and a server. Yields the end of each."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        with client, server.accept()[0] as accepted:
            yield client, accepted


def _reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESETS)
    client.close()


LEAVE: dict[str, tuple[Callable[[socket.socket], object], Departure]] = {
    "stays": (lambda client: None, Departure.NOTHING),
    "sends no more": (lambda client: client.shutdown(socket.SHUT_WR), Departure.SENDS_NO_MORE),
    "closes": (lambda client: client.close(), Departure.SENDS_NO_MORE),
    "resets": (_reset, Departure.ALL),
}
"""How a client leaves, and what its server sees."""
