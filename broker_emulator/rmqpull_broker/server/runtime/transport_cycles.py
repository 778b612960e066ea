"""Breaks the reference cycles of closed connections.

A transport of asyncio holds its own bound methods, and so refers to itself. A long-lived object in a cycle is never
freed where the garbage collector visits each object only once (:mod:`rmqpull_broker.lean`).
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any


def find_selector_transport(transport: asyncio.BaseTransport) -> asyncio.BaseTransport:
    """Returns the transport of the socket: ``transport`` itself, or with TLS the one below it."""
    below: Any = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)
    return transport if below is None else below


def cut_cycles(transport: asyncio.BaseTransport) -> None:
    """Removes a closed transport's references to its own methods. It no longer reads or writes."""
    attributes = getattr(transport, "__dict__", {})
    for name, value in list(attributes.items()):
        if getattr(value, "__self__", None) is transport:
            del attributes[name]


def cut_failed_handshake(connected: socket.socket, descriptor: int, error: BaseException) -> None:
    """Breaks the cycles of a connection whose TLS handshake has failed: its protocol never gets its transport.

    ``descriptor`` is that of the socket, which may be closed by now. The error refers to frames that refer to it.
    """
    loop = asyncio.get_running_loop()
    transport = getattr(loop, "_transports", {}).get(descriptor)
    if transport is not None and getattr(transport.get_extra_info("socket"), "_sock", None) is connected:
        loop.call_soon(cut_cycles, transport)  # runs after the transport's own close, which is already scheduled
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__context__
