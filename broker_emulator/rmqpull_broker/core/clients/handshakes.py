"""Connections that have not yet shown which protocol they speak, and which one is dropped when there are too many.

This module knows no sockets. The caller names each connection by a key of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

HANDSHAKES_MAX = 1_000
"""The limit of connections that have not sent their first byte or finished their TLS handshake. Only ports that serve
TLS wait for either."""

K = TypeVar("K", bound=Hashable)


class Handshakes(Generic[K]):
    """The pending connections, by address. A new one is never refused: an older one is dropped instead."""

    def __init__(self) -> None:
        self._addresses: dict[K, str] = {}
        self._by_address: dict[str, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, key: K, address: str) -> K | None:
        """Adds a pending connection. Returns the one to drop, if any: the oldest of the address with the most."""
        leaves = None
        if len(self._addresses) >= HANDSHAKES_MAX:
            most = max(self._by_address, key=lambda each: len(self._by_address[each]))
            leaves = next(iter(self._by_address[most]))
            self.remove(leaves)
        self._addresses[key] = address
        self._by_address.setdefault(address, {})[key] = None
        return leaves

    def remove(self, key: K) -> None:
        """Removes a connection that is no longer pending. Ignores an unknown one."""
        address = self._addresses.pop(key, None)
        if address is not None:
            del self._by_address[address][key]
            if not self._by_address[address]:
                del self._by_address[address]
