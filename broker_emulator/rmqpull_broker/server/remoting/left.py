"""Clients that have left without being noticed, because nobody reads from their connections."""

from __future__ import annotations

import select
from collections.abc import Iterable
from enum import Enum, auto
from typing import Protocol, TypeVar

_END = getattr(select, "POLLRDHUP", 0)  # only Linux tells that a client sends no more while something is unread


class HasSocket(Protocol):
    """What has a socket."""

    def fileno(self) -> int:
        """Returns the descriptor; -1 if there is none any more."""


S = TypeVar("S", bound=HasSocket)


class Departure(Enum):
    """What a client has closed of its connection."""

    NOTHING = auto()
    SENDS_NO_MORE = auto()
    """It may still read. What it has sent is handled: a client may send one-way requests and leave."""
    ALL = auto()
    """It has reset the connection, as the system does for a dead process that has not read everything."""


def find_leaving(connection: HasSocket) -> Departure:
    """Returns what a connection's client has closed, although something is unread. Does not wait.

    Of a connection that the broker has closed it is NOTHING.
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
