"""The idle connections of a process, and the settings of TLS with which new ones are opened."""

from __future__ import annotations

import ssl
import time
from collections import deque

from rmqpull_client.connection import Tls
from rmqpull_client.transports.remoting.network.connections import BrokerConnection
from rmqpull_client.transports.remoting.network.receive_buffer import BUFFER_BYTES
from rmqpull_client.transports.tls_files import make_ssl_context

IDLE_MAX = 4
"""The idle connections that are kept for one address."""
IDLE_MAX_S = 100.0
"""A server closes a connection after 120 s of silence (rules 4.12). Connections that were silent for this long are not
reused."""


class ConnectionPool:
    """Lends connections to one operation at a time. Threads may share it: each step is one operation of a deque."""

    def __init__(self, tls: Tls | None) -> None:
        self._tls = tls
        self._context: ssl.SSLContext | None = None
        self._idle: dict[str, deque[BrokerConnection]] = {}

    def borrow(self, address: str, attempt: int = 0) -> BrokerConnection:
        """Returns an idle connection that the server has not closed, or a new one that is not open yet.

        ``attempt`` counts how often the caller could not connect. Raises ConnectionLost for a host without an address,
        and OptionError if a certificate or key file cannot be used.
        """
        idle = self._idle.get(address)
        while idle:
            try:
                connection = idle.pop()
            except IndexError:  # another thread was faster
                break
            # Even one that was silent for too long is checked first: if the server has closed it, that counts as a lost
            # connection, because the server may have restarted.
            if connection.is_alive() and time.monotonic() - connection.used_s < IDLE_MAX_S:
                connection.is_reused, connection.has_received = True, False
                return connection
            connection.close()
        return BrokerConnection(address, self._get_context(), attempt)

    def give_back(self, connection: BrokerConnection) -> None:
        """Keeps a connection for the next borrower, or closes it if there are enough."""
        idle = self._idle.setdefault(connection.address, deque())
        if not connection.is_open or connection.has_unsent or len(idle) >= IDLE_MAX:
            connection.close()
            return
        connection.reserve(BUFFER_BYTES)
        idle.append(connection)

    def forget_files(self) -> None:
        """Makes the next connection read the TLS files again."""
        self._context = None

    def close(self) -> None:
        """Closes all idle connections."""
        for address in list(self._idle):
            for connection in self._idle.pop(address, ()):
                connection.close()

    def _get_context(self) -> ssl.SSLContext | None:
        if self._tls is not None and self._context is None:
            self._context = make_ssl_context(self._tls)
        return self._context
