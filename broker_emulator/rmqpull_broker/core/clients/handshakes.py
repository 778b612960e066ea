"""Connections that have not said yet what they are: which one gives way when too many are waited for.

This module knows no sockets. The caller names each connection by a key of its own.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

HANDSHAKES_MAX = 1_000
"""Connections that have not sent their first byte, or whose handshake of TLS has not ended. It is waited for both only
where TLS is served."""

K = TypeVar("K", bound=Hashable)


class Handshakes(Generic[K]):
    """The connections that are waited for, by address. None is turned away: an older one gives way to it."""

    def __init__(self) -> None:
        self._addresses: dict[K, str] = {}
        self._by_address: dict[str, dict[K, None]] = {}

    def __len__(self) -> int:
        return len(self._addresses)

    def add(self, key: K, address: str) -> K | None:
        """Waits for a connection. Returns the one that gives way, the oldest of the address that has most."""
        leaves = None
        if len(self._addresses) >= HANDSHAKES_MAX:
            most = max(self._by_address, key=lambda each: len(self._by_address[each]))
            leaves = next(iter(self._by_address[most]))
            self.remove(leaves)
        self._addresses[key] = address
        self._by_address.setdefault(address, {})[key] = None
        return leaves

    def remove(self, key: K) -> None:
        """Waits no more for a connection. Ignores an unknown one."""
        address = self._addresses.pop(key, None)
        if address is not None:
            del self._by_address[address][key]
            if not self._by_address[address]:
                del self._by_address[address]
