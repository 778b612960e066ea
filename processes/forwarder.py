"""One address in front of several servers, like a load balancer without health checks."""

from __future__ import annotations

import itertools
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import TracebackType

from processes.children import LOOPBACK

_PART_BYTES = 1 << 16
_ENDED_WITHIN_S = 10.0


class Forwarder:
    """Leads each new connection to the next of some servers, and passes bytes on as they are.

    If that server cannot be reached, the connection is closed at once: the next one leads to another server. ``led``
    counts connections by server. The ``with`` block closes it, and all connections.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self.led: Counter[str] = Counter()
        self._turns = itertools.cycle(addresses)
        self._open: dict[socket.socket, str] = {}
        self._lock = threading.Lock()
        self._listener = socket.create_server((LOOPBACK, 0))
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    @property
    def address(self) -> str:
        """``host:port`` of the forwarder."""
        return f"{LOOPBACK}:{self._listener.getsockname()[1]}"

    def count_open(self, address: str) -> int:
        """Returns how many connections to a server are open."""
        with self._lock:
            return Counter(self._open.values())[address] // 2  # the client's, and the one to the server

    def close(self) -> None:
        """Refuses connections, and closes those that are open."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # it ends the thread that accepts
        self._listener.close()
        self._accepting.join(_ENDED_WITHIN_S)
        with self._lock:
            for one in self._open:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            address = next(self._turns)
            self.led[address] += 1
            threading.Thread(target=self._lead, args=(client, address), daemon=True).start()

    def _lead(self, client: socket.socket, address: str) -> None:
        host, port = address.rsplit(":", 1)
        with ExitStack() as both:
            both.enter_context(client)
            try:
                server = both.enter_context(socket.create_connection((host, int(port))))
            except OSError:
                return
            with self._lock:
                self._open |= {client: address, server: address}
            back = threading.Thread(target=_pass_on, args=(server, client), daemon=True)
            back.start()
            _pass_on(client, server)
            back.join(_ENDED_WITHIN_S)
            with self._lock:
                del self._open[client], self._open[server]

    def __enter__(self) -> Forwarder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    """Passes bytes on until one of the two ends, and then ends both."""
    with suppress(OSError):
        while part := source.recv(_PART_BYTES):
            sink.sendall(part)
    for one in (source, sink):
        with suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
