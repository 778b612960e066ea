"""Closed connections without cycles.

A transport of asyncio keeps methods of its own, and so refers to itself. What has lived for long and goes in a cycle is
never freed where the garbage collector looks at each object once (:mod:`rmqpull_broker.lean`).
"""

from __future__ import annotations

import asyncio
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
