"""Clients that have left without being noticed, because nobody reads from their connections."""

from __future__ import annotations

import select
from collections.abc import Iterable
from typing import Protocol, TypeVar

_END = getattr(select, "POLLRDHUP", 0)  # only Linux tells that a client sends no more while something is unread


class HasSocket(Protocol):
    """What has a socket."""

    def fileno(self) -> int:
        """Returns the descriptor; -1 if there is none any more."""


S = TypeVar("S", bound=HasSocket)


def list_left(connections: Iterable[S]) -> list[S]:
    """Returns the connections whose clients have closed them, or send no more. Reads nothing, and does not wait."""
    by_descriptor = {connection.fileno(): connection for connection in connections}
    by_descriptor.pop(-1, None)
    poll = select.poll()
    for descriptor in by_descriptor:
        poll.register(descriptor, _END)
    return [by_descriptor[descriptor] for descriptor, _ in poll.poll(0)]
