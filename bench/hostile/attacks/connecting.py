"""Connections that come, stay silent and go."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import suppress

from bench.hostile.attack import Attack, Target
from bench.hostile.lines import PAUSE_S, open_socket

_SILENT = 5_000
_HANDSHAKES = 1_000
_HELLO = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
"""The beginning of a TLS handshake, whose rest is never sent."""


def _connect_many(address: str, count: int, first: bytes = b"") -> Iterator[None]:
    """Keeps ``count`` connections open that send nothing but ``first``."""
    opened: list[socket.socket] = []
    yield
    while True:
        try:
            for _ in range(100):
                if len(opened) < count:
                    opened.append(open_socket(address))
                    opened[-1].sendall(first)
                    opened[-1].setblocking(False)
        except OSError:
            time.sleep(PAUSE_S)
        still_open = [one for one in opened if _is_open(one)]
        for one in set(opened).difference(still_open):
            one.close()
        opened = still_open
        time.sleep(PAUSE_S if len(opened) >= count else 0)
        yield


def _is_open(one: socket.socket) -> bool:
    try:
        return bool(one.recv(4_096))
    except BlockingIOError:
        return True
    except OSError:
        return False


def silent_connections(target: Target) -> Iterator[None]:
    """Opens connections and sends nothing."""
    return _connect_many(target.remoting, _SILENT)


def silent_grpc(target: Target) -> Iterator[None]:
    """Opens connections to the port of gRPC and sends nothing."""
    return _connect_many(target.grpc, _SILENT)


def silent_handshakes(target: Target) -> Iterator[None]:
    """Opens connections to a port with TLS, and says nothing or only half of a hello."""
    silent = _connect_many(target.remoting, _HANDSHAKES)
    half = _connect_many(target.remoting, _HANDSHAKES, _HELLO)
    for _ in zip(silent, half, strict=True):
        yield


def silent_metrics(target: Target) -> Iterator[None]:
    """Opens connections to the metrics page and sends only half of a request."""
    return _connect_many(target.metrics, _HANDSHAKES, b"GET /metrics HTTP/1.1\r\n")


def _churn(address: str) -> Iterator[None]:
    yield
    while True:
        with suppress(OSError):
            opened = [open_socket(address) for _ in range(20)]
            for one in opened:
                one.close()
        yield


def churn(target: Target) -> Iterator[None]:
    """Opens and closes connections."""
    return _churn(target.remoting)


def churn_grpc(target: Target) -> Iterator[None]:
    """Opens and closes connections to the port of gRPC."""
    return _churn(target.grpc)


def metrics(target: Target) -> Iterator[None]:
    """Asks for the metrics page, and reads it."""
    yield
    while True:
        with suppress(OSError), open_socket(target.metrics) as page:
            page.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n")
            while page.recv(1 << 16):
                pass
        yield


CONNECTING = (
    Attack("silent", "5,000 connections that say nothing", "connections, and time without traffic", silent_connections),
    Attack("silent-grpc", "5,000 connections to gRPC that say nothing", "gRPC's own time for a hello", silent_grpc),
    Attack(
        "silent-tls",
        "2,000 silent connections and half hellos to a port with TLS",
        "connections whose handshake has not ended",
        silent_handshakes,
        with_tls=True,
    ),
    Attack("silent-metrics", "1,000 half requests for the metrics page", "connections to this page", silent_metrics),
    Attack("churn", "connections that come and go", "one accept in turn", churn),
    Attack("churn-grpc", "connections to gRPC that come and go", "gRPC's own threads", churn_grpc),
    Attack("metrics", "requests for the metrics page in a loop", "slices of the page", metrics),
)
