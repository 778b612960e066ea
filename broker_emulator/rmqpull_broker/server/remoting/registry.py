"""The table of all requests that are served."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.server.handlers.remoting import clients, consumers, offsets, pulling, routes, sending
from rmqpull_broker.server.runtime.remoting_calls import Handler

_MODULES: tuple[Mapping[int, Handler], ...] = (
    clients.HANDLERS,
    consumers.HANDLERS,
    offsets.HANDLERS,
    pulling.HANDLERS,
    routes.HANDLERS,
    sending.HANDLERS,
)


def list_handlers() -> dict[int, Handler]:
    """Returns the handler of each request code."""
    return {int(code): handler for module in _MODULES for code, handler in module.items()}
