"""Closed connections without cycles.

A transport of asyncio keeps methods of its own, and so refers to itself. What has lived for long and goes in a cycle is
never freed where the garbage collector looks at each object once (:mod:`rmqpull_broker.lean`).
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
    """Lets a closed transport forget its own methods. It reads and writes nothing any more."""
    attributes = getattr(transport, "__dict__", {})
    for name, value in list(attributes.items()):
        if getattr(value, "__self__", None) is transport:
            del attributes[name]


def cut_failed_handshake(connected: socket.socket, descriptor: int, error: BaseException) -> None:
    """Lets a connection be freed whose handshake of TLS has failed: its protocol never learns of its transport.

    ``descriptor`` is the one that the socket had: it may be closed by now. The error refers to frames that refer to it.
    """
    loop = asyncio.get_running_loop()
    transport = getattr(loop, "_transports", {}).get(descriptor)
    if transport is not None and getattr(transport.get_extra_info("socket"), "_sock", None) is connected:
        loop.call_soon(cut_cycles, transport)  # when it has closed, which is due before
    seen: BaseException | None = error
    while seen is not None:
        seen.__traceback__ = None
        seen = seen.__context__
