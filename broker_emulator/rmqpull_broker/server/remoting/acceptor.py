"""Accepts connections on a port. The first byte shows whether a client speaks TLS (rules 4.12)."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from rmqpull_broker.core.clients.handshakes import Handshakes
from rmqpull_broker.server.runtime.transport_cycles import cut_failed_handshake

BACKLOG = 1_024
HANDSHAKE_S_MAX = 10
"""Seconds until the first byte, and then until the end of the TLS handshake."""
_HANDSHAKE = 0x16
_TAKEN_AT_ONCE = 10
"""Connections accepted in one turn of the event loop: beginning a TLS handshake takes half a millisecond."""
_PAUSE_S = 0.1

_logger = logging.getLogger(__name__)


class Acceptor:
    """Accepts connections on a bound socket, and makes a protocol for each. Belongs to the event loop.

    Without a ``tls`` context, the first byte is not checked: what a TLS client sends is then not a frame.
    """

    def __init__(
        self,
        bound: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        tls: ssl.SSLContext | None = None,
        needs_tls: bool = False,
    ) -> None:
        self._bound = bound
        self._make_protocol = make_protocol
        self._tls = tls
        self._needs_tls = needs_tls
        self._looked_at: dict[socket.socket, asyncio.TimerHandle] = {}
        self._handshakes = Handshakes[socket.socket]()
        self._tasks: dict[socket.socket, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Listens."""
        self._bound.listen(BACKLOG)
        asyncio.get_running_loop().add_reader(self._bound, self._accept)

    def close(self) -> None:
        """Stops listening. Connections that have a protocol stay."""
        if self._bound.fileno() < 0:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._bound)
        self._bound.close()
        for connected in list(self._looked_at):
            self._give_up(connected)
        for task in self._tasks.values():
            task.cancel()

    def _accept(self) -> None:
        for _ in range(_TAKEN_AT_ONCE):
            try:
                connected, peer = self._bound.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    raise
                _logger.warning("cannot accept connections: %s", error.strerror)
                self._pause()
                return
            connected.setblocking(False)
            if self._tls is None:
                self._connect(connected, None)
            else:
                self._wait_for(connected, str(peer[0]))

    def _wait_for(self, connected: socket.socket, address: str) -> None:
        """Waits for the first byte. If too many connections are pending, another one is closed."""
        leaves = self._handshakes.add(connected, address)
        if leaves in self._looked_at:
            self._give_up(leaves)
        elif leaves in self._tasks:
            self._tasks[leaves].cancel()
        loop = asyncio.get_running_loop()
        self._looked_at[connected] = loop.call_later(HANDSHAKE_S_MAX, self._give_up, connected)
        loop.add_reader(connected, self._look, connected)

    def _pause(self) -> None:
        """Pauses until other connections may have ended. Otherwise the event loop would do nothing but try again."""
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._bound)
        loop.call_later(_PAUSE_S, self._resume)

    def _resume(self) -> None:
        if self._bound.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._bound, self._accept)

    def _look(self, connected: socket.socket) -> None:
        """Peeks at the first byte."""
        self._end_wait(connected)
        try:
            first = connected.recv(1, socket.MSG_PEEK)
        except OSError:
            first = b""
        speaks_tls = first[:1] == bytes([_HANDSHAKE])
        if not first or (self._needs_tls and not speaks_tls):
            self._handshakes.remove(connected)
            connected.close()
        else:
            if not speaks_tls:
                self._handshakes.remove(connected)
            self._connect(connected, self._tls if speaks_tls else None)

    def _give_up(self, connected: socket.socket) -> None:
        """Closes a connection that sends nothing."""
        self._end_wait(connected)
        self._handshakes.remove(connected)
        connected.close()

    def _end_wait(self, connected: socket.socket) -> None:
        self._looked_at.pop(connected).cancel()
        asyncio.get_running_loop().remove_reader(connected)

    def _connect(self, connected: socket.socket, tls: ssl.SSLContext | None) -> None:
        task = asyncio.get_running_loop().create_task(self._open(connected, tls))
        self._tasks[connected] = task
        task.add_done_callback(lambda task: self._forget(connected, task))

    def _forget(self, connected: socket.socket, task: asyncio.Task[None]) -> None:
        """Forgets the task of a connection that is open now, or was closed."""
        del self._tasks[connected]
        self._handshakes.remove(connected)
        if task.cancelled():
            connected.close()  # perhaps before the task began

    async def _open(self, connected: socket.socket, tls: ssl.SSLContext | None) -> None:
        descriptor = connected.fileno()
        try:
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                self._make_protocol, connected, ssl=tls, ssl_handshake_timeout=None if tls is None else HANDSHAKE_S_MAX
            )
        except (OSError, TimeoutError, asyncio.CancelledError) as error:
            if not isinstance(error, asyncio.CancelledError):
                _logger.info("a connection was closed before its first request: %s", error)
            cut_failed_handshake(connected, descriptor, error)
            connected.close()
