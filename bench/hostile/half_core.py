"""Limits a process to half a core: it is stopped (SIGSTOP) while it has used more, and then continues (SIGCONT).

This needs neither special rights nor cgroups, and it limits all threads of the process, those of gRPC too. An attack
that slept for as long as it computed would have to be written that way, and its other threads would run on.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from processes.process_table import Process

SHARE = 0.5
SAVED_S_MAX = 0.05
"""How much unused time a waiting process may save up: little, so that it gets no whole core for long afterwards."""
_LOOK_S = 0.004


class Budget:
    """The processor time that a process may still use. Times are in seconds."""

    def __init__(self, now_s: float, used_s: float) -> None:
        self._now_s = now_s
        self._used_s = used_s
        self._left_s = 0.0

    def may_run(self, now_s: float, used_s: float) -> bool:
        """Whether the process may run on, after it has used ``used_s`` in all."""
        earned_s = (now_s - self._now_s) * SHARE
        self._left_s = min(self._left_s + earned_s - (used_s - self._used_s), SAVED_S_MAX)
        self._now_s, self._used_s = now_s, used_s
        return self._left_s >= 0


@contextmanager
def half_core(pid: int) -> Iterator[None]:
    """Limits a process until the block ends. It may end before."""
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(pid, ended), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join(1)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _watch(pid: int, ended: threading.Event) -> None:
    process = Process(pid)
    runs = True
    with suppress(OSError):
        budget = Budget(time.monotonic(), process.cpu_s())
        while not ended.wait(_LOOK_S):
            may_run = budget.may_run(time.monotonic(), process.cpu_s())
            if may_run != runs:
                os.kill(pid, signal.SIGCONT if may_run else signal.SIGSTOP)
                runs = may_run
