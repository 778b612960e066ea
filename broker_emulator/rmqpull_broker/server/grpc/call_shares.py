"""Shares of the concurrent calls, so that no address can block the others: see :mod:`rmqpull_broker.core.shares`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from rmqpull_broker.core.errors import TooManyRequests
from rmqpull_broker.core.shares import Holder, Shares, find_holder


class CallShares:
    """The calls in flight of each connection and each address, for all services together. ``whole`` is the limit of a
    lone connection."""

    def __init__(self, whole: int) -> None:
        self._shares = Shares(whole)

    @property
    def count(self) -> int:
        """How many calls are in flight."""
        return self._shares.used

    def begin(self, holder: Holder) -> None:
        """Counts a call, even one that is then refused."""
        self._shares.take(holder)

    def end(self, holder: Holder) -> None:
        """Ends a call that has begun."""
        self._shares.give_back(holder)

    def check(self, holder: Holder) -> None:
        """Raises TooManyRequests if a call that has begun is above the share of its holder."""
        if self._shares.is_half_used and not self._shares.allows(holder, 0):
            raise TooManyRequests(f"too many calls are in flight: {self._shares.describe(holder)}; call again later")

    @contextmanager
    def counted(self, peer: str) -> Iterator[None]:
        """Counts a call of a peer, given as gRPC formats it. Raises TooManyRequests."""
        holder = find_holder(parse_peer(peer))
        self.begin(holder)
        try:
            self.check(holder)
            yield
        finally:
            self.end(holder)


def parse_peer(peer: str) -> str:
    """Extracts ``host:port`` from a peer as gRPC formats it: ``ipv4:127.0.0.1:5``, ``ipv6:%5B::1%5D:5``."""
    return unquote(peer).partition(":")[2]
