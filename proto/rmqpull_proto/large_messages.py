"""Reuses the memory of large messages.

glibc maps every block of some hundred kilobytes separately, and returns it to the system when it is freed. A columnar
response has megabytes. Getting cleared pages for it from the system each time costs more than the rest of gRPC's work.
"""

from __future__ import annotations

import ctypes

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_FROM_HEAP_BYTES_MAX = 16 << 20
"""Blocks up to this size come from the heap: four full responses, or any message within gRPC's limit here."""
_KEPT_BYTES_MAX = 32 << 20
"""Free memory that a heap keeps at its end: enough for the responses that a task has in flight."""


def reuse_memory() -> None:
    """Makes this process keep freed memory for large messages. Does nothing where the C library has no such setting."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, _FROM_HEAP_BYTES_MAX)
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES_MAX)
