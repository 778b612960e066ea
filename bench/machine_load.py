"""The cores that a benchmark runs on, and whether it has the machine to itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

from processes.process_table import Process, list_descendants

CORES = 2
"""What everything is measured on, however many the machine has."""
BUSY_CORES_MAX = 0.2
"""What others may use of the machine before a run that is kept."""
LOOKS_S = 5.0


def pin_cores() -> str:
    """Keeps this process, and all that it starts from now on, on the first cores; says which part of the machine."""
    allowed = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, allowed[:CORES])
    return f"{len(allowed[:CORES])} of {os.cpu_count()}"


class Others:
    """What other processes and the kernel use of the machine, in cores, while the run goes on."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._used_before_s = machine_cpu_s() - tree_cpu_s(os.getpid())

    def cores(self) -> float:
        """The average since the beginning. A process that left the run's tree counts as another."""
        used_s = machine_cpu_s() - tree_cpu_s(os.getpid()) - self._used_before_s
        return max(0.0, used_s / max(time.monotonic() - self._begun, 1e-9))


def look_around(seconds: float = LOOKS_S) -> float:
    """How many cores others use now, as an average over ``seconds``."""
    others = Others()
    time.sleep(seconds)
    return others.cores()


def machine_cpu_s() -> float:
    """Seconds of a core that the whole machine has used since its start; what a hypervisor took away counts too."""
    fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:]
    user, nice, system, _idle, _waiting, irq, softirq, steal = map(int, fields[:8])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def tree_cpu_s(pid: int) -> float:
    """Seconds of a core that a process has used, with all that it started."""
    used_s = 0.0
    for member in (pid, *list_descendants(pid)):
        try:
            used_s += Process(member).cpu_s() + Process(member).ended_children_cpu_s()
        except OSError:  # it ended meanwhile, and its parent has its time
            continue
    return used_s
