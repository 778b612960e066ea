"""A TCP connection to a name server or broker, driven by the calling thread.

A connection opens itself while it is used: :func:`wait_for` waits until it can continue, and
:meth:`BrokerConnection.flush` and :meth:`BrokerConnection.receive` continue. Nothing else waits, except the operating
system's look-up of a host name.
"""

from __future__ import annotations

import enum
import errno
import math
import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

from rmqpull_client.transports.lost import LOST
from rmqpull_client.transports.remoting.network.receive_buffer import ReceiveBuffer
from rmqpull_proto.remoting.frames import OtherProtocol, WireError

_VIEWS_PER_CALL = 512
_TLS_JOINED_BYTES = 64 << 10


class Cause(enum.Enum):
    """Why a connection was lost."""

    NOT_CONNECTED = "not connected"  # so nothing was sent
    CLOSED = "closed"
    CLOSED_IN_HANDSHAKE = "closed in the TLS handshake"
    HANDSHAKE = "TLS handshake failed"
    OTHER_PROTOCOL = "another protocol"  # or bytes that form no frame
    BAD_FRAME = "bad frame"
    TIMED_OUT = "timed out"


class ConnectionLost(Exception):
    """A connection has become unusable. The text says what was seen.

    ``protocol`` names another protocol that the server speaks, if it is known. ``is_wordless`` says that the server
    accepted the connection and closed it without sending a byte.
    """

    def __init__(self, cause: Cause, text: str, protocol: str = "", is_wordless: bool = False) -> None:
        super().__init__(text)
        self.cause = cause
        self.protocol = protocol
        self.is_wordless = is_wordless


class _Phase(enum.Enum):
    CONNECTING = 0
    HANDSHAKE = 1
    OPEN = 2
    CLOSED = 3


class BrokerConnection:
    """A connection to ``address``, ``HOST:PORT`` with a host name, an IPv4 or an IPv6 address.

    ``attempt`` chooses, round robin, the address of the host to try first. ``is_reused`` says that it was idle before,
    and ``has_received`` that a whole frame has arrived since it was opened or borrowed.
    """

    def __init__(self, address: str, tls: ssl.SSLContext | None = None, attempt: int = 0) -> None:
        self.address = address
        self.is_reused = False
        self.has_received = False
        self.used_s = time.monotonic()
        self._tls = tls
        self._host, _, port = address.rpartition(":")
        self._host = self._host.removeprefix("[").removesuffix("]")
        self._received = ReceiveBuffer()
        self._unsent: deque[memoryview] = deque()
        self._last_opaque = 0
        self._wants_write = False
        self._socket: socket.socket | None = None
        self._phase = _Phase.CONNECTING
        self._hosts = _look_up(self._host, port, attempt)
        self._connect_next(None)

    # --- state --------------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether the connection is established, TLS included."""
        return self._phase is _Phase.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether it cannot be used any more."""
        return self._phase is _Phase.CLOSED

    @property
    def has_unsent(self) -> bool:
        """Whether frames wait to be sent."""
        return bool(self._unsent)

    @property
    def events(self) -> int:
        """What to wait for: events of ``select.poll``."""
        if self._phase is _Phase.OPEN:
            wants_write = self._wants_write or bool(self._unsent)
            return select.POLLIN | (select.POLLOUT if wants_write else 0)
        if self._phase is _Phase.HANDSHAKE and not self._wants_write:
            return select.POLLIN
        return select.POLLOUT

    @property
    def can_continue(self) -> bool:
        """Whether TLS has decrypted bytes ready, which ``poll`` does not announce."""
        return isinstance(self._socket, ssl.SSLSocket) and self._phase is _Phase.OPEN and self._socket.pending() > 0

    def fileno(self) -> int:
        """Returns the socket's file descriptor, for waiting."""
        return -1 if self._socket is None else self._socket.fileno()

    def close(self) -> None:
        """Closes the connection. Unsent bytes are dropped."""
        self._phase = _Phase.CLOSED
        self._unsent.clear()
        if self._socket is not None:
            self._socket.close()

    def give_up(self) -> ConnectionLost:
        """Closes a connection that does not open. Returns the reason."""
        if self._phase is _Phase.HANDSHAKE:
            return self._lose(Cause.CLOSED_IN_HANDSHAKE, "no response to the TLS handshake")
        return self._lose(Cause.NOT_CONNECTED, "connecting timed out")

    def is_alive(self) -> bool:
        """Whether an idle connection can be used again: the server has not closed it.

        Frames that have arrived in the meantime are dropped: nobody waits for them.
        """
        if self._phase is not _Phase.OPEN or self._unsent:
            return False
        try:
            self.receive()
        except ConnectionLost:
            return False
        return True

    # --- sending ------------------------------------------------------------------------------------------------------

    def next_opaque(self) -> int:
        """Returns a number for a request that no other request on this connection has."""
        self._last_opaque = (self._last_opaque + 1) & 0x7FFFFFFF
        return self._last_opaque

    def send(self, *frames: bytes) -> None:
        """Adds whole frames to those to be sent. :meth:`flush` sends them."""
        self._unsent += map(memoryview, frames)

    def flush(self) -> bool:
        """Connects and sends as far as possible without waiting. Returns whether everything was sent.

        Raises ConnectionLost.
        """
        if not self._open():
            return False
        self._wants_write = False
        try:
            while self._unsent:
                self._drop_sent(self._send_some())
        except (BlockingIOError, ssl.SSLWantWriteError):
            return False
        except ssl.SSLWantReadError:
            return False
        except OSError as error:
            raise self._lose(Cause.CLOSED, _describe(error)) from None
        return True

    def _send_some(self) -> int:
        assert self._socket is not None
        if not isinstance(self._socket, ssl.SSLSocket):
            return self._socket.sendmsg(islice(self._unsent, _VIEWS_PER_CALL))
        if len(self._unsent) > 1 and len(self._unsent[0]) < _TLS_JOINED_BYTES:
            parts = [self._unsent.popleft()]
            joined = len(parts[0])
            while self._unsent and joined < _TLS_JOINED_BYTES:
                parts.append(self._unsent.popleft())
                joined += len(parts[-1])
            self._unsent.appendleft(memoryview(b"".join(parts)))
        return self._socket.send(self._unsent[0])

    def _drop_sent(self, sent: int) -> None:
        self.used_s = time.monotonic()
        while sent:
            first = self._unsent[0]
            if sent < len(first):
                self._unsent[0] = first[sent:]
                return
            sent -= len(first)
            self._unsent.popleft()

    # --- receiving ----------------------------------------------------------------------------------------------------

    @property
    def buffer(self) -> memoryview:
        """The receive buffer that the bounds of :meth:`receive` refer to."""
        return self._received.view

    def reserve(self, byte_count: int) -> None:
        """Makes the receive buffer at least this large. One receive returns at most that much."""
        self._received.reserve(byte_count)

    def receive(self) -> Sequence[tuple[int, int]]:
        """Receives what has arrived, as much as the buffer holds. Does not wait.

        Returns the bounds of the whole frames in :attr:`buffer`, each without its length. They are valid until the next
        call. Raises ConnectionLost, also for bytes that form no frame.
        """
        if not self._open():
            return ()
        self._wants_write = False
        received = self._received
        received.make_room()
        is_ended = self._fill_buffer()
        try:
            frames = received.take_frames()
        except WireError as error:
            self.close()
            protocol = error.protocol if isinstance(error, OtherProtocol) else ""
            cause = Cause.BAD_FRAME if received.has_begun_well() else Cause.OTHER_PROTOCOL
            raise ConnectionLost(cause, str(error), protocol) from None
        if frames:
            self.has_received = True
            self.used_s = time.monotonic()
        elif is_ended:
            seen = f" in the middle of a frame, after {received.rest} of its bytes" if received.rest else ""
            raise self._lose(Cause.CLOSED, f"the server closed the connection{seen}")
        return frames

    def _fill_buffer(self) -> bool:
        """Receives into the buffer until nothing more has arrived. Returns whether the server has closed."""
        assert self._socket is not None
        is_plain = not isinstance(self._socket, ssl.SSLSocket)
        while room := self._received.room:
            try:
                count = self._socket.recv_into(room)
            except (BlockingIOError, ssl.SSLWantReadError):
                return False
            except ssl.SSLWantWriteError:
                self._wants_write = True
                return False
            except ssl.SSLError as error:  # the server refuses the handshake after the client has finished it
                cause = Cause.CLOSED if self._received.has_had_frame else Cause.HANDSHAKE
                raise self._lose(cause, _describe(error)) from None
            except OSError as error:
                if self._received.rest:
                    return True  # what arrived before may hold frames; the next call gets the error again
                raise self._lose(Cause.CLOSED, _describe(error)) from None
            if not count:
                return True
            self._received.add(count)
            if is_plain and count < len(room):
                return False
        return False

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open(self) -> bool:
        """Continues to connect. Returns whether the connection is open."""
        if self._phase is _Phase.CONNECTING:
            assert self._socket is not None
            code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                self._connect_next(OSError(code, os.strerror(code)))
                return False
            try:
                self._socket.getpeername()
            except OSError:
                return False  # not yet connected
            self._start_handshake()
        if self._phase is _Phase.HANDSHAKE:
            self._continue_handshake()
        if self._phase is _Phase.CLOSED:
            raise ConnectionLost(Cause.CLOSED, "the connection is closed")
        return self._phase is _Phase.OPEN

    def _connect_next(self, error: OSError | None) -> None:
        """Connects to the next address of the host. Raises ConnectionLost if there is none left."""
        while self._hosts:
            if self._socket is not None:
                self._socket.close()
            family, target = self._hosts.popleft()
            self._socket = socket.socket(family, socket.SOCK_STREAM)
            self._socket.setblocking(False)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            code = self._socket.connect_ex(target)
            if code in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                return
            error = OSError(code, os.strerror(code))
        raise self._lose(Cause.NOT_CONNECTED, _describe(error) if error else "not connected")

    def _start_handshake(self) -> None:
        if self._tls is None:
            self._phase = _Phase.OPEN
            return
        assert self._socket is not None
        self._phase = _Phase.HANDSHAKE
        try:
            self._socket = self._tls.wrap_socket(
                self._socket, server_hostname=self._host, do_handshake_on_connect=False
            )
        except (OSError, ValueError) as error:
            raise self._lose(Cause.HANDSHAKE, _describe(error)) from None

    def _continue_handshake(self) -> None:
        assert isinstance(self._socket, ssl.SSLSocket)
        self._wants_write = False
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._wants_write = True
            return
        except ssl.SSLEOFError:
            raise self._lose(Cause.CLOSED_IN_HANDSHAKE, "the server closed the connection") from None
        except ssl.SSLError as error:  # a wrong certificate, no common version, or bytes that are not TLS
            raise self._lose(Cause.HANDSHAKE, _describe(error)) from None
        except OSError as error:
            raise self._lose(Cause.CLOSED_IN_HANDSHAKE, _describe(error)) from None
        self._phase = _Phase.OPEN

    def _lose(self, cause: Cause, text: str) -> ConnectionLost:
        has_answered = self._received.has_had_frame or bool(self._received.rest)
        is_wordless = cause in (Cause.CLOSED, Cause.CLOSED_IN_HANDSHAKE) and not has_answered
        self.close()
        LOST.add()
        return ConnectionLost(cause, text, is_wordless=is_wordless)


def wait_for(connections: Iterable[BrokerConnection], timeout_s: float) -> list[BrokerConnection]:
    """Waits until connections can continue, at most ``timeout_s``. Returns them."""
    # Not with ``selectors``: making one for each wait takes six times as long, and took a third of a read's time.
    poll = select.poll()
    waiting: dict[int, BrokerConnection] = {}
    ready: set[int] = set()
    for connection in connections:
        number = connection.fileno()
        waiting[number] = connection
        poll.register(number, connection.events)
        if connection.can_continue:
            ready.add(number)
    found = poll.poll(0 if ready else math.ceil(max(0.0, timeout_s) * 1000))
    return [waiting[number] for number in ready.union(number for number, _ in found)]


def _look_up(host: str, port: str, attempt: int) -> deque[tuple[int, Any]]:
    """Returns the family and socket address of each address of a host. Raises ConnectionLost."""
    try:
        found = socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, ValueError, UnicodeError) as error:
        raise ConnectionLost(Cause.NOT_CONNECTED, f"host {host} has no address: {_describe(error)}") from None
    hosts: deque[tuple[int, Any]] = deque(dict.fromkeys((int(family), target) for family, _, _, _, target in found))
    hosts.rotate(-attempt)
    return hosts


def _describe(error: Exception) -> str:
    """Returns the text of an error, without its number and OpenSSL's source location."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate verify failed: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
