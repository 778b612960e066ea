"""Servers that are away: which ones have answered before, and how long a request waits for them. Nothing here waits.

A server that has never answered may have the wrong address, so a request to it ends after the request timeout. One that
has answered before may be restarting. A request waits for it in windows of the request timeout, until
``Connection.server_away_timeout_ms`` is over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from rmqpull_client.connection import Connection

LOG_INTERVAL_S = 10.0
"""How often a process logs that it waits, however many requests, queues and threads are waiting."""
ADDRESSES_MAX = 10_000
"""The addresses that a process remembers. Above it, the oldest is forgotten."""
CLOSINGS_MAX = 4
"""How often in a row a server that has never answered may close a connection without a word. A server that enforces TLS
does so at once, for ever; a proxy whose server is about to start may do so for a moment."""
_logger = logging.getLogger(__name__)


def make_key(connection: Connection, address: str) -> str:
    """Returns the key under which a server is remembered: one that answers over TLS need not answer without it."""
    return address if connection.tls is None else f"{address} over TLS"


class Memory(Protocol):
    """Shares the servers that have answered among related processes."""

    def add(self, address: str) -> None:
        """Notes an address."""

    def __contains__(self, address: object) -> bool: ...


class AnsweredServers:
    """The servers that have answered, by :func:`make_key`. Threads may share it: each step is one operation of a dict.

    ``shared`` is the memory of related processes, if there is one.
    """

    def __init__(self) -> None:
        self.shared: Memory | None = None
        self._addresses: dict[str, None] = {}

    def __contains__(self, address: object) -> bool:
        return address in self._addresses or (self.shared is not None and address in self.shared)

    def add(self, address: str) -> None:
        """Notes that a server has answered."""
        if address not in self._addresses:
            while len(self._addresses) >= ADDRESSES_MAX:
                self._addresses.pop(next(iter(self._addresses)), None)
            self._addresses[address] = None
            if self.shared is not None:
                self.shared.add(address)

    def share(self, memory: Memory) -> None:
        """Shares the servers that have answered, including earlier ones, with other processes."""
        self.shared = memory
        for address in self.list():
            memory.add(address)

    def update(self, addresses: Iterable[str]) -> None:
        """Adds the servers that another process has noted."""
        for address in addresses:
            self.add(address)

    def list(self) -> tuple[str, ...]:
        """Returns the addresses, the oldest first."""
        return tuple(self._addresses)


ANSWERED = AnsweredServers()
"""The servers that have answered this process."""


@dataclass
class TimeLimit:
    """The time limit of one request, repeats included, in seconds of one clock.

    ``request_s`` is the length of a window, and ``away_s`` that of all windows together.
    """

    request_s: float
    away_s: float
    since_s: float
    deadline_s: float
    """The end of the window."""

    @classmethod
    def of(cls, connection: Connection, now_s: float, extra_s: float = 0.0) -> TimeLimit:
        """Returns the limit of a request that is sent now and may be parked for ``extra_s``."""
        request_s = connection.request_timeout_ms / 1000 + extra_s
        away_s = max(request_s, connection.server_away_timeout_ms / 1000)
        return cls(request_s, away_s, now_s, now_s + request_s)

    def extend(self, now_s: float) -> bool:
        """Opens the next window, for servers that are away. Returns whether there is time left for it."""
        until_s = self.since_s + self.away_s
        if now_s >= until_s:
            return False
        self.deadline_s = max(self.deadline_s, min(now_s + self.request_s, until_s))
        return True

    def shift(self, seconds: float) -> None:
        """Moves the limit by time that does not count."""
        self.since_s += seconds
        self.deadline_s += seconds


class WaitLog:
    """Logs that requests wait for servers: one line every 10 s."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._next_s = 0.0

    def note(self, limit: TimeLimit, now_s: float, servers: str) -> None:
        """Notes that a request has waited until ``now_s`` of its own clock, and logs it if a line is due."""
        waited_s = now_s - limit.since_s
        if waited_s < LOG_INTERVAL_S:
            return
        with self._lock:
            if self._clock() < self._next_s:
                return
            self._next_s = self._clock() + LOG_INTERVAL_S
        _logger.warning(
            "Waiting for %s: no response for %.0f s, of at most %.0f s (option serverAwayTimeoutMs).",
            servers,
            waited_s,
            limit.away_s,
        )


WAITS = WaitLog()
"""The log of this process."""
