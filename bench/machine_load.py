"""The cores that a benchmark runs on, and the load that others put on the machine."""

from __future__ import annotations

import os
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from rich.console import Console

from processes.process_table import Process, list_descendants

CORES = 2
"""All benchmarks run on this number of cores, however many the machine has."""
BUSY_CORES_MAX = 0.2
"""How many cores other processes may use before a run whose figures go into the docs."""
LOOKS_S = 5.0


def pin_cores() -> str:
    """Binds this process, and all that it starts later, to the first cores. Returns which share of the machine that
    is.
    """
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:CORES])
    return f"{len(allowed[:CORES])} of {os.cpu_count()}"


class Others:
    """The cores that other processes and the kernel use during a run."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._begun_at = datetime.now(timezone.utc)
        self._used_before_s = machine_cpu_s() - tree_cpu_s(os.getpid())

    def cores(self) -> float:
        """Returns the average since the start. A process that left the run's tree counts as another."""
        used_s = machine_cpu_s() - tree_cpu_s(os.getpid()) - self._used_before_s
        return max(0.0, used_s / max(time.monotonic() - self._begun, 1e-9))

    def describe_run(self) -> dict[str, str]:
        """Returns when the run began, its minutes until now, and :meth:`cores`, for the table of a run."""
        return {
            "begun": f"{self._begun_at:%Y-%m-%d %H:%M} UTC",
            "minutes": f"{(time.monotonic() - self._begun) / 60:.1f}",
            "cores used by others": f"{self.cores():.2f}",
        }


def look_around(seconds: float = LOOKS_S) -> float:
    """Returns the cores that others use now, on average over ``seconds``."""
    others = Others()
    time.sleep(seconds)
    return others.cores()


def refuse_a_busy_machine(is_kept: bool, console: Console) -> None:
    """Exits before a run for the docs if others use the machine. Warns before any other run."""
    busy = look_around()
    if busy <= BUSY_CORES_MAX:
        return
    seen = f"Other processes use {busy:.2f} cores of this machine; a benchmark allows at most {BUSY_CORES_MAX}."
    if is_kept:
        console.print(f"{seen} End them and try again, or write the figures to another file: --json FILE")
        sys.exit(2)
    console.print(f"{seen} The figures are measured anyway.")


def machine_cpu_s() -> float:
    """Returns the processor time of the whole machine since its start, with the time that a hypervisor took."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def tree_cpu_s(pid: int) -> float:
    """Returns the processor time of a process and all its descendants."""
    used_s = 0.0
    for member in (pid, *list_descendants(pid)):
        try:
            used_s += Process(member).cpu_s() + Process(member).ended_children_cpu_s()
        except OSError:  # it has ended, and its parent has its time
            continue
    return used_s
