"""Fair shares of what all peers of a broker use together, such as the places of parked pulls.

Nobody has a fixed share: a lone connection may use the whole. A reserve of an eighth comes on top. A connection may
hold 8 times as much as is still free, and all connections of one address 64 times (dynamic thresholds, as in the
buffers of switches). So a share bites only when the whole is nearly used, whoever comes then still finds something,
and what the first ones give back goes to those that hold less.

This module knows no sockets. An address is a machine, or all machines behind one NAT, bridge or proxy.
"""

from __future__ import annotations

from typing import NamedTuple

OF_CONNECTION = 8
"""How many times of what is free one connection may hold."""
OF_ADDRESS = 64
"""How many times of what is free all connections of one address may hold together."""


class Holder(NamedTuple):
    """Who uses something: a connection, ``host:port``, and its address, ``host``."""

    connection: str
    address: str


ANYBODY = Holder("", "")
"""All peers whose address nobody knows."""


def find_holder(remote_address: str) -> Holder:
    """Returns the holder that comes from ``host:port``."""
    return Holder(remote_address, remote_address.rpartition(":")[0])


class Shares:
    """How much of a whole each connection and each address holds. ``whole`` is what a lone connection may use."""

    def __init__(self, whole: int) -> None:
        self.most = find_most(whole)
        """What all hold together at most."""
        self.used = 0
        self._by_connection: dict[str, int] = {}
        self._by_address: dict[str, int] = {}

    @property
    def is_half_used(self) -> bool:
        """Whether half of it is used. Before that, every holder may take one more."""
        return 2 * self.used >= self.most

    def allows(self, holder: Holder, count: int = 1) -> bool:
        """Whether a holder may take so much more."""
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
        """Says for a refusal how much is used, and by whom."""
        return (
            f"{self.used} of at most {self.most} in all, {self._by_connection.get(holder.connection, 0)} by this "
            f"connection and {self._by_address.get(holder.address, 0)} from its address, whose share is used up"
        )


def find_most(whole: int) -> int:
    """Returns what all may hold together if one of them may hold ``whole``."""
    return whole + -(-whole // OF_CONNECTION)
