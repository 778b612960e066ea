"""Fair shares of a resource that all peers of a broker use together, such as the places of parked pulls.

Shares are not fixed: a lone connection may use the whole. A reserve of an eighth comes on top. A connection may hold 8
times as much as is still free, and all connections of one address 64 times (dynamic thresholds, as in the buffers of
switches). So a share limits only when the whole is nearly used: a newcomer still gets something, and what the first
ones give back goes to those that hold less.

This module knows no sockets. An address is a machine, or all machines behind one NAT, bridge or proxy.
"""

from __future__ import annotations

from typing import NamedTuple

OF_CONNECTION = 8
"""One connection may hold this many times what is free."""
OF_ADDRESS = 64
"""All connections of one address together may hold this many times what is free."""


class Holder(NamedTuple):
    """Who holds a part: a connection, ``host:port``, and its address, ``host``."""

    connection: str
    address: str


ANYBODY = Holder("", "")
"""All peers whose address is unknown."""


def find_holder(remote_address: str) -> Holder:
    """Returns the holder for ``host:port``."""
    return Holder(remote_address, remote_address.rpartition(":")[0])


class Shares:
    """How much of a whole each connection and each address holds. ``whole`` is what a lone connection may use."""

    def __init__(self, whole: int) -> None:
        self.most = find_most(whole)
        """The most that all may hold together."""
        self.used = 0
        self._by_connection: dict[str, int] = {}
        self._by_address: dict[str, int] = {}

    @property
    def is_half_used(self) -> bool:
        """Whether half of the whole is used. Until then, every holder may take one more."""
        return 2 * self.used >= self.most

    def allows(self, holder: Holder, count: int = 1) -> bool:
        """Whether a holder may take ``count`` more."""
        free = self.most - self.used - count
        return (
            self._by_connection.get(holder.connection, 0) + count <= OF_CONNECTION * free
            and self._by_address.get(holder.address, 0) + count <= OF_ADDRESS * free
        )

    def take(self, holder: Holder, count: int = 1) -> None:
        """Counts what a holder takes, whether or not its share allows it."""
        self.used += count
        for counts, key in ((self._by_connection, holder.connection), (self._by_address, holder.address)):
            counts[key] = counts.get(key, 0) + count

    def give_back(self, holder: Holder, count: int = 1) -> None:
        """Counts what a holder gives back."""
        self.used -= count
        for counts, key in ((self._by_connection, holder.connection), (self._by_address, holder.address)):
            left = counts.get(key, 0) - count
            if left:
                counts[key] = left
            else:
                counts.pop(key, None)

    def describe(self, holder: Holder) -> str:
        """Describes for a refusal how much is used, and by whom."""
        return (
            f"{self.used} of at most {self.most} in all, {self._by_connection.get(holder.connection, 0)} by this "
            f"connection and {self._by_address.get(holder.address, 0)} from its address, whose share is used up"
        )


def find_most(whole: int) -> int:
    """Returns the most that all may hold together if a lone holder may hold ``whole``."""
    return whole + -(-whole // OF_CONNECTION)
