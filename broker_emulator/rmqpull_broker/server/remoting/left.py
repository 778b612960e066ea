"""Detects clients that have left while the broker does not read from their connections, which would show it."""

from __future__ import annotations

import select
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol, TypeVar

_END = getattr(select, "POLLRDHUP", 0)  # only Linux reports the end of a client's sending while something is unread


class HasSocket(Protocol):
    """An object with a socket."""

    def fileno(self) -> int:
        """Returns the descriptor; -1 once it is closed."""


S = TypeVar("S", bound=HasSocket)


class Departure(Enum):
    """What a client has closed of its connection."""

    NOTHING = auto()
    SENDS_NO_MORE = auto()
    """It sends no more, but may still read. What it has sent is handled: it may have sent one-way requests and left."""
    ALL = auto()
    """The connection is reset, as the system does for a dead process that has not read everything."""


def find_leaving(connection: HasSocket) -> Departure:
    """Returns what a connection's client has closed, although something is unread. Does not wait.

    For a connection that the broker has closed, the result is NOTHING.
    """
    descriptor = connection.fileno()
    if descriptor < 0:
        return Departure.NOTHING
    poll = select.poll()
    poll.register(descriptor, _END)
    events = poll.poll(0)
    if not events:
        return Departure.NOTHING
    return Departure.ALL if events[0][1] & (select.POLLHUP | select.POLLERR) else Departure.SENDS_NO_MORE


def list_left(connections: Iterable[S]) -> list[S]:
    """Returns the connections whose clients have closed them, or send no more. Reads nothing, and does not wait."""
    return [each for each in connections if find_leaving(each) is not Departure.NOTHING]
