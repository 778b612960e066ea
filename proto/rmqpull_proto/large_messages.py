"""Memory of large messages, used again for the next ones.

glibc maps every block of some hundred kilobytes anew and gives it back when it is freed. An answer in columns has
megabytes: that the system hands out its pages, cleared, each time, is more than all else that gRPC does with it.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_FROM_HEAP_BYTES_MAX = 16 << 20
"""Blocks up to this size come from the heap: four full answers, or any message that gRPC takes as it is set up here."""
_KEPT_BYTES_MAX = 32 << 20
"""What a heap keeps free at its end before it gives memory back: the answers that a task has in flight at once."""


def use_memory_again() -> None:
    """Has this process keep some freed memory for large messages. Does nothing where the C library cannot be told."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_HEAP_BYTES_MAX)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
