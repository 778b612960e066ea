"""Partly received frames of the remoting protocol: how much memory they may hold together, and for how long.

No connection is turned away. When all frames together hold too much, the broker pauses the address that holds most and
reads only its oldest frames. When these are complete, or their clients have left, the next ones are read; a frame that
makes no progress becomes late, and its connection is closed. Other addresses are not affected.

Who is read is decided again only when it may change, so that a piece of a frame costs the same however many frames
there are. This module knows no sockets. The caller names each connection by a key of its own.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

HELD_BYTES_MAX = 256 << 20
"""Above this total, only the oldest frames of the address that holds most are read."""
READ_ON = 2
"""How many of that address's frames are still read. Otherwise none could become complete, and the broker would not
notice that their clients have left: the end of a connection comes after all that the client has sent."""
HELD_BYTES_FULL = HELD_BYTES_MAX + HELD_BYTES_MAX // 8
"""Above this total, no frame of any address is read beyond its first ``SMALL_FRAME_BYTES``."""
STEPS = 64
"""Parts of ``HELD_BYTES_MAX``. The total must fall by one part before the paused address is read again, and another
address must hold one part more to take its place, so that a small piece does not pause and resume thousands."""
SMALL_FRAME_BYTES = 1 << 20
"""This much of a frame is always read, except from the address that holds most."""
FRAME_MS_MAX = 30_000
BYTES_PER_S_MIN = 64 << 10
"""The time for a frame: ``FRAME_MS_MAX``, and a second more for each ``BYTES_PER_S_MIN`` received."""

K = TypeVar("K", bound=Hashable)


@dataclass(slots=True)
class _Frame:
    address: str
    began_ms: int
    held_bytes: int = 0


@dataclass(slots=True)
class _Address(Generic[K]):
    held_bytes: int = 0
    keys: OrderedDict[K, None] = field(default_factory=OrderedDict)
    """The oldest frame first."""


class UnfinishedFrames(Generic[K]):
    """The unfinished frame of each connection that has one. ``paused`` are the connections not to read from."""

    def __init__(self) -> None:
        self._frames: dict[K, _Frame] = {}
        self._addresses: dict[str, _Address[K]] = {}
        # The frames beyond their first SMALL_FRAME_BYTES: little more than HELD_BYTES_FULL // SMALL_FRAME_BYTES.
        self._large: dict[K, None] = {}
        # A heap of (-held bytes, address). An entry is out of date if the address no longer holds that much.
        self._by_bytes: list[tuple[int, str]] = []
        self._most: str | None = None
        self._is_full = False
        self.held_bytes = 0
        self.paused: set[K] = set()

    def note(self, key: K, address: str, held_bytes: int, now_ms: int) -> set[K]:
        """Notes how many bytes of its last frame a connection holds. Returns the connections to pause or resume, whose
        membership in ``paused`` has changed."""
        frame = self._frames.get(key)
        if frame is None:
            frame = self._frames[key] = _Frame(address, now_ms)
            self._addresses.setdefault(address, _Address()).keys[key] = None
        self._count(key, frame, held_bytes)
        return self._decide(key)

    def remove(self, key: K) -> set[K]:
        """Forgets the frame of a connection, because it is complete or the connection is closed. Returns as
        :meth:`note`."""
        frame = self._frames.get(key)
        if frame is None:
            return set()
        self._count(key, frame, 0)
        del self._frames[key]
        of_address = self._addresses[frame.address]
        del of_address.keys[key]
        if not of_address.keys:
            del self._addresses[frame.address]
        if not self._addresses:
            self._by_bytes.clear()
        return self._decide(key)

    def list_late(self, now_ms: int) -> list[K]:
        """Returns the connections whose frame takes too long."""
        return [
            key
            for key, frame in self._frames.items()
            if now_ms - frame.began_ms > FRAME_MS_MAX + frame.held_bytes * 1_000 // BYTES_PER_S_MIN
        ]

    def _count(self, key: K, frame: _Frame, held_bytes: int) -> None:
        of_address = self._addresses[frame.address]
        of_address.held_bytes += held_bytes - frame.held_bytes
        self.held_bytes += held_bytes - frame.held_bytes
        frame.held_bytes = held_bytes
        if held_bytes > SMALL_FRAME_BYTES:
            self._large[key] = None
        else:
            self._large.pop(key, None)
        heapq.heappush(self._by_bytes, (-of_address.held_bytes, frame.address))
        if len(self._by_bytes) > 2 * len(self._addresses) + 64:
            self._by_bytes = [(-each.held_bytes, address) for address, each in self._addresses.items()]
            heapq.heapify(self._by_bytes)

    def _decide(self, key: K) -> set[K]:
        """Decides who is paused, after a change of connection ``key``. Returns the connections to pause or resume."""
        most, is_full = self._choose_most(), self._choose_full()
        asked = {key, *self._list_read_on(most)}
        if most != self._most:
            asked.update(self._list_keys(self._most), self._list_keys(most))
        if is_full != self._is_full:
            asked.update(self._large)
        self._most, self._is_full = most, is_full
        changed = {each for each in asked if self._pauses(each) != (each in self.paused)}
        self.paused ^= changed
        return changed

    def _choose_most(self) -> str | None:
        """Returns the address to pause, if there is one."""
        leaves_room = self.held_bytes <= HELD_BYTES_MAX - (_find_step_bytes() if self._most is not None else 0)
        if leaves_room:
            return None
        most = self._find_most()
        if self._most in self._addresses:
            kept = self._addresses[self._most]
            if self._addresses[most].held_bytes <= kept.held_bytes + _find_step_bytes():
                return self._most
        return most

    def _find_most(self) -> str:
        while True:
            less, address = self._by_bytes[0]
            if address in self._addresses and self._addresses[address].held_bytes == -less:
                return address
            heapq.heappop(self._by_bytes)

    def _choose_full(self) -> bool:
        return self.held_bytes > HELD_BYTES_FULL - (_find_step_bytes() if self._is_full else 0)

    def _list_keys(self, address: str | None) -> Iterable[K]:
        of_address = None if address is None else self._addresses.get(address)
        return () if of_address is None else of_address.keys

    def _pauses(self, key: K) -> bool:
        frame = self._frames.get(key)
        if frame is None:
            return False
        if frame.address == self._most:
            return key not in self._list_read_on(frame.address)
        return self._is_full and key in self._large

    def _list_read_on(self, address: str | None) -> list[K]:
        return list(islice(self._list_keys(address), READ_ON))


def _find_step_bytes() -> int:
    return HELD_BYTES_MAX // STEPS
