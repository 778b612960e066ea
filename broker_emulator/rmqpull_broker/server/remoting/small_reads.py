"""Pauses reading from a connection whose frame comes in many small pieces: reading a byte costs as much as a request.

While a connection rests, the system collects what arrives. So a thousand connections that send byte by byte cost a few
reads a second each. A frame in a few pieces, as clients send it, never causes a rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SMALL_BYTES = 1 << 10
"""A read of fewer bytes counts as small."""
SMALL_READS_MAX = 16
"""Consecutive small reads of one frame before the first rest."""
REST_S = 0.5


class SmallReads:
    """Counts the small reads of a connection. Keeps no reference to it, so that the two are not a reference cycle."""

    __slots__ = ("_count", "is_resting")

    def __init__(self) -> None:
        self.is_resting = False
        self._count = 0

    def note(self, byte_count: int, read_or_not: Callable[[], None], *, has_completed: bool) -> None:
        """Notes a read of ``byte_count`` bytes, and whether it has completed a frame.

        Calls ``read_or_not`` when ``is_resting`` has changed, now and later.
        """
        if has_completed or byte_count >= SMALL_BYTES:
            self._count = 0
            return
        self._count += 1
        if self._count > SMALL_READS_MAX and not self.is_resting:
            self.is_resting = True
            asyncio.get_running_loop().call_later(REST_S, self._end, read_or_not)
            read_or_not()

    def _end(self, read_or_not: Callable[[], None]) -> None:
        self.is_resting = False
        read_or_not()
