"""Tuning for a process that only runs the broker. It saves memory (no NumPy, one heap for all threads, freed memory
returned to the system) and keeps the pauses of the garbage collector short.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

LEFT_OUT = ("pandas", "numpy")

SEARCH_THRESHOLDS = (700, 5, 3)
"""A full collection visits up to 4 * 6 * 701 objects: some 10 ms, and 50 ms with five times as many."""

SWITCH_S = 0.0005
"""Seconds after which a busy thread hands the interpreter over to a waiting one."""

LOOK_S = 1.0
"""Seconds between two checks for memory that can be returned."""
FREED_BYTES_MIN = 16 << 20
"""Memory is returned when this much was freed, or the process has grown by this much, since the last return."""
BUSY_S = LOOK_S / 2
"""CPU time between two checks above which the broker is busy, and would need freed memory again at once."""

_BLOCK_BYTES = 64
"""A cautious average for Python's small objects, whose memory the C library does not report."""
_M_ARENA_MAX = -8
_STATM = "/proc/self/statm"
_HEAP_FIELDS = (
    *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
    *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
)
_ARROW_POOL = "ARROW_DEFAULT_MEMORY_POOL"
"""Arrow reads this environment variable when it is imported."""


class _Absent:
    """Hides the modules that are left out."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: object = None) -> None:
        if name in LEFT_OUT:
            raise ModuleNotFoundError(f"{name} is left out here", name=name)


def leave_out_numpy() -> None:
    """Hides pandas and NumPy from this process.

    pyarrow imports both, if they are installed, to recognize their types. The broker has no such objects, and saves
    0.3 s and 50 MB. Call this before any other import, and only in the broker's own process: a program that embeds a
    broker may need pyarrow to make data frames.
    """
    sys.meta_path.insert(0, _Absent())


def allow_many_connections() -> None:
    """Raises the limit of open files of this process to the most that the system allows.

    Each connection is an open file, and the usual limit is 1,024. Does nothing where the system has no such limit.
    """
    try:
        import resource  # only serve needs it, and not every system has it
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def share_one_heap() -> None:
    """Makes all threads and Arrow use one heap. Call this before Arrow is imported and before other threads start.

    glibc gives each thread its own heap. gRPC's threads receive batches, the event loop handles them and the log's
    thread writes them, and each heap keeps what it once needed: 460 MB after a million messages, and 260 MB with one
    heap. Arrow's own allocator keeps another 15 to 20 MB after 20,000 small sends. An allocator that the user chose for
    Arrow stays. Does nothing where the C library has no such setting.
    """
    import ctypes  # only serve needs it

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        os.environ.setdefault(_ARROW_POOL, "system")


def hand_over_often() -> None:
    """Lets a thread that waits for the interpreter have it after :data:`SWITCH_S`, and not after Python's 5 ms.

    A send goes from the event loop to the log's thread and back, and gRPC's threads take part. While the event loop is
    busy, each of these steps waits that long.
    """
    sys.setswitchinterval(SWITCH_S)


def keep_cycle_searches_short() -> None:
    """Makes each garbage collection visit only objects that no full collection has visited before.

    Python frees objects at once when nothing refers to them. For those that refer to each other, its garbage collector
    visits all objects again and again: half a second for a million consumer offsets, during which nobody gets an
    answer. What the broker keeps for long is in no cycle when it is dropped, so one visit is enough. What survives a
    full collection is frozen: no collection visits it again, and it is still freed when nothing refers to it.
    """
    gc.set_threshold(*SEARCH_THRESHOLDS)
    gc.callbacks.append(_freeze_survivors)


def _freeze_survivors(phase: str, info: Mapping[str, int]) -> None:
    if phase == "stop" and info["generation"] == len(SEARCH_THRESHOLDS) - 1:
        gc.freeze()


class FreedMemory:
    """Returns freed memory to the system while the broker is not busy.

    The C library keeps freed memory that lies below a block in use.
    Arguments: functions that read the process's resident bytes and the used bytes of its heap; one that drops caches,
    because one cached object can pin 1 MB of freed memory; one that returns freed memory; and one that reads the CPU
    time in seconds.
    """

    def __init__(
        self,
        read_resident: Callable[[], int],
        read_used: Callable[[], int],
        forget: Callable[[], object],
        trim: Callable[[], object],
        read_processor_s: Callable[[], float] = time.process_time,
    ) -> None:
        self._read_resident = read_resident
        self.read_used = read_used
        self._forget = forget
        self._trim = trim
        self._read_processor_s = read_processor_s
        self._resident = read_resident()
        self._used = read_used()
        self._processor_s = read_processor_s()

    def look(self) -> None:
        """Returns memory if enough was freed. Call it every :data:`LOOK_S`."""
        before_s, self._processor_s = self._processor_s, self._read_processor_s()
        resident, used = self._read_resident(), self.read_used()
        self._used = max(self._used, used)
        # What is allocated and freed between two checks shows only in the growth of the process.
        has_freed = resident - self._resident >= FREED_BYTES_MIN or self._used - used >= FREED_BYTES_MIN
        if has_freed and self._processor_s - before_s <= BUSY_S:
            self._forget()
            self._trim()
            self._resident, self._used = self._read_resident(), self.read_used()
            resident = self._resident
        self._resident = min(self._resident, resident)


def find_freed_memory(forget: Callable[[], object]) -> FreedMemory | None:
    """Finds out how this process returns memory; None where the C library or the system has no such calls.

    ``forget`` is that of :class:`FreedMemory`.
    """
    import ctypes  # only serve needs it

    class Heap(ctypes.Structure):
        """``struct mallinfo2``."""

        _fields_ = [(name, ctypes.c_size_t) for name in _HEAP_FIELDS]

    library = ctypes.CDLL(None)
    trim, tell_heap = getattr(library, "malloc_trim", None), getattr(library, "mallinfo2", None)
    if trim is None or tell_heap is None or not os.path.exists(_STATM):
        return None
    tell_heap.restype = Heap
    page_bytes = os.sysconf("SC_PAGE_SIZE")

    def read_resident() -> int:
        with open(_STATM, "rb") as file:
            return int(file.read().split()[1]) * page_bytes

    def read_used() -> int:
        heap = tell_heap()
        return int(heap.uordblks + heap.hblkhd) + sys.getallocatedblocks() * _BLOCK_BYTES

    def return_freed() -> None:
        gc.collect()  # also drops Python's free lists of tuples and dicts: one of them can pin 1 MB
        trim(0)

    return FreedMemory(read_resident, read_used, forget, return_freed)
