"""The table of all requests of the remoting protocol and their handlers."""

from __future__ import annotations

from collections.abc import Mapping

from rmqpull_broker.server.remoting.calls import Handler
from rmqpull_broker.server.remoting.handlers import (
    broker,
    clients,
    connections,
    consumers,
    groups,
    lite,
    name_server,
    offsets,
    popping,
    progress,
    pulling,
    queries,
    receipts,
    replies,
    routes,
    sending,
    topics,
    transactions,
)

_MODULES: tuple[Mapping[int, Handler], ...] = (
    broker.HANDLERS,
    clients.HANDLERS,
    connections.HANDLERS,
    consumers.HANDLERS,
    groups.HANDLERS,
    lite.HANDLERS,
    name_server.HANDLERS,
    offsets.HANDLERS,
    popping.HANDLERS,
    progress.HANDLERS,
    pulling.HANDLERS,
    queries.HANDLERS,
    receipts.HANDLERS,
    replies.HANDLERS,
    routes.HANDLERS,
    sending.HANDLERS,
    topics.HANDLERS,
    transactions.HANDLERS,
)


def list_handlers() -> dict[int, Handler]:
    """Returns the handler of each request code."""
    return {int(code): handler for module in _MODULES for code, handler in module.items()}
