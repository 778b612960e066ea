"""Frames of the remoting protocol of which a part has been received: what they may hold together, and for how long.

No connection is turned away. When all hold too much, the broker reads no more from the address that holds most. Then
it holds no more of that address, and its frames become late, which ends their connections. The others go on.

This module knows no sockets. The caller names each connection by a key of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

HELD_BYTES_MAX = 256 << 20
"""What all unfinished frames may hold before the address that holds most is not read any more."""
HELD_BYTES_MOST = HELD_BYTES_MAX + HELD_BYTES_MAX // 8
"""What they may hold before nobody's frame is read beyond its first ``SMALL_FRAME_BYTES``."""
SMALL_FRAME_BYTES = 1 << 20
"""The beginning of a frame, which is always read from addresses that do not hold most."""
FRAME_MS_MAX = 30_000
BYTES_PER_S_MIN = 64 << 10
"""The time for a frame: ``FRAME_MS_MAX``, and a second more for so many bytes that have been received."""

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Frame:
    address: str
    began_ms: int
    held_bytes: int = 0


class UnfinishedFrames(Generic[K]):
    """The unfinished frame of each connection that has one. ``paused`` are the connections to read no more from."""

    def __init__(self) -> None:
        self._frames: dict[K, _Frame] = {}
        self._by_address: Counter[str] = Counter()
        self.held_bytes = 0
        self.paused: frozenset[K] = frozenset()

    def note(self, key: K, address: str, held_bytes: int, now_ms: int) -> None:
        """Counts the bytes that a connection holds of its last frame, and decides anew who is paused."""
        frame = self._frames.setdefault(key, _Frame(address, now_ms))
        self._count(frame, held_bytes)
        self._decide()

    def remove(self, key: K) -> None:
        """Forgets the frame of a connection, because it is complete or the connection is closed."""
        frame = self._frames.pop(key, None)
        if frame is not None:
            self._count(frame, 0)
            self._decide()

    def list_late(self, now_ms: int) -> list[K]:
        """Returns the connections whose frame takes too long."""
        return [
            key
            for key, frame in self._frames.items()
            if now_ms - frame.began_ms > FRAME_MS_MAX + frame.held_bytes * 1_000 // BYTES_PER_S_MIN
        ]

    def _count(self, frame: _Frame, held_bytes: int) -> None:
        more = held_bytes - frame.held_bytes
        frame.held_bytes = held_bytes
        self.held_bytes += more
        self._by_address[frame.address] += more
        if not self._by_address[frame.address]:
            del self._by_address[frame.address]

    def _decide(self) -> None:
        if self.held_bytes <= HELD_BYTES_MAX:
            self.paused = frozenset()
            return
        ((most, _),) = self._by_address.most_common(1)
        is_full = self.held_bytes > HELD_BYTES_MOST
        self.paused = frozenset(
            key
            for key, frame in self._frames.items()
            if frame.address == most or (is_full and frame.held_bytes > SMALL_FRAME_BYTES)
        )
